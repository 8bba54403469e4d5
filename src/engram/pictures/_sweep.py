"""A picture of a sweep: a curve, a map with level lines, small multiples, or a bifurcation diagram."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, CenteredNorm, ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from engram import plotting
from engram._checks import InputError
from engram._memory_limits import loaded
from engram.pictures import _titles

_STEPS = ("first_perfect", "perfect_from", "last_rise", "first_learnt")
_MOST_PANELS = 6
_LINE = "#E8543F"  # of theory
_LINE_STYLES = ("-", "--", "-.", ":")
_CLASSES = ["#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#000000"]


@runtime_checkable
class Line(Protocol):
    """A line of theory across a sweep, as `engram.sweeps.boundary` gives it.

    `label` is what to call it, `level` a field over axes of the sweep that is zero on the line.
    """

    @property
    def label(self) -> str: ...
    @property
    def level(self) -> xr.DataArray: ...


def draw_sweep(
    data: xr.Dataset, *, value: str | None = None, x: str | None = None, y: str | None = None,
    at: Mapping[str, float] | None = None, lines: Sequence[Line] = (), title: str | None = None,
) -> Figure:  # fmt: skip
    """Draw one variable of a sweep; a third axis becomes small multiples on one scale of colours."""
    value = value or str(next(iter(data.data_vars)))
    if value not in data.data_vars:
        names = ", ".join(map(str, data.data_vars))
        raise InputError(f"`value` must be among {names}, got {value!r}.")
    view = _arranged(_numbered(data[value]), x, y, dict(at or {}))
    count = len(view.panels)
    columns = 2 if count == 4 else min(3, count)
    rows = -(-count // columns)
    figure = plotting.new_figure(1.0 + 3.0 * columns if columns > 1 else 4.6, 0.7 + 2.6 * rows)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    look = _look(view.field)
    for axes, (name, panel) in zip(grid.flat, view.panels.items(), strict=False):
        if view.up is None:
            _draw_curves(axes, panel, view.across, look)
        else:
            _draw_map(axes, panel.transpose(view.up, view.across), look)
        for line, style in zip(lines, itertools.cycle(_LINE_STYLES), strict=False):
            _draw_line(axes, line, style, panel, view)
        axes.set_title(name)
        _label(axes, "x", view.across, panel)
        if view.up is not None:
            _label(axes, "y", view.up, panel)
        axes.label_outer()
    plotting.leave_out(grid, count)
    if view.up is not None:
        _colour_bar(figure, grid, look, view.field)
    plotting.add_title(figure, title or _title(data, view))
    figure.set_label("; ".join(view.notes))
    return figure


class _View(NamedTuple):
    """What is drawn: the field, its axes, its panels by their titles; what was fixed, and what was done."""

    field: xr.DataArray
    across: str
    up: str | None
    panels: dict[str, xr.DataArray]
    fixed: dict[str, Any]
    notes: list[str]


def _numbered(field: xr.DataArray) -> xr.DataArray:
    """Axes that go by names as axes of numbers from zero, which keep the names for their ticks."""
    shown = {
        dim: [_titles.shown_name(str(name)) for name in field[dim].values]
        for dim in field.dims
        if dim in field.coords and field[dim].dtype.kind in "OSU"
    }
    if "token" in field.dims and "token" not in shown:
        shown["token"] = [str(index) for index in range(field.sizes["token"])]
    return field.assign_coords(
        {dim: (dim, np.arange(len(names)), {"names": names}) for dim, names in shown.items()}
    )


def _arranged(field: xr.DataArray, x: str | None, y: str | None, at: dict[str, float]) -> _View:
    """Choose what goes across, up and into panels; fix or average the axes that are left."""
    chosen = [name for name in (x, y) if name is not None]
    named = [*chosen, *at]
    if len(set(named)) < len(named):
        raise InputError(
            f"`x`, `y` and `at` must name different axes, got {', '.join(named)}. Name each once."
        )
    for name in named:
        if name not in field.dims:
            axes = ", ".join(map(str, field.dims))
            raise InputError(f"`{name}` is not an axis of this sweep. Axes are {axes}.")
    fixed, notes = {}, []
    for name, wanted in at.items():
        index = int(np.abs(_places(field, name) - wanted).argmin())
        fixed[name] = _value_at(field, name, index)
        field = field.isel({name: index})
        notes.append(f"{name} = {fixed[name]}")
    if "seed" in field.dims and "seed" not in chosen and field.dtype.kind == "f":
        notes.append(f"mean over {field.sizes['seed']} seeds")
        field = loaded(field).mean("seed", skipna=False, keep_attrs=True)
    spare = [str(dim) for dim in field.dims if dim not in chosen and dim != "tail"]
    room = 1 if "tail" in field.dims else 2
    # The longest axes are drawn along, so that few values are left for panels; tokens in any case.
    by_length = sorted(spare, key=lambda dim: (dim == "token", field.sizes[dim]))
    longest = by_length[max(len(spare) + len(chosen) - room, 0) :]
    chosen += [dim for dim in reversed(spare) if dim in longest]
    spare = [dim for dim in spare if dim not in longest]
    if not chosen:
        raise InputError("`at` must leave an axis to draw along. Fix one axis fewer.")
    up = _other(y, chosen, x) if len(chosen) == 2 else None
    across = x or next(name for name in chosen if name != up)
    panels_of = spare.pop() if spare and spare[-1] != "token" else None
    for name in spare:
        middle = field.sizes[name] // 2
        fixed[name] = _value_at(field, name, middle)
        field = field.isel({name: middle})
        notes.append(f"{name} = {fixed[name]}, in the middle: choose another with `at`")
    field = loaded(field)
    return _View(field, across, up, _panels(field, panels_of), fixed, notes)


def _other(y: str | None, chosen: list[str], x: str | None) -> str:
    """The axis that goes up: the one asked for, or the first of those that do not go across."""
    across = x or chosen[1 if y is None else 1 - chosen.index(y)]
    return y or next(name for name in chosen if name != across)


def _panels(field: xr.DataArray, name: str | None) -> dict[str, xr.DataArray]:
    """One panel per value of an axis, of which at most six are drawn, evenly spread."""
    if name is None:
        return {"": field}
    count = field.sizes[name]
    indices = np.unique(np.linspace(0, count - 1, min(count, _MOST_PANELS)).round().astype(int))
    panels = {}
    for index in indices:
        title = _titles.setting_words(name, _value_at(field, name, int(index)))
        panels[title] = field.isel({name: index})
    return panels


def _places(field: xr.DataArray, name: str) -> np.ndarray:
    """The values of an axis as numbers; its indices if it has none."""
    return field[name].values if name in field.coords else np.arange(field.sizes[name])


def _value_at(field: xr.DataArray, name: str, index: int) -> str:
    """A value of an axis as it is shown: by its name, or in four digits."""
    names = field[name].attrs.get("names")
    return names[index] if names else f"{_places(field, name)[index]:.4g}"


def _title(data: xr.Dataset, view: _View) -> str:
    """What is drawn; below, of which simulation, at which values of the axes that are not drawn."""
    spec = _titles.spec_of(data)
    parts = [_titles.dynamics_words(spec["dynamics"])] if "dynamics" in spec else []
    parts += [_titles.problem_words(spec["problem"])] if "problem" in spec else []
    parts += [_titles.setting_words(name, value) for name, value in view.fixed.items()]
    parts += [note for note in view.notes if note.startswith("mean")]
    below = "; ".join(parts)
    return _titles.capital(_titles.value_words(view.field)) + (f"\n{below}" if below else "")


class _Look(NamedTuple):
    """One scale of colours for all panels; the classes by name, if values are classes."""

    norm: Normalize
    cmap: Any
    classes: list[str] | None = None


def _look(field: xr.DataArray) -> _Look:
    z = field.values.astype(float)
    z = z[np.isfinite(z)]
    if "flag_meanings" in field.attrs:
        classes = [name.replace("_", " ") for name in _flags(field.attrs["flag_meanings"])]
        norm = BoundaryNorm(np.arange(len(classes) + 1) - 0.5, len(classes))
        return _Look(norm, ListedColormap(_CLASSES[: len(classes)]), classes)
    low, high = (float(z.min()), float(z.max())) if len(z) else (0.0, 1.0)
    if "margin" in str(field.name):
        return _Look(CenteredNorm(0.0, max(-low, high, 1e-12)), "RdBu")
    if field.name in _STEPS:
        return _Look(LogNorm(1, max(10.0, high)), "cividis")
    if low > 0 and high > 20 * low:
        return _Look(LogNorm(low, high), "cividis")
    return _Look(Normalize(low, high if high > low else low + 1), "cividis")


def _flags(meanings: Any) -> list[str]:
    return meanings.split() if isinstance(meanings, str) else list(meanings)


def _draw_map(axes: Axes, panel: xr.DataArray, look: _Look) -> None:
    up, across = panel.dims
    x, y, z = panel[across].values, panel[up].values, panel.values.astype(float)
    plotting.hatch_background(axes)  # what has no value
    if isinstance(look.norm, LogNorm):
        z = np.where(np.isfinite(z), np.maximum(z, look.norm.vmin or 1), np.nan)
    if look.classes is not None:
        z = np.where(z < 0, np.nan, z)
    shown = np.ma.masked_invalid(z)
    axes.pcolormesh(x, y, shown, shading="nearest", rasterized=True, norm=look.norm, cmap=look.cmap)
    if look.classes is not None or min(z.shape) <= 20 or not np.isfinite(z).any():
        return
    levels = (
        [0.0]
        if isinstance(look.norm, CenteredNorm)
        else plotting.round_levels(z[np.isfinite(z)], 8)
    )
    levels = [level for level in levels if np.nanmin(z) < level < np.nanmax(z)]
    if levels:
        colour = "black" if isinstance(look.norm, CenteredNorm) else "white"
        axes.contour(x, y, shown, levels=levels, colors=colour, linewidths=0.5, alpha=0.7)


def _colour_bar(figure: Figure, grid: Any, look: _Look, field: xr.DataArray) -> None:
    mesh = grid[0, 0].collections[0]
    ticks = None if look.classes is None else range(len(look.classes))
    bar = figure.colorbar(mesh, ax=grid, ticks=ticks, shrink=0.9)
    if look.classes is not None:
        bar.ax.set_yticklabels(look.classes)
        bar.ax.tick_params(which="minor", length=0)
    else:
        bar.set_label(_titles.value_label(field))
        if isinstance(look.norm, LogNorm) and (look.norm.vmax or 1) < 1e3 * (look.norm.vmin or 1):
            plotting.log_ticks(bar.ax.yaxis)


def _draw_curves(axes: Axes, panel: xr.DataArray, across: str, look: _Look) -> None:
    x = panel[across].values
    if "tail" in panel.dims:
        points = panel.transpose(across, "tail").values
        axes.plot(np.repeat(x, points.shape[1]), points.ravel(), ",", color=plotting.COLOURS[0],
                  rasterized=True)  # fmt: skip
    elif look.classes is not None:
        known = np.where(panel.values < 0, np.nan, panel.values)
        axes.plot(x, known, ".", color=plotting.COLOURS[0], ms=4)
        axes.set_yticks(range(len(look.classes)), look.classes)
        axes.set_ylim(-0.5, len(look.classes) - 0.5)
        return
    else:
        axes.plot(x, panel.values, ".-", color=plotting.COLOURS[0], ms=4)
    if isinstance(look.norm, LogNorm) and (panel.values > 0).any():
        axes.set_yscale("log")
        if np.nanmax(panel.values) < 300 * np.nanmin(panel.values):
            plotting.log_ticks(axes.yaxis)
    if isinstance(look.norm, CenteredNorm):
        axes.axhline(0, color="0.55", lw=0.8, zorder=0)
    axes.set_ylabel(_titles.value_label(panel))


def _draw_line(axes: Axes, line: Line, style: str, panel: xr.DataArray, view: _View) -> None:
    drawn = [name for name in (view.across, view.up) if name is not None]
    fixed = {name: panel.coords[name] for name in line.level.dims if name not in drawn}
    level = line.level.sel(fixed) if fixed else line.level
    if view.up is None:
        if level.dims == (view.across,):
            order = np.argsort(level.values)
            at = np.interp(0.0, level.values[order], level[view.across].values[order])
            axes.axvline(float(at), color=_LINE, ls=style, lw=1.2, label=line.label)
            axes.legend()
        return
    level = xr.broadcast(level, panel)[0].transpose(view.up, view.across)
    if level.min() < 0 < level.max():
        over = (panel[view.across], panel[view.up], level)
        axes.contour(*over, levels=[0.0], colors=_LINE, linestyles=style, linewidths=1.5)
        axes.plot([], [], color=_LINE, ls=style, lw=1.5, label=line.label)
        axes.legend(loc="upper left", frameon=True, framealpha=0.9)


def _label(axes: Axes, which: str, name: str, panel: xr.DataArray) -> None:
    along = panel[name]
    values = along.values
    if _is_log(values):
        axes.set(**{f"{which}scale": "log"})
    if values.dtype.kind in "iu" and len(values) <= 16:  # whole numbers, each with its tick
        labels = along.attrs.get("names", [str(each) for each in values])
        getattr(axes, f"set_{which}ticks")(values, labels)
        getattr(axes, f"{which}axis").set_minor_formatter(NullFormatter())
    axes.set(**{f"{which}label": _titles.axis_label(name)})


def _is_log(values: np.ndarray) -> bool:
    """Whether values are evenly spaced on a logarithmic scale rather than a linear one."""
    if len(values) < 3 or (values <= 0).any():
        return False
    uneven = np.ptp(np.diff(values)) / max(abs(values).max(), 1e-300)
    return bool(np.ptp(np.diff(np.log(values))) < uneven)
