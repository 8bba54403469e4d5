"""A training of the transformer as a picture: loss, accuracy, and the margins of its memories."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram import plotting
from engram.figures._training import draw_losses, draw_margins, five_of

_PANELS = (
    ("wo2", "token", r"$W_O^2$: five tokens"),
    ("wk2", "trigger", r"$W_K^2$: the triggers"),
    ("wk1", "position", r"$W_K^1$: five positions"),
)


def draw_training(log: xr.Dataset) -> Figure:
    """Losses and accuracies of all runs, margins of the one that ends lowest."""
    log = log if "run" in log.dims else log.expand_dims("run")
    rates = _rates(log)
    known = np.flatnonzero(np.isfinite(log.loss).any("run"))
    log = log.isel(step=slice(0, int(known[-1]) + 1 if len(known) else 1))
    last = log.loss.isel(step=-1).values
    best = int(np.nanargmin(last)) if np.isfinite(last).any() else 0
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 4.2)
        grid = figure.subplots(2, 3)
        losses = {rate: log.loss.isel(run=k).values for k, rate in enumerate(rates)}
        draw_losses(grid[0, 0], log.step, losses)
        grid[0, 0].set_title("loss")
        for k, rate in enumerate(rates):
            colour = plotting.rate_style(rate)["color"]
            grid[0, 1].plot(log.step, log.accuracy.isel(run=k), color=colour, lw=1.0)
        grid[0, 1].set_title("in-context accuracy")
        grid[0, 1].set_ylim(0, 1.02)
        grid[0, 0].legend(handlelength=1.2)
        for axes, (name, axis, title) in zip(
            (grid[0, 2], grid[1, 0], grid[1, 1]), _PANELS, strict=True
        ):
            chosen = five_of(log[axis]) if axis != "trigger" else log[axis].values[:5]
            values = log[f"margins_{name}"].isel(run=best).sel({axis: chosen}).values
            draw_margins(axes, log.step, values, chosen)
            axes.set_title(f"margins of {title}")
        _positive(grid[1, 2], log.isel(run=best))
        for axes in grid.flat:
            axes.set_xlabel("step")
        if len(rates) > 1:
            figure.suptitle(rf"margins at $\eta = {rates[best]:g}$", fontsize=8)
        return figure


def _rates(log: xr.Dataset) -> list[float]:
    if "learning_rate" in log.coords:
        return [float(rate) for rate in log.learning_rate.values]
    import tomllib

    dynamics = tomllib.loads(log.attrs["config"])["dynamics"]
    rate = dynamics.get("learning_rate")
    return [float(rate) if isinstance(rate, int | float) else np.nan]


def _positive(axes: Any, run: xr.Dataset) -> None:
    for k, (name, axis, _) in enumerate(_PANELS):
        share = (run[f"margins_{name}"] > 0).mean(axis)
        label = {"wo2": "$W_O^2$", "wk2": "$W_K^2$", "wk1": "$W_K^1$"}[name]
        axes.plot(run.step, share, color=plotting.COLOURS[k], lw=1.1, label=label)
    axes.set_ylim(-0.02, 1.02)
    axes.set_title("share of positive margins")
    axes.legend(handlelength=1.2)
