"""Records along a run: curves of the loss and the error, margins as lines or as bands by frequency."""

from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import SymmetricalLogLocator

from engram import plotting
from engram.pictures._titles import axis_label, shown_name

MOST_LINES = 12  # margins beyond are drawn as bands
_BANDS = 4
_DISTINCT = [colour for colour in plotting.COLOURS if colour != "#F0E442"]  # yellow is hard to see


def colours_of(count: int) -> list[Any]:
    """So many colours that colour-blind readers can tell apart; in order from dark to light beyond seven."""
    if count <= len(_DISTINCT):
        return _DISTINCT[:count]
    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.93, count)))


def name_axis(axes: Axes, along: xr.DataArray) -> None:
    """Steps or times: their label, on a logarithmic scale if the records lie evenly on one."""
    axes.set_xlabel(axis_label(str(along.name)))
    values = along.values
    if len(values) < 3 or not 0 < np.median(values) < values[-1] / 20:
        return
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(0, float(values[-1]))
    ticks = SymmetricalLogLocator(base=10, linthresh=1)
    ticks.set_params(numticks=5)
    axes.xaxis.set_major_locator(ticks)


def draw_loss(axes: Axes, loss: xr.DataArray, **look: Any) -> None:
    """A loss along a run, on a logarithmic axis if all losses there are positive and vary."""
    axes.plot(loss[loss.dims[-1]], loss, **look)
    losses = np.concatenate([np.asarray(line.get_ydata()) for line in axes.lines])
    finite = losses[np.isfinite(losses)]
    is_log = len(finite) > 0 and finite.max() > 3 * finite.min() > 0
    axes.set_yscale(
        "log" if is_log else "linear"
    )  # with the usual ticks, whatever they were before
    if is_log and finite.max() < 300 * finite.min():
        plotting.log_ticks(axes.yaxis)
    axes.set_ylabel(axis_label("loss"))


def draw_error(axes: Axes, error: xr.DataArray, **look: Any) -> None:
    """The 0-1 loss along a run, between zero and one."""
    axes.step(error[error.dims[-1]], error, where="post", **look)
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel(axis_label("error"))


def draw_margins(axes: Axes, margins: xr.DataArray) -> str | None:
    """Margins over (steps or times, tokens): a line each, or bands by frequency if they are many.

    Returns a title for the legend, if it needs one.
    """
    along, of = (str(dim) for dim in margins.dims)
    axes.axhline(0, color="0.55", lw=0.8, zorder=0)
    axes.set_ylabel(axis_label("margins"))
    if margins.sizes[of] > MOST_LINES:
        return _draw_bands(axes, margins)
    for column, colour in enumerate(colours_of(margins.sizes[of])):
        line = margins.isel({of: column})
        axes.plot(margins[along], line, color=colour, label=_name(line, of, column))
    return None


def add_key(axes: Axes, title: str | None = None) -> None:
    """A legend, beside the lines rather than upon them unless it is small."""
    if len(axes.get_legend_handles_labels()[1]) <= 3:
        axes.legend(title=title, handlelength=1.2)
    else:
        axes.legend(title=title, handlelength=1.2, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _name(line: xr.DataArray, of: str, column: int) -> str:
    """A token, a position or a trigger by its name or number."""
    name = line[of].values.item() if of in line.coords else column
    if of in line.coords and line[of].dtype.kind in "OSU":
        name = shown_name(str(line[of].values))
    return f"{of} {name}"


def _draw_bands(axes: Axes, margins: xr.DataArray) -> str | None:
    """For each group of tokens the median and the middle 80 %."""
    along, of = (str(dim) for dim in margins.dims)
    known = np.isfinite(margins.values).all(axis=1)
    values, at = margins.values[known], margins[along].values[known]
    groups = frequency_groups(margins)
    for (label, tokens), colour in zip(groups.items(), colours_of(len(groups)), strict=True):
        low, middle, high = np.quantile(values[:, tokens], (0.1, 0.5, 0.9), axis=1)
        axes.fill_between(at, low, high, color=colour, alpha=0.22, lw=0)
        axes.plot(at, middle, color=colour, label=label)
    return f"{of}s by frequency:\nmedian, middle 80 %" if len(groups) > 1 else None


def frequency_groups(margins: xr.DataArray) -> dict[str, np.ndarray]:
    """Tokens grouped by how frequent they are, each group a few times larger than the one before.

    All in one group where nothing is known of frequencies, or all are the same.
    """
    of = str(margins.dims[1])
    number = margins.sizes[of]
    probs = margins.coords["probs"].values if "probs" in margins.coords else np.zeros(number)
    if np.ptp(probs) <= 1e-12 * np.abs(probs).max():
        return {f"{number} {of}s:\nmedian, middle 80 %": np.arange(number)}
    order = np.argsort(-probs, kind="stable")
    edges = np.geomspace(1, number + 1, _BANDS + 1).round().astype(int) - 1
    groups = {}
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        share = 100 * probs[order[first:last]].sum() / probs.sum()
        which = f"{first + 1} to {last}" if last > first + 1 else f"{last}"
        groups[f"rank {which}: {share:.2g} % of the data"] = order[first:last]
    return groups
