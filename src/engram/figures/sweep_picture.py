"""A picture of a sweep: a map with level lines, a curve, or a bifurcation diagram."""

import json
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from engram import plotting
from engram._checks import InputError
from engram.problem._names import show_name
from engram.sweeps import CLASSES, boundary, loaded

_STEPS = ("first_perfect", "perfect_from", "last_rise")
_SYMBOLS = {
    "correlation": r"correlation $\alpha$", "learning_rate": r"learning rate $\eta$", "p1": "$p_1$",
    "log_odds": r"imbalance $\log(p_1/p_2)$", "num_tokens": "tokens $N$", "dim": "dimension $d$",
    "num_classes": "classes $M$", "exponent": "Zipf exponent", "start_scale": "scale of the start",
}  # fmt: skip


_VALUES = {
    "first_perfect": "steps to perfect accuracy", "perfect_from": "steps to lasting perfect accuracy",
    "spike_height": "highest loss over the lowest before", "num_spikes": "number of spikes",
    "last_rise": "last step at which the loss rose", "max_loss": "highest loss", "final_loss": "last loss",
    "final_error": "last 0-1 loss", "likeliest_margin": "margin of the likeliest token",
    "likeliest_forgotten": "likeliest token forgotten", "tail_loss": "loss of the last steps",
}  # fmt: skip
_NAMED = (
    "correlation",
    "p1",
    "num_tokens",
    "num_classes",
    "dim",
    "learning_rate",
    "momentum",
    "steps",
)


def draw_sweep(
    data: xr.Dataset, *, value: str | None = None, x: str | None = None, y: str | None = None,
    at: dict[str, float] | None = None, theory: tuple[str, ...] = (),
) -> tuple[Figure, list[str]]:  # fmt: skip
    """Draw one variable of a sweep over one or two of its axes; say what was fixed, averaged and counted."""
    spec = json.loads(data.attrs.get("spec", "{}"))
    value = value or str(next(iter(data.data_vars)))
    if value not in data.data_vars:
        raise InputError(
            f"--value must be among {', '.join(map(str, data.data_vars))}, got {value!r}."
        )
    lines = [boundary(data, name) for name in theory]
    said = [line.told for line in lines]
    field, told = _reduced(_numbered(data[value]), x, y, at or {})
    said += told
    dims = [str(dim) for dim in field.dims if dim != "tail"]
    with plotting.style():
        figure = plotting.new_figure(4.6, 3.4)
        axes = figure.subplots()
        if "tail" in field.dims or len(dims) == 1:
            _curve(axes, field, dims[0], value)
            for line in lines:
                _upright(axes, line, dims[0])
        else:
            across = x or next(dim for dim in dims if dim != y)
            up = y or next(dim for dim in dims if dim != across)
            _map(figure, axes, field.transpose(up, across), across, up, value)
            for line in lines:
                _across(axes, line, field, across, up)
        axes.set_title(_title(spec, value, told), wrap=True)
        return figure, said


def _numbered(field: xr.DataArray) -> xr.DataArray:
    """Axes that go by names as axes of numbers from zero, which keep the names for their ticks."""
    named = [dim for dim in field.dims if field[dim].dtype.kind in "OSU"]
    shown = {dim: [show_name(str(name)) for name in field[dim].values] for dim in named}
    return field.assign_coords(
        {dim: (dim, np.arange(len(names)), {"names": names}) for dim, names in shown.items()}
    )


def _reduced(
    field: xr.DataArray, x: str | None, y: str | None, at: dict[str, float]
) -> tuple[xr.DataArray, list[str]]:
    """Fix or average the axes that are not drawn."""
    told = []
    drawn = [name for name in (x, y, *at) if name is not None]
    if len(set(drawn)) < len(drawn):
        raise InputError(
            f"--x, --y and --at must name different axes, got {', '.join(drawn)}. Name each once."
        )
    for name in drawn:
        if name not in field.dims:
            raise InputError(
                f"`{name}` is not an axis of this sweep. Axes are {', '.join(map(str, field.dims))}."
            )
    for name, wanted in at.items():
        field = field.sel({name: wanted}, method="nearest")
        told.append(f"{name} = {float(field[name]):.4g}")
    if "seed" in field.dims and "seed" not in (x, y) and field.dtype.kind == "f":
        told.append(f"mean over {field.sizes['seed']} seeds")
        field = loaded(field).mean("seed", skipna=False)
    keep = [name for name in (x, y) if name is not None]
    spare = [str(dim) for dim in field.dims if dim not in keep and dim != "tail"]
    room = (1 if "tail" in field.dims else 2) - len(keep)
    chosen = spare[len(spare) - room :] if room > 0 else []
    for name in spare:
        if name not in chosen:
            middle = field.sizes[name] // 2
            has_values = name in field.coords
            field = field.isel({name: middle})
            shown = f"{float(field[name]):.4g}" if has_values else middle
            told.append(f"{name} = {shown} (of {name}: fix another with --at {name}=...)")
    return loaded(field), told


def _title(spec: dict[str, Any], value: str, told: list[str]) -> str:
    """What is drawn, of which simulation, at which values of the axes that are not drawn."""
    problem, dynamics = spec.get("problem", {}), spec.get("dynamics", {})
    fixed = {**problem, **dynamics}
    named = [f"{key} = {fixed[key]:g}" for key in _NAMED if isinstance(fixed.get(key), int | float)]
    who = [f"{dynamics['kind']} on {problem.get('family', 'two')}"] if "kind" in dynamics else []
    rest = ", ".join([*who, *named, *(each.split(" (of")[0] for each in told)])
    return f"{_words(value)}; {rest}" if rest else _words(value)


def _words(value: str) -> str:
    return _VALUES.get(value, value.replace("_", " "))


def _is_log(values: np.ndarray) -> bool:
    """Whether values are evenly spaced on a logarithmic scale rather than a linear one."""
    if len(values) < 3 or (values <= 0).any():
        return False
    return bool(
        np.ptp(np.diff(np.log(values))) < np.ptp(np.diff(values)) / max(abs(values).max(), 1e-300)
    )


def _spans_decades(z: np.ndarray) -> bool:
    z = z[np.isfinite(z)]
    return bool(len(z) and z.min() > 0 and z.max() > 20 * z.min())


def _scale(axes: Axes, which: str, name: str, along: xr.DataArray) -> None:
    values = along.values
    if _is_log(values):
        getattr(axes, f"set_{which}scale")("log")
    if values.dtype.kind in "iu" and len(values) <= 16:  # whole numbers, each with its tick
        labels = along.attrs.get("names", [str(each) for each in values])
        getattr(axes, f"set_{which}ticks")(values, [label.replace("$", r"\$") for label in labels])
        getattr(axes, f"{which}axis").set_minor_formatter(NullFormatter())
    getattr(axes, f"set_{which}label")(_SYMBOLS.get(name, name.replace("_", " ")))


def _map(figure: Figure, axes: Axes, field: xr.DataArray, across: str, up: str, value: str) -> None:
    x, y, z = field[across].values, field[up].values, field.values.astype(float)
    axes.set_facecolor("0.85")
    axes.patch.set(
        hatch="////", edgecolor="0.6", linewidth=0
    )  # what is not painted over is not reached
    options: dict[str, Any] = {"cmap": "cividis"}
    ticks = None
    if value == "convergence":
        z = np.where(z < 0, np.nan, z)
        colours = ["#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#000000"]
        options = {"cmap": ListedColormap(colours), "norm": BoundaryNorm(np.arange(6) - 0.5, 5)}
        ticks = range(5)
    elif value in ("spike_height", "max_loss", "final_loss") and _spans_decades(z):
        options["norm"] = LogNorm()
    elif value in _STEPS:
        z = np.where(np.isnan(z), np.nan, np.maximum(z, 1))
        options["norm"] = LogNorm(1, max(10, float(np.nanmax(z)) if np.isfinite(z).any() else 10))
    picture = axes.pcolormesh(
        x, y, np.ma.masked_invalid(z), shading="nearest", rasterized=True, **options
    )
    if value != "convergence" and min(z.shape) > 20 and np.isfinite(z).any():
        levels = plotting.round_levels(z[np.isfinite(z)], 8)
        levels = levels[levels > np.nanmin(z)]  # a line at the floor would be noise
        if len(levels):
            axes.contour(
                x,
                y,
                np.ma.masked_invalid(z),
                levels=levels,
                colors="white",
                linewidths=0.4,
                alpha=0.7,
            )
    bar = figure.colorbar(picture, ax=axes, ticks=ticks)
    if ticks is not None:
        bar.ax.set_yticklabels(CLASSES)
    else:
        bar.set_label(_words(value))
    _scale(axes, "x", across, field[across])
    _scale(axes, "y", up, field[up])


def _curve(axes: Axes, field: xr.DataArray, across: str, value: str) -> None:
    x = field[across].values
    if "tail" in field.dims:
        points = field.transpose(across, "tail").values
        axes.plot(
            np.repeat(x, points.shape[1]),
            points.ravel(),
            ",",
            color=plotting.COLOURS[0],
            rasterized=True,
        )
    else:
        axes.plot(x, field.values, ".-", color=plotting.COLOURS[0], ms=3)
    axes.set_ylabel(_words(value))
    _scale(axes, "x", across, field[across])


def _upright(axes: Axes, line: Any, across: str) -> None:
    level = line.level
    if level.dims != (across,):
        return
    order = np.argsort(level.values)
    at = float(np.interp(0.0, level.values[order], level[across].values[order]))
    axes.axvline(at, color=plotting.COLOURS[1], ls="--", lw=1.2)
    axes.annotate(
        line.label, (at, 1), (2, -9), xycoords=("data", "axes fraction"), textcoords="offset points",
        color=plotting.COLOURS[1], fontsize=8,
    )  # fmt: skip


def _across(axes: Axes, line: Any, field: xr.DataArray, across: str, up: str) -> None:
    fixed = {name: field.coords[name] for name in line.level.dims if name not in (across, up)}
    level = line.level.sel(fixed) if fixed else line.level
    level = xr.broadcast(level, field)[0].transpose(up, across).values
    if level.min() < 0 < level.max():
        axes.contour(
            field[across], field[up], level, levels=[0.0], colors="#E8543F", linewidths=1.4
        )
        axes.plot([], [], color="#E8543F", lw=1.4, label=line.label)
        axes.legend(loc="upper left", frameon=True, framealpha=0.9, fontsize=8)
