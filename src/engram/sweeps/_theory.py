"""Where theory draws a line across a map, and how many cells lie on the wrong side of it."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from engram import memory
from engram._checks import InputError
from engram._memory_limits import loaded
from engram.capacity import loss_minimiser
from engram.specs import build_problem
from engram.sweeps._spec import read_sweep
from engram.sweeps._store import spec_of
from engram.theory import spike

_MOST_PROBLEMS = 4096  # of which a line is found one by one


class Boundary(NamedTuple):
    """A line across the map of a sweep.

    Args:
        label: What to call it.
        level: A field over the sweep's axes that is zero on the line, and positive on the side predicted.
        wrong: How many cells contradict it, and of how many.
        summary: The same in words.
    """

    label: str
    level: xr.DataArray
    wrong: tuple[int, int]
    summary: str


def boundary(data: xr.Dataset, name: str) -> Boundary:
    """A line of theory over a sweep: "one_step", "spike" or "stability".

    Paper: Section 4.2 for alpha = p_2/p_1; thm:spike for eta_s; Section 5.1 for 2/H.
    """
    if name not in LINES:
        raise InputError(
            f"`theory` must be among {', '.join(LINES)}, got {name!r}. Pick from those."
        )
    return LINES[name](data)


def _pair(data: xr.Dataset, name: str) -> tuple[xr.DataArray, xr.DataArray]:
    """Correlation and p1 over the axes of a sweep of two tokens."""
    problem = read_sweep(spec_of(data)).simulation.problem
    if problem["family"] != "two":
        raise InputError(
            f"`theory` = {name!r} is about two tokens, and this sweep has {problem['family']}. Leave it out."
        )
    along = lambda axis, fixed: data[axis] if axis in data.coords else xr.DataArray(float(fixed))
    if "log_odds" in data.coords:
        p1 = data["log_odds"].copy(data=1 / (1 + np.exp(-data["log_odds"].values)))
    else:
        p1 = along("p1", problem["p1"])
    return along("correlation", problem["correlation"]), p1


def _needs(data: xr.Dataset, theory: str, *names: str) -> None:
    """Refuse a sweep without these; read those that are there."""
    missing = [name for name in names if name not in data]
    if "learning_rate" in missing:
        raise InputError(
            f"`theory` = {theory!r} is a line across learning rates, and this sweep has one only. Make "
            "`learning_rate` an axis of it."
        )
    if missing:
        raise InputError(
            f"`theory` = {theory!r} needs `{missing[0]}`, which this sweep did not measure. Add it to its "
            "observables."
        )
    for name in names:
        loaded(data[name])


def _one_step(data: xr.Dataset) -> Boundary:
    _needs(data, "one_step", "first_perfect")
    alpha, p1 = _pair(data, "one_step")
    level = (1 - p1) / p1 - alpha  # positive: one step is enough
    at_once = data.first_perfect <= 1
    level_, at_once = xr.broadcast(level, at_once)
    beside = abs(level_) > 1e-12  # on the line the second margin is zero, and rounding decides
    wrong, total = int(((at_once != (level_ > 0)) & beside).sum()), int(at_once.size)
    summary = (
        f"alpha = p2/p1: {wrong} of {total} cells contradict 'one step is enough if and only if alpha < "
        "p2/p1'"
    )
    return Boundary("$\\alpha = p_2/p_1$", level, (wrong, total), summary)


def _spike(data: xr.Dataset) -> Boundary:
    _needs(data, "spike", "learning_rate", "max_loss")
    threshold, start = _thresholds(data)
    level = data["learning_rate"] - threshold
    above, spikes = xr.broadcast(level > 0, data.max_loss > start * (1 + 1e-12))
    missed, late = int((above & ~spikes).sum()), int((~above & spikes).sum())
    summary = (
        f"eta_s: {missed} of {int(above.sum())} cells above it never rise over log M (theory: none); "
        f"{late} of {int((~above).sum())} below it do so at a later step"
    )
    return Boundary(
        "$\\eta_s$", level.where(np.isfinite(level), -1.0), (missed, int(above.size)), summary
    )


def _thresholds(data: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """The learning rate above which the first step from zero raises the loss, and the loss at zero, log M."""
    spec = read_sweep(spec_of(data))
    if spec.simulation.problem["family"] == "two":
        alpha, p1 = xr.broadcast(*_pair(data, "spike"))
        threshold = np.full(alpha.shape, np.inf)
        inside = (alpha * p1 > 1 - p1).values
        threshold[inside] = spike.two_token_spike_threshold(alpha.values[inside], p1.values[inside])
        return alpha.copy(data=threshold), xr.DataArray(np.log(2))
    axes = [axis for axis, home in spec.homes.items() if home.table == "problem" or axis == "seed"]
    shape = tuple(len(spec.axes[axis]) for axis in axes)
    if math.prod(shape) > _MOST_PROBLEMS:
        raise InputError(
            f"`theory` = 'spike' looks at each problem, and this sweep has {math.prod(shape):,}. At most "
            f"{_MOST_PROBLEMS:,} are drawn: leave it out, or sweep fewer problems."
        )
    threshold, start = np.empty(shape), np.empty(shape)
    for index in np.ndindex(shape):
        values = {axis: spec.axes[axis][i].item() for axis, i in zip(axes, index, strict=True)}
        problem = build_problem(spec.at(values).simulation.problem)
        threshold[index] = spike.spike_threshold(problem)
        start[index] = np.log(problem.num_classes)
    coords = {axis: data[axis] for axis in axes}
    return xr.DataArray(threshold, coords, axes), xr.DataArray(start, coords, axes)


def _stability(data: xr.Dataset) -> Boundary:
    _needs(data, "stability", "learning_rate", "convergence")
    spec = read_sweep(spec_of(data))
    others = [axis for axis in spec.axes if axis not in ("learning_rate", "start_scale")]
    if others:
        raise InputError(
            f"`theory` = 'stability' is a line for one problem, and `{others[0]}` varies the problem. Fix it."
        )
    problem = build_problem(spec.simulation.problem)
    best = loss_minimiser(problem)
    if not best.exists:
        raise InputError(
            "`theory` = 'stability' needs a minimiser, and this problem is separable: it has none."
        )
    sharpness = float(memory.sharpness(problem, best.weights))
    level = data["learning_rate"] - 2 / sharpness
    settles = data.convergence == 0
    below = xr.broadcast(level < 0, settles)[0]
    early, late = int((below & ~settles).sum()), int((~below & settles).sum())
    summary = (
        f"2/lambda = {2 / sharpness:.6g}: {early} of {int(below.sum())} cells below it do not end at a fixed "
        f"point (cycles may begin earlier, or the run was too short), {late} of {int((~below).sum())} above "
        "it do"
    )
    return Boundary("$2/\\lambda$", level, (late, int(below.size)), summary)


LINES: dict[str, Callable[[Any], Boundary]] = {
    "one_step": _one_step,
    "spike": _spike,
    "stability": _stability,
}
