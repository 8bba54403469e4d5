"""The picture of Figure 7: losses and margins by rate and width, and attention before and after."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram import plotting
from engram.figures._labels import settings_of
from engram.figures._training import draw_losses, draw_margins, five_of
from engram.figures.fig7_findings import lowest
from engram.transformer import shakespeare

_KEY = {"handlelength": 0.8, "fontsize": 6, "columnspacing": 0.8}  # small legends


def draw(data: xr.Dataset) -> Figure:
    """W_O^2 alone; all three by width; attention before and after."""
    dims = data.dim.values
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 1.75 * (1 + len(dims)) + 2.1)
        parts: Any = figure.subfigures(2, 1, height_ratios=[1.75 * (1 + len(dims)), 2.0])
        grid = parts[0].subplots(1 + len(dims), 3)
        _draw_alone(grid[0], data)
        for row, dim in zip(grid[1:], dims, strict=True):
            _draw_three(row, data.sel(dim=dim))
        for axes in grid[-1]:
            axes.set_xlabel("step $t$")
        _draw_patterns(parts[1].subplots(1, 4), data)
        return figure


def _draw_alone(row: Any, data: xr.Dataset) -> None:
    rates, steps = data.alone_learning_rate.values, data.alone_step
    losses = {rate: data.alone_loss.sel(alone_learning_rate=rate) for rate in rates}
    draw_losses(row[0], steps, losses)
    row[0].margins(y=0.25)
    row[0].legend(ncols=2, loc="upper center", **_KEY)
    row[0].set_ylabel("$W_O^2$ alone\nloss")
    row[0].set_title(f"loss, $d = {settings_of(data)['alone_dim']}$")
    tokens = five_of(data.token)
    characters = [repr(shakespeare().tokens[int(token)]) for token in tokens]
    for axes, rate in zip(row[1:], (rates.min(), rates.max()), strict=True):
        run = data.sel(alone_learning_rate=rate, token=tokens)
        draw_margins(axes, steps, run.alone_margins_wo2.transpose("alone_step", "token"), characters)  # fmt: skip
        colour = plotting.rate_style(rate)["color"]
        axes.set_title(rf"margins of $W_O^2$, $\eta = {rate:g}$", color=colour)
    row[1].margins(y=0.22)
    row[1].legend(ncols=5, loc="upper center", handletextpad=0.3, **_KEY)


def _draw_three(row: Any, here: xr.Dataset) -> None:
    rates = here.learning_rate.values
    draw_losses(row[0], here.step, {rate: here.loss.sel(learning_rate=rate) for rate in rates})
    row[0].set_ylabel(f"all three, $d = {int(here.dim)}$\nloss")
    row[0].legend(ncols=2, loc="upper right", **_KEY)
    best = rates[lowest(here.loss.isel(step=-1))]
    run, colour = here.sel(learning_rate=best), plotting.rate_style(best)["color"]
    for axes, name, axis, chosen, ls in (
        (row[1], "margins_wo2", "token", five_of(here.token), "-"),
        (row[2], "margins_wk2", "trigger", here.trigger.values[:5], "-"),
        (row[2], "margins_wk1_causal", "position", five_of(here.position), ":"),
    ):
        margins = run[name].sel({axis: chosen}).transpose("step", axis)
        draw_margins(axes, here.step, margins, chosen, ls=ls)
    row[1].set_title(rf"margins of $W_O^2$, $\eta = {best:g}$", color=colour)
    row[2].set_title(rf"$W_K^2$ (lines), $W_K^1$ (dots), $\eta = {best:g}$", color=colour)


def _draw_patterns(panels: Any, data: xr.Dataset) -> None:
    names = ("first_before", "first_after", "second_before", "second_after")
    titles = ("layer 1, before", "layer 1, after", "layer 2, before", "layer 2, after")
    image = None
    for axes, name, title in zip(panels, names, titles, strict=True):
        image = axes.imshow(data[name], cmap="magma_r", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title)
        axes.set_xlabel("key position", labelpad=1)
        axes.spines[["top", "right"]].set_visible(True)
        if name.startswith("second"):
            rows, columns = _sought(data)
            axes.plot(columns, rows, "o", mfc="none", mec=plotting.COLOURS[0], ms=2.6, mew=0.5)
    panels[0].set_ylabel("query position")
    bar = panels[-1].figure.colorbar(image, ax=list(panels), fraction=0.02, pad=0.01)
    bar.set_label("attention")


def _sought(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Where an induction head looks: from a trigger that comes again to what followed it before."""
    tokens = data.sequence.values
    pairs = [
        (query, key)
        for query in np.flatnonzero(data.is_in_loss.values)
        for key in range(1, query + 1)
        if tokens[key - 1] == tokens[query]
    ]
    rows, columns = np.array(pairs, int).reshape(-1, 2).T
    return rows, columns
