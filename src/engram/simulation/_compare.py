"""compare: several dynamics on one problem, aligned in the time eta t."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, check_choice
from engram._types import ArrayLike
from engram.dynamics import AbstractDynamics, AbstractFlow, GradientDescent
from engram.problem import Problem
from engram.simulation._simulate import simulate


def compare(
    problem: Problem,
    dynamics: Any,
    *,
    times: ArrayLike | None = None,
    num: int = 200,
    spacing: str = "linear",
    start: ArrayLike | None = None,
    record: Sequence[str] = ("loss", "error", "margins"),
    space: str = "auto",
    key: PRNGKeyArray | int | None = None,
) -> xr.Dataset:
    """Run several dynamics on one problem and align them in the time eta t.

    Each run is recorded at the steps nearest to common times; `run_time` says when that was. Where
    a run has ended, its records are NaN.

    Args:
        problem: What is to be remembered.
        dynamics: Dynamics by the names they shall have in the result.
        times: The common times; by default `num` of them up to the longest run's end.
        num: How many, when `times` is not given.
        spacing: "linear" or "log", when `times` is not given.
        start: The common start, zero by default.
        record: Names of observables.
        space: As for `simulate`.
        key: A JAX key or a seed, the same for all, for those that draw.

    Returns:
        A dataset with the dimensions `dynamics` and `time`, besides those of the observables.
    """
    if not isinstance(dynamics, Mapping) or not dynamics:
        raise InputError(
            "`dynamics` must be a dictionary from names to dynamics, got "
            f"{type(dynamics).__name__}. Write {{'slow': GradientDescent(1.0, 100), ...}}."
        )
    for name, each in dynamics.items():
        if not isinstance(each, AbstractDynamics):
            raise InputError(f"`dynamics` must hold engram's dynamics, got {each!r} for {name!r}.")
    check_choice("spacing", spacing, ("linear", "log"))
    if times is None:
        end = max(_end(name, each) for name, each in dynamics.items())
        grid = np.linspace(0, 1, num)
        times = end * grid if spacing == "linear" else np.expm1(grid * np.log1p(end))
    common = np.asarray(times, dtype=float)
    runs = [
        _aligned(problem, each, common, start=start, record=record, space=space, key=key)
        for each in dynamics.values()
    ]
    together = xr.concat(runs, dim=xr.Variable("dynamics", list(dynamics)), join="outer")
    together["time"].attrs = {"long_name": "flow time, the sum of the learning rates"}
    return together


def _end(name: str, dynamics: AbstractDynamics) -> float:
    if not np.isfinite(dynamics.end):
        raise InputError(
            f"`dynamics` has no known learning rate for {name!r}: it cannot be aligned. Use one of "
            "engram.dynamics' own optimizers."
        )
    return dynamics.end


def _aligned(problem: Problem, dynamics: Any, common: np.ndarray, **options: Any) -> xr.Dataset:
    inside = common <= dynamics.end * (1 + 1e-12)
    if not inside.any():
        return _nothing(problem, dynamics, common, **options)
    if isinstance(dynamics, AbstractFlow):
        found = simulate(problem, dynamics.at(common[inside]), events=False, **options)
        found = found.assign_coords(run_time=("time", found.time.values))
        return _only_records(found).reindex(time=common)
    when = dynamics.time_at(np.arange(dynamics.num_steps + 1))
    after = np.clip(np.searchsorted(when, common[inside]), 1, max(len(when) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(when) - 1)
    closer = np.abs(when[after] - common[inside]) < np.abs(common[inside] - when[before])
    nearest = np.where(closer, after, before)
    steps, back = np.unique(nearest, return_inverse=True)
    found = simulate(problem, dynamics, at=steps, events=False, **options)
    reached = back < found.sizes["step" if "step" in found.dims else "time"]
    along = "step" if "step" in found.dims else "time"
    found = found.assign_coords(run_time=(along, found.time.values))
    picked = _only_records(found).isel({along: back[reached]})
    picked = picked.drop_vars([name for name in ("step", "time") if name in picked.coords])
    if along == "step":
        picked = picked.rename({"step": "time"})
    return picked.assign_coords(time=common[inside][reached]).reindex(time=common)


def _nothing(problem: Problem, dynamics: Any, common: np.ndarray, **options: Any) -> xr.Dataset:
    """A run that ended before the first common time: its records are NaN throughout."""
    first = (
        dynamics.at(np.zeros(1)) if isinstance(dynamics, AbstractFlow) else GradientDescent(0.0, 0)
    )
    start = simulate(problem, first, events=False, **options)
    along = "step" if "step" in start.dims else "time"
    blank = _only_records(start.assign_coords(run_time=(along, [np.nan])))
    blank = blank.drop_vars([name for name in ("step", "time") if name in blank.coords])
    blank = blank.rename({along: "time"}) if along == "step" else blank
    return blank.assign_coords(time=[-1.0]).reindex(time=common)


def _only_records(found: xr.Dataset) -> xr.Dataset:
    along = "step" if "step" in found.dims else "time"
    names = [name for name, variable in found.data_vars.items() if along in variable.dims]
    kept = found[names].reset_coords("run_time")
    kept.attrs = {}
    return kept
