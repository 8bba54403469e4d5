"""Folds: several reductions over every step, side by side."""

from typing import Any

from engram._types import Array, PyTree
from engram.dynamics import AbstractFold, Moment
from engram.system import AbstractSystem


class Folds(AbstractFold):
    """Several folds as one, each step taken in by all of them."""

    folds: tuple[AbstractFold, ...]

    @property
    def reads_states(self) -> bool:
        return any(fold.reads_states for fold in self.folds)

    def init(self, system: AbstractSystem, state: PyTree) -> PyTree:
        return tuple(fold.init(system, state) for fold in self.folds)

    def update(self, folded: PyTree, index: Array, moment: Moment) -> PyTree:
        return tuple(
            fold.update(part, index, moment) for fold, part in zip(self.folds, folded, strict=True)
        )

    def describe(self, folded: PyTree, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        return self._all("describe", folded, last)

    def describe_all(self, folded: PyTree, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        return self._all("describe_all", folded, last)

    def _all(self, method: str, folded: PyTree, last: int) -> dict[str, Any]:
        described: dict[str, Any] = {}
        for fold, part in zip(self.folds, folded, strict=True):
            for name, value in getattr(fold, method)(part, last).items():
                # Nothing is lost to another of the same name.
                while name in described:
                    name = f"{type(fold).__name__.lower()}_{name}"
                described[name] = value
        return described
