"""The plane of a memory with d = M = 2: what figures write of it, compare and draw."""

from collections.abc import Sequence
from typing import Any

import numpy as np
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


def stacked(cases: Sequence[xr.Dataset], seeds: Sequence[int]) -> xr.Dataset:
    """Cases of unequal numbers of tokens and sectors side by side; NaN where a case has none."""
    numbered = [
        case.assign_coords({dim: range(case.sizes[dim]) for dim in ("sector", "token")})
        for case in cases
    ]
    data = xr.concat(numbered, "case", data_vars="all", join="outer").drop_vars("sector")
    return data.assign_coords(seed=("case", list(seeds)))


def cases_of(data: xr.Dataset) -> list[xr.Dataset]:
    """The cases that `stacked` put side by side; their attribute N is how many tokens they have."""
    cases = [data.isel(case=index) for index in range(data.sizes["case"])]
    return [case.assign_attrs(N=int(case.probs.notnull().sum())) for case in cases]


def at_authors_points(here: xr.Dataset, indices: Any, num: int) -> xr.Dataset | None:
    """What was computed over the plane at the authors' points, `num` per axis; None if it has others."""
    stride, rest = divmod(here.sizes["first"] - 1, num - 1)
    if rest:
        return None
    at = stride * np.asarray(indices)
    over = {str(name): str(name).removeprefix("plane_") for name in here if "plane_" in str(name)}
    return here[list(over)].isel(first=at, second=at).rename(over)


def draw_plane(axes: Axes, here: xr.Dataset, *, labels: bool = True, **options: Any) -> None:
    """The sectors, with the axes cut to the plane that was computed, and the loss's level lines on them."""
    shade(axes, here)
    plotting.draw_levels(axes, here.gamma_1, here.gamma_2, here.plane_loss, label=labels, **options)


def shade(axes: Axes, here: xr.Dataset) -> None:
    """Draw the sectors, with the axes cut to the plane that was computed."""
    for name, cut in (("gamma_1", axes.set_xlim), ("gamma_2", axes.set_ylim)):
        cut(float(here[name].min()), float(here[name].max()))
    known = here.dropna("sector", subset=["sector_error"])
    plotting.shade_accuracy(axes, known.sector_begin, known.sector_end, known.sector_error)
    plotting.name_plane(axes)


def draw_minimiser(axes: Axes, here: xr.Dataset) -> bool:
    """A star where the loss is least; whether there is such a place."""
    exists = bool(np.isfinite(here.minimiser).all())
    if exists:
        at = here.minimiser.values
        axes.plot(*at, "*", color="#FFD23F", mec="black", mew=0.7, ms=10, zorder=5)
    return exists
