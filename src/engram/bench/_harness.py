"""How two sides are timed fairly: same process, same cores, warm, in turns, medians with spread."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from engram.bench._limits import Limits


@dataclasses.dataclass(frozen=True)
class Side:
    """One way to do a unit of work: `call` does `units` of them and returns when they are done.

    If it returns a text, that becomes the note beside the result.
    """

    call: Callable[[], Any]
    units: int = 1


@dataclasses.dataclass(frozen=True)
class Work:
    """A piece of work, done by engram and by what a competent user would write without it.

    Args:
        name: What it is called on the command line.
        work: What one unit is, for people.
        prepare: Builds both sides when the work is run; the peer may instead be a text that says
            why there is none.
        against: What the peer is, in a few words.
        dtype: The floats it computes with.
        flops: Arithmetic of the matrix products of one unit.
        exps: Exponentials of one unit.
        repeats: At most this many timed rounds.
        warm_up: Whether to call both sides once before timing.
    """

    name: str
    work: str
    prepare: Callable[[], tuple[Side, Side | str]]
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


def ratio_text(ratio: float) -> str:
    """A ratio for people: 31,198 or 2.51."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def seconds(call: Callable[[], Any]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(work: Work, limits: Limits, *, repeats: int) -> Measured:
    """Run a work: both sides once to warm up, then in turns."""
    ours, theirs = work.prepare()
    sides = [ours] + ([theirs] if isinstance(theirs, Side) else [])
    notes = [[] for _ in sides]
    first = [seconds(side.call) for side in sides] if work.warm_up else []
    times = np.empty((min(repeats, work.repeats), len(sides)))
    for index in np.ndindex(times.shape):
        start = time.perf_counter()
        said = sides[index[1]].call()
        times[index] = time.perf_counter() - start
        notes[index[1]] = [said] if isinstance(said, str) else []
    units = np.array([side.units for side in sides])
    rates = units / np.median(times, axis=0)
    quartiles = np.quantile(times, [0.25, 0.75], axis=0)
    spreads = (quartiles[1] - quartiles[0]) / np.median(times, axis=0)
    best = limits.seconds(work.dtype, work.flops, work.exps)
    has_peer = len(sides) > 1
    return Measured(
        name=work.name,
        work=work.work,
        against=work.against if has_peer else "",
        engram=float(rates[0]),
        peer=float(rates[1]) if has_peer else None,
        ratio=float(rates[0] / rates[1]) if has_peer else None,
        limit_fraction=float(best * rates[0]) if best else None,
        spread=float(spreads[0]),
        peer_spread=float(spreads[1]) if has_peer else None,
        first=first[0] if first else None,
        peer_first=first[1] if first and has_peer else None,
        note="; ".join(
            [
                *notes[0],
                *(f"peer: {said}" for said in sum(notes[1:], [])),
                *([theirs] if isinstance(theirs, str) else []),
            ]
        ),
    )
