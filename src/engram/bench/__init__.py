"""engram and a plain loop on the same task, side by side in one run, as ratios."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engram.bench._benchmarks import BENCHMARKS as BENCHMARKS
    from engram.bench._compare import Change as Change
    from engram.bench._compare import compare as compare
    from engram.bench._compare import read_measured as read_measured
    from engram.bench._draw import draw_growth as draw_growth
    from engram.bench._draw import draw_ratios as draw_ratios
    from engram.bench._growth import Growth as Growth
    from engram.bench._growth import fit_exponent as fit_exponent
    from engram.bench._growth import measure_growth as measure_growth
    from engram.bench._harness import Benchmark as Benchmark
    from engram.bench._harness import Measured as Measured
    from engram.bench._harness import Side as Side
    from engram.bench._harness import measure as measure
    from engram.bench._harness import ratio_text as ratio_text
    from engram.bench._limits import Limits as Limits
    from engram.bench._process import peak_bytes as peak_bytes
    from engram.bench._process import pin_threads as pin_threads
    from engram.bench._process import processor_seconds as processor_seconds
    from engram.bench._torch import NoPeer as NoPeer

# In the order in which they import one another.
_HOMES = (
    "_process",
    "_torch",
    "_limits",
    "_harness",
    "_compare",
    "_growth",
    "_draw",
    "_benchmarks",
)


def __getattr__(name: str) -> Any:
    # Lazy: threads are pinned before JAX is imported, and a process whose peak is measured needs none.
    for home in _HOMES:
        module = importlib.import_module(f"engram.bench.{home}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'engram.bench' has no attribute {name!r}")
