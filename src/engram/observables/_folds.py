"""Folds: several reductions over every step, side by side."""

from typing import Any

from jaxtyping import PyTree

from engram._types import Array
from engram.dynamics import AbstractFold, Moment
from engram.system import AbstractSystem


class Folds(AbstractFold):
    """Several folds as one, each step taken in by all of them."""

    folds: tuple[AbstractFold, ...]

    def init(self, system: AbstractSystem, state: PyTree) -> Any:
        return tuple(fold.init(system, state) for fold in self.folds)

    def update(self, folded: Any, index: Array, moment: Moment) -> Any:
        return tuple(
            fold.update(part, index, moment) for fold, part in zip(self.folds, folded, strict=True)
        )

    def describe(self, folded: Any, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        found: dict[str, Any] = {}
        for fold, part in zip(self.folds, folded, strict=True):
            found |= fold.describe(part, last)
        return found
