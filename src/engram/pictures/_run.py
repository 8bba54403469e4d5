"""A picture of one run: loss and error, margins, other curves, and the plane of a small memory."""

import json
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import plotting
from engram.pictures import _series
from engram.pictures._plane import draw_plane, plane_of
from engram.pictures._titles import capital, dynamics_words, value_label

_BLUE, _RED = plotting.COLOURS[:2]


def draw_run(run: xr.Dataset, title: str | None = None) -> Figure:
    """Draw what was recorded of a run: whichever of loss, error, margins, curves and weights there is."""
    along = "step" if "step" in run.dims else "time"
    plane = plane_of(run)
    curves = [str(name) for name in run.data_vars if run[name].dims == (along,)]
    others = [name for name in curves if name not in ("loss", "error")][:3]
    panels = (
        ["loss"] * ("loss" in run or "error" in run) + ["margins"] * ("margins" in run) + others
    )
    count = max(1, len(panels) + (plane is not None))
    key = 1.3 if "margins" in run and run.margins.shape[1] > 3 else 0.3  # room for a legend
    figure = plotting.new_figure(key + 2.9 * count, 3.0)
    grid = figure.add_gridspec(3, count)
    for column, name in enumerate(panels):
        if name == "loss":
            _draw_loss(figure, grid, run, along)
            continue
        axes = figure.add_subplot(grid[:, column])
        if name == "margins":
            _series.add_key(axes, _series.draw_margins(axes, run.margins))
        else:
            axes.plot(run[along], run[name], color=_BLUE)
            axes.set_ylabel(value_label(run[name]))
        _series.name_axis(axes, run[along])
    if plane is not None:
        draw_plane(figure.add_subplot(grid[:, -1]), plane)
    if not panels and plane is None:
        figure.text(0.5, 0.4, "nothing recorded that this picture shows", ha="center")
    plotting.add_title(figure, title or _title(run))
    return figure


def _draw_loss(figure: Figure, grid: Any, run: xr.Dataset, along: str) -> None:
    """The loss, with its spikes, above the error."""
    parts = [name for name in ("loss", "error") if name in run]
    upper = figure.add_subplot(grid[:2, 0] if len(parts) == 2 else grid[:, 0])
    lower = figure.add_subplot(grid[2, 0], sharex=upper) if len(parts) == 2 else upper
    if "loss" in run:
        _series.draw_loss(upper, run.loss, color=_BLUE)
        _mark_spikes(upper, run, along)
    if "error" in run:
        _series.draw_error(lower, run.error, color=_RED)
    _series.name_axis(lower, run[along])
    if lower is not upper:
        upper.tick_params(labelbottom=False)


def _mark_spikes(axes: Axes, run: xr.Dataset, along: str) -> None:
    if along != "step" or not run.sizes.get("spike", 0):
        return
    shown = run.loss[np.isin(run.step.values, run.spike_step.values)]
    number, kept = int(run.num_spikes), run.sizes["spike"]
    label = "spikes" if number == kept else f"first {kept} of {number} spikes"
    axes.plot(shown.step, shown, "v", color="0.2", ms=4, label=label)
    axes.legend()


def _title(run: xr.Dataset) -> str:
    """How it moved, and what was to be remembered."""
    try:
        table = json.loads(run.attrs["settings"])
    except (KeyError, TypeError, ValueError):
        table = {"kind": run.attrs.get("dynamics", "run")}
    sizes = [f"{run.sizes['token']} tokens"] if "token" in run.sizes else []
    if "problem_inputs" in run and "class" in run.sizes:
        sizes += [f"{run.sizes['class']} classes", f"$d={run.problem_inputs.shape[1]}$"]
    return capital(": ".join(part for part in (dynamics_words(table), ", ".join(sizes)) if part))
