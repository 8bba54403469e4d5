"""How cost grows: time against one size at a time, and the exponent of a power law through it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from engram import memory
from engram.bench._harness import seconds
from engram.bench._memory import step_flops
from engram.problem import gaussian
from engram.sweeps import sweep

_REPEATS = 7


@dataclasses.dataclass(frozen=True)
class Growth:
    """Median seconds at each size; both exponents are slopes of least squares through the logarithms.

    Args:
        name: The task and the size that varies.
        size: What that size is called.
        fixed: What stays as it is.
        sizes: Its values.
        seconds: Median time of one unit at each.
        exponent: The slope of the times.
        error: Its standard error.
        counted: The slope of the number of operations, counted on paper, over the same sizes.
    """

    name: str
    size: str
    fixed: str
    sizes: list[int]
    seconds: list[float]
    exponent: float
    error: float
    counted: float


def fit_exponent(sizes: Any, times: Any) -> tuple[float, float]:
    """The slope of log time over log size, and its standard error."""
    fit: Any = np.polyfit(np.log(sizes), np.log(times), 1, cov=True)
    (slope, _), covariance = fit
    return float(slope), float(np.sqrt(covariance[0, 0]))


def _gradient(N: int, M: int, d: int) -> Callable[[], Any]:
    with jax.enable_x64(True):
        problem, W = jax.device_put((gaussian(0, N, M, d), np.zeros((d, d))))
    return lambda: jax.block_until_ready(memory.grad(problem, W))


def _grid(side: int) -> Callable[[], Any]:
    spec: Any = {
        "problem": {"family": "two", "p1": 0.75},
        "dynamics": {"kind": "gd", "steps": 1000},
        "axes": {
            "correlation": {"linspace": [0.5, 0.95, side]},
            "learning_rate": {"logspace": [-1, 1, side]},
        },
        "sweep": {"observables": ["final_loss"]},
    }
    return lambda: sweep(spec, threads=1)


_Make = Callable[[int], Callable[[], Any]]
_COUNTS = [250, 500, 1000, 2000, 4000]
_TASKS: list[tuple[str, str, str, list[int], _Make, Callable[[int], float]]] = [
    ("gradient against N", "N", "M = 1000, d = 128", _COUNTS,
     lambda n: _gradient(n, 1000, 128), lambda n: step_flops(n, 1000, 128)),
    ("gradient against M", "M", "N = 1000, d = 128", _COUNTS,
     lambda n: _gradient(1000, n, 128), lambda n: step_flops(1000, n, 128)),
    ("gradient against d", "d", "N = M = 1000", [64, 128, 256, 512, 1024],
     lambda n: _gradient(1000, 1000, n), lambda n: step_flops(1000, 1000, n)),
    ("sweep against cells", "cells", "two tokens, 1000 steps",
     [10_000, 40_000, 160_000, 640_000], lambda n: _grid(round(n**0.5)), float),
]  # fmt: skip


def measure_growth(report: Callable[[str], None] = lambda _: None) -> list[Growth]:
    """Time every task at every size, warm."""
    rows = []
    for name, size, fixed, sizes, make, count in _TASKS:
        report(f"{name}: {', '.join(f'{n:,}' for n in sizes)} ({fixed})")
        times = []
        for n in sizes:
            call = make(n)
            call()
            times.append(float(np.median([seconds(call) for _ in range(_REPEATS)])))
        exponent, error = fit_exponent(sizes, times)
        counted, _ = fit_exponent(sizes, [count(n) for n in sizes])
        rows.append(Growth(name, size, fixed, sizes, times, exponent, error, counted))
    return rows
