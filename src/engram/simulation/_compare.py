"""compare: several dynamics on one problem, aligned in the time eta t."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, check_choice
from engram._types import ArrayLike, Space, StateLike, Table
from engram.dynamics import AbstractDynamics, AbstractFlow
from engram.problem import Problem
from engram.simulation._simulate import simulate
from engram.system import AbstractSystem


def compare(
    problem: Problem | AbstractSystem,
    dynamics: Mapping[str, AbstractDynamics],
    *,
    times: ArrayLike | None = None,
    num: int = 200,
    spacing: Literal["linear", "log"] = "linear",
    start: StateLike | None = None,
    record: str | Sequence[str | Table] = ("loss", "error", "margins"),
    space: Space = "auto",
    key: PRNGKeyArray | int | None = None,
) -> xr.Dataset:
    """Run several dynamics on one problem and align them in the time eta t.

    Each run is recorded at the steps nearest to common times; `run_time` says when that was. Where
    a run has ended, its records are NaN.

    Args:
        problem: What is to be remembered, or a system.
        dynamics: Dynamics by the names they have in the result.
        times: The common times; by default `num` of them up to the longest run's end.
        num: How many, when `times` is not given.
        spacing: "linear" or "log", when `times` is not given.
        start: The common start, zero by default.
        record: Names of observables.
        space: As for `simulate`.
        key: A JAX key or a seed, the same for all, for those that draw.

    Returns:
        A dataset with the dimensions `dynamics` and `time`, and those of the observables.
    """
    if not isinstance(dynamics, Mapping) or not dynamics:
        raise InputError(
            "`dynamics` must be a dictionary from names to dynamics, got "
            f"{type(dynamics).__name__}. Write {{'slow': GradientDescent(1.0, 100), ...}}."
        )
    for name, each in dynamics.items():
        if not isinstance(each, AbstractDynamics):
            raise InputError(f"`dynamics` must hold engram's dynamics, got {each!r} for {name!r}.")
        if times is None and not np.isfinite(each.end):
            raise InputError(
                f"`dynamics` has no known learning rate for {name!r}: it cannot be aligned. Use one of "
                "engram.dynamics' own optimizers."
            )
    check_choice("spacing", spacing, ("linear", "log"))
    if times is None:
        end = max(each.end for each in dynamics.values())
        grid = np.linspace(0, 1, num)
        times = end * grid if spacing == "linear" else np.expm1(grid * np.log1p(end))
    common = np.asarray(times, dtype=float)
    options: Any = {"start": start, "record": record, "space": space, "key": key, "events": False}
    runs = [_aligned(problem, each, common, options) for each in dynamics.values()]
    together = xr.concat(runs, dim=xr.Variable("dynamics", list(dynamics)), join="outer")
    together["time"].attrs = {"long_name": "flow time, the sum of the learning rates"}
    return together.assign_attrs(kind="comparison")


def _aligned(
    problem: Problem | AbstractSystem, dynamics: Any, common: np.ndarray, options: dict[str, Any]
) -> xr.Dataset:
    """The records of a run nearest to the common times, NaN where it had ended."""
    times = common[common <= dynamics.end * (1 + 1e-12)]
    if isinstance(dynamics, AbstractFlow):
        rows = np.arange(len(times))
        run = simulate(problem, dynamics.at(times if len(times) else np.zeros(1)), **options)
    else:
        steps, rows = np.unique(_nearest(dynamics, times), return_inverse=True)
        at = steps if len(steps) else [0]  # a run that ended before: only its axes are needed
        run = simulate(problem, dynamics, at=at, **options)
    along = "step" if "step" in run.dims else "time"
    names = [name for name, variable in run.data_vars.items() if along in variable.dims]
    records = run[names].assign(run_time=(along, run.time.values))
    records = records.drop_vars([name for name in ("step", "time") if name in records.coords])
    records = records.rename({} if along == "time" else {along: "time"})
    reached = rows < run.sizes[along]
    records = records.isel(time=rows[reached]).assign_coords(time=times[reached])
    records.attrs = {}
    return records.reindex(time=common)


def _nearest(dynamics: Any, times: np.ndarray) -> np.ndarray:
    """The steps whose times are nearest."""
    before, after = np.zeros(len(times), int), np.full(len(times), dynamics.num_steps)
    while (after - before > 1).any():  # halved, since there may be more steps than fit into memory
        middle = (before + after) // 2
        is_later = dynamics.time_at(middle) < times
        before, after = np.where(is_later, middle, before), np.where(is_later, after, middle)
    time_after, time_before = dynamics.time_at(after), dynamics.time_at(before)
    return np.where(np.abs(time_after - times) < np.abs(times - time_before), after, before)
