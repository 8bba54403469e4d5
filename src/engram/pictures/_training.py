"""A picture of a training of the transformer: losses, accuracies, and the margins of its memories."""

import tomllib
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram import plotting
from engram.pictures import _series
from engram.pictures._titles import dynamics_words

_MEMORIES = {"wo2": "$W_O^2$", "wk2": "$W_K^2$", "wk1": "$W_K^1$"}


def draw_training(log: xr.Dataset, title: str | None = None) -> Figure:
    """Losses and accuracies of all runs, margins of the one that ends lowest."""
    config = tomllib.loads(log.attrs["config"])
    log = log if "run" in log.dims else log.expand_dims("run")
    known = np.flatnonzero(np.isfinite(log.loss).any("run"))
    log = log.isel(step=slice(0, int(known[-1]) + 1 if len(known) else 1))
    last = log.loss.isel(step=-1).values
    best = int(np.nanargmin(last)) if np.isfinite(last).any() else 0
    names = _names(log)
    figure = plotting.new_figure(plotting.WIDE + 1, 4.6)
    grid = figure.subplots(2, 3)
    (loss, accuracy, positive), (wo2, wk1, wk2) = grid
    colours = _series.colours_of(len(names))
    for index, (name, colour) in enumerate(zip(names, colours, strict=True)):
        run = log.isel(run=index)
        _series.draw_loss(loss, run.loss, color=colour, label=name)
        accuracy.plot(run.step, run.accuracy, color=colour)
    run, colours = log.isel(run=best), _series.colours_of(len(_MEMORIES))
    where = f", {names[best]}" if len(names) > 1 else ""
    for axes, memory, colour in zip((wo2, wk2, wk1), _MEMORIES, colours, strict=True):
        margins = run[f"margins_{memory}"].transpose("step", ...)
        _series.add_key(axes, _series.draw_margins(axes, margins))
        axes.set_title(f"margins of {_MEMORIES[memory]}{where}")
        share = (margins > 0).mean(str(margins.dims[-1]))
        positive.plot(run.step, share, color=colour, label=_MEMORIES[memory])
    loss.set(title="loss", ylabel="loss")
    accuracy.set(title="in-context accuracy", ylabel="share of predictions", ylim=(-0.03, 1.03))
    positive.set(title=f"positive margins{where}", ylabel="share", ylim=(-0.03, 1.03))
    positive.legend()
    if len(names) > 1:
        loss.legend()
    for axes in grid.flat:
        _series.name_axis(axes, log.step)
    plotting.add_title(figure, title or _title(config))
    return figure


def _names(log: xr.Dataset) -> list[str]:
    """What the runs are called: by their learning rates where they differ in those."""
    if "learning_rate" in log.coords:
        return [rf"$\eta = {rate:g}$" for rate in np.atleast_1d(log["learning_rate"].values)]
    return [f"run {index + 1}" for index in range(log.sizes["run"])]


def _title(config: dict[str, Any]) -> str:
    model = config.get("transformer", {})
    sizes = f"$d={model.get('dim')}$, {model.get('sequences')} sequences of {model.get('length')}"
    how = dynamics_words(config.get("dynamics", {}))
    return f"A transformer on the bigram task, {sizes}: {how}"
