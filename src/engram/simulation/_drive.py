"""drive: the loop on the host over whatever moves in pieces."""

import math
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable


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
