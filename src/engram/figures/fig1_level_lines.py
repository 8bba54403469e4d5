"""Figure 1: the loss of two tokens over the plane, with the exact regions of its 0-1 loss."""

import dataclasses
from collections.abc import Callable

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import plotting
from engram.figures._comparison import Comparison, compared
from engram.figures._labels import labelled
from engram.figures._plane import plane_of, shade
from engram.figures._reference import reference
from engram.problem import two_tokens

TITLE = "Level lines of the loss, two tokens"
LABEL = "fig:level"  # in the paper
CAPTION = (
    "Level lines of the loss L(W) of two tokens, of frequencies p₁ = 0.75 and p₂ = 0.25 and correlation α, over the "
    "plane of γ = Wᵀ(u₁ − u₂), which is all that it depends on; close to the origin (top) and far from it (bottom). "
    "Blue means that both tokens are recalled, white that none is; bold numbers give the 0-1 loss of each sector, whose "
    "edges are exact. What to see: tokens that repel each other (α < 0) leave a wide sector without error, correlated ones a "
    "narrow wedge beside a steep wall, where a large step lands on the wrong side."
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's two correlations, and one between them that its authors also drew."""

    correlations: tuple[float, ...] = (-0.5, 0.5, 0.95)
    p1: float = 0.75
    half_widths: tuple[float, ...] = (1.0, 10.0)
    num: int = 197  # points per axis; 49 k + 1 holds the authors' 50


SCALES = {"quick": Settings(), "paper": Settings(num=589)}


def compute(settings: Settings, tell: Callable[[int, int], None] | None = None) -> xr.Dataset:
    """Loss and 0-1 loss over each plane, and the sectors of constant 0-1 loss."""
    rows = []
    for done, alpha in enumerate(settings.correlations):
        problem = two_tokens(alpha, settings.p1)
        planes = [
            plane_of(problem, (-half, half, settings.num), (-half, half, settings.num))
            for half in settings.half_widths
        ]
        names = ["plane_loss", "plane_error"]
        widths = xr.Variable("half_width", list(settings.half_widths))
        rows.append(xr.concat(planes, widths, data_vars=names, coords=["gamma_1", "gamma_2"]))
        if tell is not None:
            tell(done + 1, len(settings.correlations))
    alphas = xr.Variable("correlation", list(settings.correlations))
    names = ["plane_loss", "plane_error", "sector_begin", "sector_end", "sector_error"]
    return labelled(
        xr.concat(rows, alphas, data_vars=names, coords="minimal", compat="equals"),
        "fig1",
        TITLE,
        LABEL,
        settings,
    )


def compare(data: xr.Dataset) -> list[Comparison]:
    """Loss and 0-1 loss at the authors' grid points."""
    rows = []
    for case in reference("fig1")["cases"]:
        fits = (data.sizes["first"] - 1) % (
            case["num"] - 1
        ) == 0  # the grid holds the authors' points
        if not fits or case["alpha"] not in data.correlation or case["lim"] not in data.half_width:
            continue
        here = data.sel(correlation=case["alpha"], half_width=case["lim"])
        stride = (data.sizes["first"] - 1) // (case["num"] - 1)
        at = stride * np.asarray(case["sample_indices"])
        here = here.isel(first=at, second=at)
        where = f"α = {case['alpha']:g}, plane ±{case['lim']:g}"
        rows.append(compared(f"loss, {where}", here.plane_loss, case["loss_f64"]))
        rows.append(compared(f"0-1 loss, {where}", here.plane_error, case["err01_f64"], rtol=1e-12))
    known = {case["alpha"] for case in reference("fig1")["cases"]}
    for alpha in data.correlation.values.tolist():
        if alpha in known:
            continue
        least = float(data.plane_loss.sel(correlation=alpha).min())
        rows.append(Comparison(f"least loss shown, α = {alpha:g}", least, None))
    return rows


def findings(data: xr.Dataset) -> list[str]:
    """How wide the sector without error is."""
    said = []
    for alpha in data.correlation.values:
        here = data.sel(correlation=alpha)
        width = float((here.sector_end - here.sector_begin).where(here.sector_error == 0).sum())
        said.append(
            f"α = {alpha:g}: both tokens are recalled in a sector of {np.degrees(width):.1f} degrees "
            f"(arccos(α) = {np.degrees(np.arccos(alpha)):.1f}); the loss is log 2 at W = 0"
        )
    return said


def draw(data: xr.Dataset) -> Figure:
    """One column per correlation, one row per width."""
    alphas, widths = data.correlation.values, data.half_width.values
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 2.35 * len(widths) + 0.2)
        grid = figure.subplots(len(widths), len(alphas), squeeze=False)
        for row, half in zip(grid, widths, strict=True):
            for axes, alpha in zip(row, alphas, strict=True):
                here = data.sel(correlation=alpha, half_width=half)
                shade(axes, here)
                axes.set_aspect("equal")
                badges = _name_sectors(axes, here, half)
                plotting.draw_levels(
                    axes, here.gamma_1, here.gamma_2, here.plane_loss, avoid=badges
                )
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
