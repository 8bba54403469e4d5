"""Certificates: two sides of a comparison as balls that contain the exact numbers (python-flint).

Every operation on balls rounds outwards, so two balls that do not touch prove which number is larger.
"""

from dataclasses import dataclass
from typing import Literal

from flint import arb, ctx, fmpq

Relation = Literal["<", "<=", "==", ">=", ">"]
Exact = int | fmpq | arb


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

    @property
    def is_proved(self) -> bool:
        left, right = arb(self.left), arb(self.right)
        below, above = bool(left < right), bool(left > right)
        if self.violates:
            return {
                "<": above or _same(self.left, self.right),
                "<=": above,
                "==": below or above,
                ">=": below,
                ">": below or _same(self.left, self.right),
            }[self.relation]
        return {
            "<": below,
            "<=": below or bool(left <= right),
            "==": _same(self.left, self.right),
            ">=": above or bool(left >= right),
            ">": above,
        }[self.relation]

    def __str__(self) -> str:
        return f"{self.statement}: {'in fact ' if self.violates else ''}{self.sides()}"

    def sides(self, digits: int = 10) -> str:
        """Both sides as decimal numbers, all digits shown being right."""
        left, right = (show(side, digits) for side in (self.left, self.right))
        if left == right and self._met != "=" and digits < 100:
            return self.sides(2 * digits)
        return f"{left} {self._met} {right}"

    @property
    def _met(self) -> str:
        if _same(self.left, self.right):
            return "="
        return "<" if bool(arb(self.left) < arb(self.right)) else ">"


def _same(left: Exact, right: Exact) -> bool:
    """Whether both are exact and equal."""
    if isinstance(left, arb) or isinstance(right, arb):
        left, right = arb(left), arb(right)
        return left.is_exact() and right.is_exact() and bool(left == right)
    return fmpq(left) == fmpq(right)


def show(value: Exact, digits: int = 10) -> str:
    """A number as text: a small fraction as it is, else decimals that are all right."""
    if isinstance(value, int) or (isinstance(value, fmpq) and value.q <= 10_000):
        return str(value)
    before, ctx.prec = ctx.prec, 512  # as many digits of a fraction as are asked for
    try:
        return arb(value).str(digits, radius=False)
    finally:
        ctx.prec = before
