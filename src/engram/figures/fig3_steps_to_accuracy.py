"""Figure 3: how many steps perfect accuracy takes, over correlation, imbalance and learning rate."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from engram import plotting
from engram.figures._comparison import Comparison, counted
from engram.figures._labels import labelled, settings_of
from engram.figures._reference import reference
from engram.figures._runs import Progress, reported, silent
from engram.sweeps import sweep


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


def compute(settings: Settings, progress: Progress = silent) -> xr.Dataset:
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
    spec = {
        "problem": {"family": "two"},
        "dynamics": {"kind": "gd", "steps": settings.points - 1},
        "sweep": {"observables": ["first_perfect", "perfect_from"]},
    }
    data = xr.Dataset()
    for ending, axes in reported(list(grids.items()), progress):
        map_ = sweep(spec, axes)
        if ending:
            alone = "log_odds" if ending == "_over_correlation" else "correlation"
            map_ = map_.isel({alone: 0}, drop=True)
            map_ = map_.rename({str(dim): f"fine_{dim}" for dim in map_.dims})
        data = data.merge(map_.rename({name: f"{name}{ending}" for name in map_.data_vars}))
    p1 = 1 / (1 + np.exp(-np.asarray(odds)))
    return labelled(data.assign_coords(p1=("log_odds", p1)), "fig3", settings)


def compare(data: xr.Dataset) -> list[Comparison]:
    """The authors' grid cell by cell; they write the horizon less one for "never"."""
    theirs, horizon = reference("fig3"), reference("fig3")["steps"]
    grid = {"log_odds": "log_odds", "correlation": "alphas", "learning_rate": "lrs"}
    if settings_of(data)["points"] != horizon or not all(
        data.sizes[ours] == len(theirs[name]) and np.allclose(data[ours], theirs[name])
        for ours, name in grid.items()
    ):
        return []
    known = data.isel(log_odds=slice(0, len(theirs["ref"])))
    first = known.first_perfect.fillna(-1).values.astype(int)
    wanted = np.where(np.asarray(theirs["ref"]) == horizon - 1, -1, theirs["ref"])
    last_wrong = known.perfect_from.fillna(horizon).values.astype(int) - 1
    return [
        counted("first step without error", first, wanted),
        counted("last step with an error", last_wrong, theirs["last_imperfect_step_f64"]),
        counted("cells of 1000 that do not reach it", data.first_perfect.isnull().sum(), theirs["n_never"]),
        counted("cells of 1000 that lose it again", _lost(data).sum(), theirs["n_leaves_perfect_accuracy_again"]),
    ]  # fmt: skip


def findings(data: xr.Dataset) -> list[str]:
    """How many cells reach perfect accuracy, how many lose it, and what a larger rate saves."""
    first, never = data.first_perfect, data.first_perfect.isnull()
    same = int(never.where(never.correlation == 1, False).sum())
    sentences = [
        f"{int(never.sum())} of {first.size} cells do not reach perfect accuracy within "
        f"{settings_of(data)['points'] - 1} steps, {same} of them at α = 1, where the tokens are one and the same",
        f"{int(_lost(data).sum())} of the {first.size} cells reach it and lose it again",
    ]
    for name, words in (("correlation", "the correlation"), ("log_odds", "the imbalance")):
        fine = _fine(data, name)
        share, again = float(fine.first_perfect.isnull().mean()), float(_lost(fine).mean())
        slow, fast = (fine.first_perfect.isel(fine_learning_rate=k) for k in (0, -1))
        sentences.append(
            f"fine grid over {words}: {100 * share:.1f} % not reached, {100 * again:.1f} % lost again; "
            f"η = {fast.fine_learning_rate:g} needs {float((slow / fast).median()):.0f} times fewer "
            f"steps than η = {slow.fine_learning_rate:g} (median)"
        )
    return sentences


def _fine(data: xr.Dataset, name: str) -> xr.Dataset:
    """The fine grid over one of the axes, under the names of the coarse one."""
    return xr.Dataset(
        {kind: data[f"{kind}_over_{name}"] for kind in ("first_perfect", "perfect_from")}
    )


def _lost(data: xr.Dataset) -> xr.DataArray:
    """Where perfect accuracy is reached and lost again."""
    return data.first_perfect < data.perfect_from.fillna(np.inf)


def draw(data: xr.Dataset) -> Figure:
    """The authors' grid above, the fine one below."""
    settings = settings_of(data)
    odds = data.log_odds.values[settings["log_odds_shown"]]
    alpha = data.correlation.values[settings["correlation_shown"]]
    left = rf"$\log(p_1/p_2) = {odds:.3f}$"
    right = rf"$\alpha = {alpha:.3f}$"
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 5.4)
        grid = figure.subplots(2, 2)
        whole = data[["first_perfect", "perfect_from"]]
        panels = [
            (whole.sel(log_odds=odds), "correlation", f"the paper's grid, {left}"),
            (whole.sel(correlation=alpha), "log_odds", f"the paper's grid, {right}"),
            (_fine(data, "correlation"), "fine_correlation", f"fine grid, {left}"),
            (_fine(data, "log_odds"), "fine_log_odds", f"fine grid, {right}"),
        ]
        pictures = []
        for axes, (here, across, title) in zip(grid.flat, panels, strict=True):
            pictures.append(_panel(axes, here, across))
            axes.set_title(title)
        bar = figure.colorbar(pictures[0], ax=grid, shrink=0.6, pad=0.02)
        bar.set_label("first step without error")
        return figure


_SYMBOLS = {"correlation": r"correlation $\alpha$", "log_odds": r"imbalance $\log(p_1/p_2)$"}


def _panel(axes: Axes, here: xr.Dataset, across: str) -> Any:
    up = next(str(dim) for dim in here.dims if "learning_rate" in str(dim))
    here = here.transpose(up, across)
    x, y = here[across].values, here[up].values
    steps = here.first_perfect.values
    plotting.hatch_background(axes)  # what is not painted over is not reached
    picture = axes.pcolormesh(
        x, y, np.ma.masked_invalid(np.maximum(steps, 1)), norm=LogNorm(1, 1000), cmap="cividis",
        shading="nearest", rasterized=True,
    )  # fmt: skip
    lost = _lost(here).values
    if len(x) <= 20:
        rows, columns = np.nonzero(lost)
        axes.plot(x[columns], y[rows], "o", mfc="none", mec="white", ms=4, mew=0.9)
    else:
        levels, reached = [2, 5, 10, 20, 50, 100, 200, 500], np.ma.masked_invalid(steps)
        lines = axes.contour(x, y, reached, levels, colors="white", linewidths=0.4, alpha=0.8)
        axes.clabel(lines, fontsize=5.5, fmt="%d")
        if lost.any():
            dots = axes.contourf(x, y, lost.astype(float), [0.5, 1.5], colors="none", hatches=["....."])  # fmt: skip
            dots.set(edgecolor="white", linewidth=0)
    axes.set_yscale("log")
    if "log_odds" in across:
        axes.set_xscale("log")
        plotting.log_ticks(axes.xaxis)
    axes.set(xlabel=_SYMBOLS[across.removeprefix("fine_")], ylabel=r"learning rate $\eta$")
    return picture
