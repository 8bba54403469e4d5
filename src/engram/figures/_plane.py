"""The plane of a memory with d = M = 2, as the variables that figures write and draw."""

from collections.abc import Sequence
from typing import Any

import xarray as xr
from matplotlib.axes import Axes

from engram import plotting
from engram.planes import error_regions, landscape, memory_plane
from engram.problem import Problem


def plane_of(
    problem: Problem, first: Any, second: Any, quantities: Sequence[str] = ("loss", "error")
) -> xr.Dataset:
    """Quantities over the plane as `plane_loss` and so on, and the exact sectors of its 0-1 loss."""
    grid = landscape(problem, memory_plane(problem), quantities, first=first, second=second)
    regions = error_regions(problem)
    return xr.Dataset(
        {
            "gamma_1": ("first", grid["first"].values),
            "gamma_2": ("second", grid["second"].values),
            **{f"plane_{name}": (("second", "first"), grid[name].values) for name in quantities},
            **{f"sector_{name}": regions[name] for name in ("begin", "end", "error")},
        }
    ).set_coords(["gamma_1", "gamma_2"])


def path_of(problem: Problem, run: xr.Dataset) -> xr.Dataset:
    """A run's records, with its path in the plane as `gamma` instead of its weights."""
    path, _ = memory_plane(problem).coordinates(problem, run.weights.values)
    kept = run.drop_vars([name for name in run.variables if "step" not in run[name].dims])
    kept = kept.drop_vars(["time", "weights"])
    return kept.assign(gamma=(("step", "component"), path)).assign_attrs({})


def stacked(cases: Sequence[xr.Dataset]) -> xr.Dataset:
    """Cases of unequal numbers of tokens and sectors side by side; NaN where a case has none."""
    numbered = [
        case.assign_coords({dim: range(case.sizes[dim]) for dim in ("sector", "token")})
        for case in cases
    ]
    return xr.concat(numbered, "case", data_vars="all", join="outer").drop_vars("sector")


def shade(axes: Axes, here: xr.Dataset) -> None:
    """Draw the sectors, with the axes cut to the plane that was computed."""
    for name, cut in (("gamma_1", axes.set_xlim), ("gamma_2", axes.set_ylim)):
        cut(float(here[name].min()), float(here[name].max()))
    known = here.dropna("sector", subset=["sector_error"])
    plotting.shade_accuracy(axes, known.sector_begin, known.sector_end, known.sector_error)
    plotting.name_plane(axes)
