"""engram and a plain loop on the same work, side by side in one run, as ratios."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engram.bench._draw import draw_growth as draw_growth
    from engram.bench._draw import draw_ratios as draw_ratios
    from engram.bench._growth import Growth as Growth
    from engram.bench._growth import fit_exponent as fit_exponent
    from engram.bench._growth import measure_growth as measure_growth
    from engram.bench._harness import Measured as Measured
    from engram.bench._harness import Side as Side
    from engram.bench._harness import Work as Work
    from engram.bench._harness import measure as measure
    from engram.bench._harness import ratio_text as ratio_text
    from engram.bench._limits import Limits as Limits
    from engram.bench._works import WORKS as WORKS

_HOMES = {
    "WORKS": "_works",
    "Limits": "_limits",
    "Growth": "_growth",
    "fit_exponent": "_growth",
    "measure_growth": "_growth",
    "draw_growth": "_draw",
    "draw_ratios": "_draw",
}


def __getattr__(name: str):
    # Lazy, because threads must be pinned before JAX is imported.
    import importlib

    return getattr(importlib.import_module(f"engram.bench.{_HOMES.get(name, '_harness')}"), name)
