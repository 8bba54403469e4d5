"""Runs that figures make: what was recorded step by step, over learning rates, with progress reported."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import xarray as xr

from engram.dynamics import GradientDescent
from engram.planes import memory_plane
from engram.problem import Problem
from engram.simulation import simulate

Progress = Callable[[int, int], None]  # how much is done, of how much


def silent(done: int, total: int) -> None:
    """Report to nobody."""


def reported(items: Sequence[Any], progress: Progress) -> Iterator[Any]:
    """Each item, and a report when its turn is over."""
    for index, item in enumerate(items):
        yield item
        progress(index + 1, len(items))


def records_of(
    problem: Problem, dynamics: Any, record: tuple[str, ...], **options: Any
) -> xr.Dataset:
    """A run's records, with its path in the plane as `gamma` instead of its weights."""
    run = simulate(problem, dynamics, record=record, events=False, **options)
    kept = run.drop_vars([name for name in run.variables if "step" not in run[name].dims])
    kept = kept.drop_vars("time").assign_attrs({})
    if "weights" not in kept:
        return kept
    path, _ = memory_plane(problem).coordinates(problem, run.weights.values)
    return kept.drop_vars("weights").assign(gamma=(("step", "component"), path))


def descents(
    problem: Problem, rates: Sequence[float], steps: int, record: tuple[str, ...], **options: Any
) -> xr.Dataset:
    """The records of full-batch descent at each learning rate."""
    runs = [records_of(problem, GradientDescent(rate, steps), record, **options) for rate in rates]
    return xr.concat(runs, xr.Variable("learning_rate", list(rates)))
