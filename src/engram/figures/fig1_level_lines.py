"""Figure 1: the loss of two tokens over the plane, with the exact regions of its 0-1 loss."""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import plotting
from engram.figures._comparison import Comparison, compared_records
from engram.figures._labels import labelled
from engram.figures._plane import at_authors_points, draw_plane, plane_of
from engram.figures._reference import reference
from engram.figures._runs import Progress, reported, silent
from engram.problem import two_tokens


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's two correlations, and one between them that its authors also drew."""

    correlations: tuple[float, ...] = (-0.5, 0.5, 0.95)
    p1: float = 0.75
    half_widths: tuple[float, ...] = (1.0, 10.0)
    num: int = 197  # points per axis; 49 k + 1 holds the authors' 50


SCALES = {"quick": Settings(), "paper": Settings(num=589)}


def compute(settings: Settings, progress: Progress = silent) -> xr.Dataset:
    """Loss and 0-1 loss over each plane, and the sectors of constant 0-1 loss."""
    rows = []
    varying = ["plane_loss", "plane_error"]
    for alpha in reported(settings.correlations, progress):
        problem = two_tokens(alpha, settings.p1)
        axes = [(-half, half, settings.num) for half in settings.half_widths]
        planes = [plane_of(problem, axis, axis) for axis in axes]
        widths = xr.Variable("half_width", list(settings.half_widths))
        rows.append(xr.concat(planes, widths, data_vars=varying, coords=["gamma_1", "gamma_2"]))
    alphas = xr.Variable("correlation", list(settings.correlations))
    varying += ["sector_begin", "sector_end", "sector_error"]
    data = xr.concat(rows, alphas, data_vars=varying, coords="minimal", compat="equals")
    return labelled(data, "fig1", settings)


def compare(data: xr.Dataset) -> list[Comparison]:
    """Loss and 0-1 loss at the authors' grid points."""
    rows, cases = [], reference("fig1")["cases"]
    for case in cases:
        if case["alpha"] not in data.correlation or case["lim"] not in data.half_width:
            continue
        here = data.sel(correlation=case["alpha"], half_width=case["lim"])
        sampled = at_authors_points(here, case["sample_indices"], case["num"])
        if sampled is not None:
            where = f", α = {case['alpha']:g}, plane ±{case['lim']:g}"
            rows += compared_records(sampled, case, ("loss", "error"), where)
    known = {case["alpha"] for case in cases}
    for alpha in data.correlation.values.tolist():
        if alpha not in known:
            least = float(data.plane_loss.sel(correlation=alpha).min())
            rows.append(Comparison(f"least loss shown, α = {alpha:g}", least, None))
    return rows


def findings(data: xr.Dataset) -> list[str]:
    """How wide the sector without error is."""
    sentences = []
    for alpha in data.correlation.values:
        here = data.sel(correlation=alpha)
        width = float((here.sector_end - here.sector_begin).where(here.sector_error == 0).sum())
        sentences.append(
            f"α = {alpha:g}: both tokens are recalled in a sector of {np.degrees(width):.1f} degrees "
            f"(arccos(α) = {np.degrees(np.arccos(alpha)):.1f}); the loss is log 2 at W = 0"
        )
    return sentences


def draw(data: xr.Dataset) -> Figure:
    """One column per correlation, one row per width."""
    alphas, widths = data.correlation.values, data.half_width.values
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 2.35 * len(widths) + 0.2)
        grid = figure.subplots(len(widths), len(alphas), squeeze=False)
        for row, half in zip(grid, widths, strict=True):
            for axes, alpha in zip(row, alphas, strict=True):
                here = data.sel(correlation=alpha, half_width=half)
                badges = _name_sectors(axes, here, half)
                draw_plane(axes, here, avoid=badges)
                axes.set_aspect("equal")
                axes.set_title(rf"$\alpha = {alpha:g}$, $|\gamma_i| \leq {half:g}$")
        return figure


def _name_sectors(axes: Axes, here: xr.Dataset, half: float) -> list[tuple[float, float]]:
    """Write the 0-1 loss into each sector; where that is."""
    places = []
    for begin, end, error in zip(
        here.sector_begin.values, here.sector_end.values, here.sector_error.values, strict=True
    ):
        middle = (begin + end) / 2
        x, y = 0.8 * half * np.array([np.cos(middle), np.sin(middle)])
        places.append((x, y))
        axes.text(x, y, f"{error:g}", ha="center", va="center", fontsize=7, weight="bold",
                  bbox={"fc": "white", "ec": "none", "alpha": 0.75, "pad": 1}, zorder=5)  # fmt: skip
    return places
