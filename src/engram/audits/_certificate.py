"""Certificates: two sides of a comparison as balls that contain the exact numbers (python-flint).

Every operation on balls rounds outwards, so two balls that do not touch prove which number is larger.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from flint import arb, fmpq, fmpz

from engram._checks import InputError, brief, check_choice
from engram.audits._balls import precision

Relation = Literal["<", "<=", "==", ">=", ">"]
Exact = int | fmpz | fmpq | arb


@dataclass(frozen=True)
class Certificate:
    """A comparison decided by balls.

    Args:
        statement: What is compared, in words and numbers.
        left: The left side, exact or enclosed.
        relation: What is claimed of the two sides.
        right: The right side.
        violates: Whether the balls are to refute the relation (a counterexample) or to prove it.
    """

    statement: str
    left: Exact
    relation: Relation
    right: Exact
    violates: bool = True

    def __post_init__(self) -> None:
        # An unknown relation contains no order, which would count as a violation.
        check_choice("relation", self.relation, get_args(Relation))
        for name in ("left", "right"):
            if not isinstance(side := getattr(self, name), Exact):
                raise InputError(
                    f"`{name}` must be a whole number, or an fmpq or arb of python-flint, got {brief(side)}. "
                    "What was rounded before proves nothing."
                )

    @property
    def is_proved(self) -> bool:
        return bool(self.order) and (self.order in self.relation) != self.violates

    @property
    def order(self) -> Literal["<", "=", ">", ""]:
        """How the two sides surely compare; empty if the balls leave it open."""
        left, right = arb(self.left), arb(self.right)
        if left < right:
            return "<"
        if left > right:
            return ">"
        if isinstance(self.left, arb) or isinstance(self.right, arb):
            is_same = left.is_exact() and right.is_exact() and left == right
        else:
            is_same = fmpq(self.left) == fmpq(self.right)
        return "=" if is_same else ""

    def __str__(self) -> str:
        return f"{self.statement}: {'in fact ' if self.violates else ''}{self.sides()}"

    def sides(self, digits: int = 10) -> str:
        """Both sides as decimal numbers, all digits shown being right."""
        left, right = (show(side, digits) for side in (self.left, self.right))
        if left == right and self.order != "=" and digits < 100:
            return self.sides(2 * digits)
        return f"{left} {self.order or '?'} {right}"


def proof(statement: str, left: Exact, relation: Relation, right: Exact) -> Certificate:
    """A comparison that the balls are to prove."""
    return Certificate(statement, left, relation, right, violates=False)


def show(value: Exact, digits: int = 10) -> str:
    """A number as text: a small fraction as it is, else decimals that are all right."""
    if isinstance(value, int | fmpz) or (isinstance(value, fmpq) and value.q <= 10_000):
        return str(value)
    with precision(150):  # as many digits of a fraction as are asked for
        return arb(value).str(digits, radius=False)
