"""Means over draws, with their 95 % intervals, as numbers and as bars."""

from typing import Any

import numpy as np
import xarray as xr

NORMAL = 1.96  # how many standard errors a 95 % interval reaches


def mean_interval(cell: xr.DataArray) -> tuple[float, float, float]:
    """The mean over draws and the ends of its 95 % interval."""
    mean, spread = float(cell.mean("draw")), float(cell.std("draw", ddof=1))
    half = NORMAL * spread / np.sqrt(cell.sizes["draw"])
    return mean, float(mean - half), float(mean + half)


def draw_means(axes: Any, cells: xr.DataArray, along: str, look: dict[str, Any]) -> None:
    """Means over draws against an axis, with bars of their 95 % intervals."""
    half = NORMAL * cells.std("draw", ddof=1) / np.sqrt(cells.sizes["draw"])
    axes.errorbar(cells[along], cells.mean("draw"), half, ms=3.5, capsize=2, **look)
