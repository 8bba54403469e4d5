"""engram and a plain loop on the same work, side by side in one run, as ratios."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engram.bench._harness import Measured as Measured
    from engram.bench._harness import Side as Side
    from engram.bench._harness import Work as Work
    from engram.bench._harness import measure as measure
    from engram.bench._limits import Limits as Limits
    from engram.bench._works import WORKS as WORKS


def __getattr__(name: str):
    # Lazy, because threads must be pinned before JAX is imported.
    import importlib

    homes = {"WORKS": "_works", "Limits": "_limits"}
    return getattr(importlib.import_module(f"engram.bench.{homes.get(name, '_harness')}"), name)
