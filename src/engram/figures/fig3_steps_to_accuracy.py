"""Figure 3: how many steps perfect accuracy takes, over correlation, imbalance and learning rate."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from engram import plotting
from engram.figures._comparison import Comparison, counted
from engram.figures._labels import labelled
from engram.figures._reference import reference
from engram.sweeps import sweep

TITLE = "Steps to perfect accuracy, two tokens"
LABEL = "fig:bin-int"  # in the paper
CAPTION = (
    "The first step at which both tokens are recalled, from W = 0, within 999 steps: on the "
    "paper's grid (top; two slices of its 10 x 10 x 10 cells) and on a fine one (bottom), over the learning "
    "rate and the correlation (left) or the imbalance log(p₁/p₂) (right). Bright means many steps; hatched "
    "cells did not reach it; ringed or dotted ones reached it and lost it again later. What to see: correlation and imbalance cost "
    "steps, larger learning rates save them, nearly in proportion, until oscillation sets in and the level lines (white, with "
    "their numbers of steps) fold into bands, where one more or one less overshoot decides."
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The authors' grid, the two slices drawn of it, and the size of the fine one."""

    log_odds: tuple[float, ...] = tuple(np.logspace(-0.5, 0.5, 10).tolist())
    correlations: tuple[float, ...] = tuple(np.linspace(0.5, 1.0, 10).tolist())
    learning_rates: tuple[float, ...] = tuple(np.logspace(-1, 1, 10).tolist())
    points: int = 1000  # the start and 999 updates
    log_odds_shown: int = 5  # index of the slice over correlation: p1 = .757
    correlation_shown: int = 8  # index of the slice over imbalance: alpha = .944
    fine: int = 160  # points per axis of the fine grid


SCALES = {"quick": Settings(), "paper": Settings(fine=800)}


def compute(settings: Settings, tell: Callable[[int, int], None] | None = None) -> xr.Dataset:
    """First and last hits of perfect accuracy over the authors' grid and two fine slices."""
    odds, alphas, rates = settings.log_odds, settings.correlations, settings.learning_rates
    fine_rates = np.geomspace(rates[0], rates[-1], settings.fine)
    grids: dict[str, dict[str, Any]] = {
        "": {"log_odds": odds, "correlation": alphas, "learning_rate": rates},
        "_over_correlation": {
            "log_odds": [odds[settings.log_odds_shown]],
            "correlation": np.linspace(alphas[0], alphas[-1], settings.fine),
            "learning_rate": fine_rates,
        },
        "_over_log_odds": {
            "log_odds": np.geomspace(odds[0], odds[-1], settings.fine),
            "correlation": [alphas[settings.correlation_shown]],
            "learning_rate": fine_rates,
        },
    }
    found = xr.Dataset()
    for done, (ending, axes) in enumerate(grids.items()):
        map_ = sweep(
            {
                "problem": {"family": "two"},
                "dynamics": {"kind": "gd", "steps": settings.points - 1},
                "sweep": {"observables": ["first_perfect", "perfect_from"]},
            },
            axes,
        )
        if ending:
            alone = "log_odds" if ending == "_over_correlation" else "correlation"
            map_ = map_.isel({alone: 0}, drop=True)
            map_ = map_.rename({str(dim): f"fine_{dim}" for dim in map_.dims})
        found = found.merge(map_.rename({name: f"{name}{ending}" for name in map_.data_vars}))
        if tell is not None:
            tell(done + 1, len(grids))
    p1 = 1 / (1 + np.exp(-np.asarray(odds)))
    return labelled(found.assign_coords(p1=("log_odds", p1)), "fig3", TITLE, LABEL, settings)


def compare(data: xr.Dataset) -> list[Comparison]:
    """The authors' grid cell by cell; they write the horizon less one for "never"."""
    theirs = reference("fig3")
    ours = [data[name].values for name in ("log_odds", "correlation", "learning_rate")]
    grid = [theirs[name] for name in ("log_odds", "alphas", "lrs")]
    if _points(data) != theirs["steps"] or not all(
        len(a) == len(b) and np.allclose(a, b) for a, b in zip(ours, grid, strict=True)
    ):
        return []
    horizon = theirs["steps"]
    known = data.isel(log_odds=slice(0, len(theirs["ref"])))
    first = known.first_perfect.fillna(-1).values.astype(int)
    wanted = np.where(np.asarray(theirs["ref"]) == horizon - 1, -1, theirs["ref"])
    last_wrong = known.perfect_from.fillna(horizon).values.astype(int) - 1
    lost = (data.first_perfect < data.perfect_from.fillna(np.inf)).values
    return [
        counted("first step without error", first, wanted),
        counted("last step with an error", last_wrong, theirs["last_imperfect_step_f64"]),
        counted("cells of 1000 that do not reach it", data.first_perfect.isnull().sum(), theirs["n_never"]),
        counted("cells of 1000 that lose it again", lost.sum(), theirs["n_leaves_perfect_accuracy_again"]),
    ]  # fmt: skip


def findings(data: xr.Dataset) -> list[str]:
    """How many cells reach perfect accuracy, how many lose it, and what a larger rate saves."""
    first, kept = data.first_perfect, data.perfect_from
    never = first.isnull()
    lost = int((first < kept.fillna(np.inf)).sum())
    same = int(never.where(never.correlation == 1, False).sum())
    said = [
        f"{int(never.sum())} of {first.size} cells do not reach perfect accuracy within "
        f"{_points(data) - 1} steps, {same} of them at α = 1, where the tokens are one and the same",
        f"{lost} of the {first.size} cells reach it and lose it again",
    ]
    for name in ("correlation", "log_odds"):
        fine, stays = data[f"first_perfect_over_{name}"], data[f"perfect_from_over_{name}"]
        share = float(fine.isnull().mean())
        again = float((fine < stays.fillna(np.inf)).mean())
        slow, fast = (fine.isel(fine_learning_rate=k) for k in (0, -1))
        ratio = float((slow / fast).median())
        said.append(
            f"fine grid over {'the imbalance' if name == 'log_odds' else 'the correlation'}: {100 * share:.1f} % not reached, "
            f"{100 * again:.1f} % lost again; η = {fast.fine_learning_rate:g} needs {ratio:.0f} times fewer "
            f"steps than η = {slow.fine_learning_rate:g} (median)"
        )
    return said


def _points(data: xr.Dataset) -> int:
    return json.loads(data.attrs["settings"])["points"]


def draw(data: xr.Dataset) -> Figure:
    """The authors' grid above, the fine one below."""
    settings = json.loads(data.attrs["settings"])
    odds = data.log_odds.values[settings["log_odds_shown"]]
    alpha = data.correlation.values[settings["correlation_shown"]]
    left = rf"$\log(p_1/p_2) = {odds:.3f}$"
    right = rf"$\alpha = {alpha:.3f}$"
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 5.4)
        grid = figure.subplots(2, 2)
        whole = data[["first_perfect", "perfect_from"]]
        panels = [
            (grid[0, 0], whole.sel(log_odds=odds), "correlation", "learning_rate", f"the paper's grid, {left}"),
            (grid[0, 1], whole.sel(correlation=alpha), "log_odds", "learning_rate", f"the paper's grid, {right}"),
            (grid[1, 0], _fine(data, "correlation"), "fine_correlation", "fine_learning_rate", f"fine grid, {left}"),
            (grid[1, 1], _fine(data, "log_odds"), "fine_log_odds", "fine_learning_rate", f"fine grid, {right}"),
        ]  # fmt: skip
        pictures = [_panel(axes, here, across, up) for axes, here, across, up, _ in panels]
        for axes, *_, title in panels:
            axes.set_title(title)
        bar = figure.colorbar(pictures[0], ax=grid, shrink=0.6, pad=0.02)
        bar.set_label("first step without error")
        return figure


def _fine(data: xr.Dataset, name: str) -> xr.Dataset:
    return xr.Dataset(
        {kind: data[f"{kind}_over_{name}"] for kind in ("first_perfect", "perfect_from")}
    )


_SYMBOLS = {"correlation": r"correlation $\alpha$", "log_odds": r"imbalance $\log(p_1/p_2)$"}


def _panel(axes: Axes, here: xr.Dataset, across: str, up: str) -> Any:
    here = here.transpose(up, across)
    x, y = here[across].values, here[up].values
    steps = here.first_perfect.values
    axes.set_facecolor("0.85")
    axes.patch.set(
        hatch="////", edgecolor="0.6", linewidth=0
    )  # what is not painted over is not reached
    picture = axes.pcolormesh(
        x, y, np.ma.masked_invalid(np.maximum(steps, 1)), norm=LogNorm(1, 1000), cmap="cividis",
        shading="nearest", rasterized=True,
    )  # fmt: skip
    if len(x) > 20:
        levels = [2, 5, 10, 20, 50, 100, 200, 500]
        reached = np.ma.masked_invalid(steps)
        lines = axes.contour(
            x, y, reached, levels=levels, colors="white", linewidths=0.4, alpha=0.8
        )
        axes.clabel(lines, fontsize=5.5, fmt="%d")
    lost = steps < here.perfect_from.fillna(np.inf).values
    if len(x) <= 20:
        rows, columns = np.nonzero(lost)
        axes.plot(x[columns], y[rows], "o", mfc="none", mec="white", ms=4, mew=0.9)
    elif lost.any():
        dots = axes.contourf(
            x, y, lost.astype(float), levels=[0.5, 1.5], colors="none", hatches=["....."]
        )
        dots.set(edgecolor="white", linewidth=0)
    axes.set_yscale("log")
    if "log_odds" in across:
        axes.set_xscale("log")
        plotting.log_ticks(axes.xaxis)
    axes.set(xlabel=_SYMBOLS[across.removeprefix("fine_")], ylabel=r"learning rate $\eta$")
    return picture
