"""drive: the loop on the host over whatever moves in pieces, and a ledger that takes any length."""

import math
import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from engram.dynamics import Ledger
from engram.dynamics._ledger import Entries, ledgers_of, with_ledgers

MOST_ENTRIES = 2**20  # kept of a ledger in a run; the rest is counted


@runtime_checkable
class Mover(Protocol):
    """Something that goes on piece by piece."""

    @property
    def is_over(self) -> bool: ...

    @property
    def so_far(self) -> tuple[int, int]:
        """How far it is, and how far it goes."""
        ...

    def move(self) -> None:
        """Go on by a piece that takes a second or less."""
        ...

    def save(self) -> None:
        """Keep what was done."""
        ...


def drive(
    mover: Mover,
    progress: Callable[[int, int], None] | None = None,
    *,
    patience: float = math.inf,
) -> None:
    """Go on until it is over, reporting progress; saved every so many seconds, and however it ends.

    Ctrl-C, or an exception of `progress`, ends it between two pieces or within one; `save` comes after.
    """
    last = time.monotonic()
    try:
        while not mover.is_over:
            mover.move()
            if time.monotonic() - last > patience:
                mover.save()
                last = time.monotonic()
            if progress is not None:
                progress(*mover.so_far)
    finally:
        mover.save()


class Drained:
    """What was taken out of the ledgers of a run, as far as there is room on the host."""

    def __init__(self) -> None:
        self._parts: list[list[Any]] = []
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more is kept; what comes is counted by the fold itself."""
        return self._count >= MOST_ENTRIES

    def take(self, tree: Any) -> Any:
        """Take out what the ledgers of a pytree hold, if one is half full; return it with empty ones."""
        ledgers = ledgers_of(tree)
        if not any(2 * int(ledger.count) > ledger.capacity for ledger in ledgers):
            return tree
        empty = with_ledgers(tree, Ledger.emptied)
        if not self.is_full:
            parts = [ledger.entries() for ledger in ledgers]
            self._count += max(map(len, jax.tree.leaves(parts)), default=0)
            self._parts.append(parts)
        return empty

    def restored(self, tree: Any) -> Any:
        """The pytree with all that was taken out in the place of its ledgers; on the host."""
        self._parts.append([ledger.entries() for ledger in ledgers_of(tree)])
        whole = zip(*self._parts, strict=True)
        joined = lambda *parts: np.concatenate(parts)[:MOST_ENTRIES]
        return with_ledgers(tree, lambda _: Entries(jax.tree.map(joined, *next(whole))))
