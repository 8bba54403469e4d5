"""How two sides are timed fairly: same process, same cores, warm, in turns, medians with spread."""

import dataclasses
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.stats import binom

from engram.bench._limits import Limits
from engram.bench._torch import NoPeer


@dataclasses.dataclass(frozen=True)
class Side:
    """One way to do the task: `call` does `units` of it and returns when they are done.

    If it returns a text, that becomes the note beside the result.
    """

    call: Callable[[], Any]
    units: int = 1


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A task, done by engram and by what a competent user would write without it.

    Args:
        name: What it is called on the command line.
        unit: What one unit of it is, for people.
        prepare: Yields engram's side, then the peer's, or raises `NoPeer` instead of the second.
        against: What the peer is, in a few words.
        dtype: The floats it computes with.
        flops: Arithmetic of the matrix products of one unit.
        exps: Exponentials of one unit.
        repeats: At most this many timed rounds.
        warm_up: Whether to call both sides once before timing.
    """

    name: str
    unit: str
    prepare: Callable[[], Iterable[Side]]
    against: str = ""
    dtype: str = "float64"
    flops: int | float = 0.0
    exps: int | float = 0.0
    repeats: int = 1000
    warm_up: bool = True


@dataclasses.dataclass(frozen=True)
class Measured:
    """Rates in units per second (larger is better); `spread` is the quartile range over the median.

    The first call of each side, with whatever it compiles, is apart: `first` and `peer_first`, in seconds.
    `interval` and `ratio_interval` hold the rate and the ratio with 99 %, whatever the distribution of times
    (of fewer than eight rounds they are all that was met).
    """

    name: str
    work: str
    against: str
    engram: float
    peer: float | None
    ratio: float | None
    limit_fraction: float | None
    spread: float
    peer_spread: float | None
    first: float | None
    peer_first: float | None
    note: str
    interval: tuple[float, float] | None = None
    ratio_interval: tuple[float, float] | None = None


def ratio_text(ratio: float) -> str:
    """A ratio for people: 31,198 or 2.51."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def seconds(call: Callable[[], Any], clock: Callable[[], float] | None = None) -> float:
    """How long one call takes."""
    clock = clock or time.perf_counter
    start = clock()
    call()
    return clock() - start


def measure(
    benchmark: Benchmark,
    limits: Limits,
    *,
    repeats: int,
    clock: Callable[[], float] | None = None,
) -> Measured:
    """Run a benchmark: both sides once to warm up, then in turns; by default on the clock on the wall."""
    clock = clock or time.perf_counter
    prepared, notes = iter(benchmark.prepare()), ["", ""]
    sides = [next(prepared)]
    try:
        sides.append(next(prepared))
    except NoPeer as why:
        notes[1] = str(why)
    first: list[Any] = [None, None]
    if benchmark.warm_up:
        first = [*(seconds(side.call, clock) for side in sides), None]
    times = np.empty((min(repeats, benchmark.repeats), len(sides)))
    for index in np.ndindex(times.shape):
        start = clock()
        result = sides[index[1]].call()
        times[index] = clock() - start
        if isinstance(result, str):
            notes[index[1]] = f"peer: {result}" if index[1] else result
    medians, quartiles = np.median(times, axis=0), np.quantile(times, [0.25, 0.75], axis=0)
    rates = [*([side.units for side in sides] / medians).tolist(), None]
    spreads = [*((quartiles[1] - quartiles[0]) / medians).tolist(), None]
    best = limits.seconds(benchmark.dtype, benchmark.flops, benchmark.exps)
    return Measured(
        name=benchmark.name,
        work=benchmark.unit,
        against=benchmark.against if rates[1] else "",
        engram=rates[0],
        peer=rates[1],
        ratio=rates[0] / rates[1] if rates[1] else None,
        limit_fraction=best * rates[0] if best else None,
        spread=spreads[0],
        peer_spread=spreads[1],
        first=first[0],
        peer_first=first[1],
        note="; ".join(filter(None, notes)),
        interval=median_interval(sides[0].units / times[:, 0]),
        ratio_interval=median_interval(times[:, 1] / times[:, 0] * sides[0].units / sides[1].units)
        if rates[1]
        else None,
    )


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """The order statistics between which the median lies with 99 %: signs of deviations are fair coins."""
    ordered, outside = np.sort(values), binom.ppf(0.005, len(values), 0.5)
    cut = int(max(outside - 1, 0))
    return float(ordered[cut]), float(ordered[-1 - cut])
