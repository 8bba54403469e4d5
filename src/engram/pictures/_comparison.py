"""A picture of several dynamics on one problem: losses and errors together, margins side by side."""

from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from engram import plotting
from engram._checks import InputError
from engram.pictures import _series
from engram.pictures._titles import legend_name

_ACROSS = 4  # panels of margins in a row, at most
_DASHES = ("-", "--", "-.", ":")


def draw_comparison(data: xr.Dataset, title: str | None = None) -> Figure:
    """Losses and errors of all dynamics on common axes; margins of each on one scale."""
    names = [legend_name(str(name)) for name in data.dynamics.values]
    above = [name for name in ("loss", "error") if name in data]
    if not above and "margins" not in data:
        raise InputError("`data` has no loss, error or margins to draw. Compare with `record=`.")
    rows = -(-len(names) // _ACROSS) if "margins" in data else 0
    heights = [2.6] * bool(above) + [2.3 * rows] * bool(rows)
    figure = plotting.new_figure(plotting.WIDE, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    if above:
        _draw_curves(parts[0], data[above], names)
    if rows:
        _draw_margins(parts[-1], data.margins, names, rows)
    tokens = f", {data.sizes['token']} tokens" if "token" in data.sizes else ""
    plotting.add_title(figure, title or f"{len(names)} dynamics on one problem{tokens}")
    return figure


def _draw_curves(part: Any, data: xr.Dataset, names: list[str]) -> None:
    panels = part.subplots(1, len(data.data_vars), squeeze=False)[0]
    draw = {"loss": _series.draw_loss, "error": _series.draw_error}
    colours = _series.colours_of(len(names))
    for axes, kind in zip(panels, data.data_vars, strict=True):
        for index, (name, colour) in enumerate(zip(names, colours, strict=True)):
            dashes = _DASHES[index % len(_DASHES)]
            curve = data[str(kind)].isel(dynamics=index)
            draw[str(kind)](axes, curve, color=colour, ls=dashes, label=name)
        _series.name_axis(axes, data.time)
    panels[0].legend()


def _draw_margins(part: Any, margins: xr.DataArray, names: list[str], rows: int) -> None:
    across = -(-len(names) // rows)
    grid = part.subplots(rows, across, squeeze=False, sharey=True, sharex=True)
    title = None
    for index, axes in enumerate(grid.flat[: len(names)]):
        each = margins.isel(dynamics=index).transpose("time", "token")
        title = _series.draw_margins(axes, each)
        _series.name_axis(axes, margins.time)
        axes.set_title(names[index])
        axes.label_outer()
    plotting.leave_out(grid, len(names))
    keys = grid[0, 0].get_legend_handles_labels()
    below = {"loc": "outside lower center", "ncols": 2 if title else 6}
    part.legend(*keys, **below, title=title and " ".join(title.split()), handlelength=1.2)
