"""plot: a picture of whatever engram computed."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import xarray as xr
from matplotlib.figure import Figure

from engram import plotting
from engram._checks import InputError
from engram.pictures._comparison import draw_comparison
from engram.pictures._run import draw_run
from engram.pictures._sweep import Line, draw_sweep
from engram.pictures._training import draw_training

_KINDS = {
    "run": draw_run,
    "recording": draw_run,
    "comparison": draw_comparison,
    "training": draw_training,
    "engram sweep": draw_sweep,
}


@runtime_checkable
class HasLog(Protocol):
    """A training, whose log is drawn."""

    @property
    def log(self) -> xr.Dataset: ...


def plot(
    data: xr.Dataset | HasLog,
    *,
    value: str | None = None,
    x: str | None = None,
    y: str | None = None,
    at: Mapping[str, float] | None = None,
    lines: Sequence[Line] = (),
    title: str | None = None,
) -> Figure:
    """Draw a run, a comparison, a sweep or a training.

    What it is, and what things are called, is read off the dataset. The figure belongs to no window: a
    notebook shows it, `figure.savefig("run.png")` writes it.

    Args:
        data: What `simulate`, `compare` or `sweep` returned or `xarray` read from their files, or what
            `transformer.train` returned, or its log.
        value: Of a sweep: which variable to draw. The first by default.
        x: Of a sweep: the axis that goes across. By default the two longest axes are drawn along.
        y: Of a sweep: the axis that goes up.
        at: Of a sweep: axes to fix, at the nearest of their values. Of the others that are not drawn, one
            gets a panel per value, six at most.
        lines: Of a sweep: lines of theory across it, from `engram.sweeps.boundary`.
        title: Instead of one made from names.

    Returns:
        A Matplotlib figure. Of a sweep its label (`figure.get_label()`) says what was fixed or averaged.
    """
    dataset = data if isinstance(data, xr.Dataset) else getattr(data, "log", None)
    if not isinstance(dataset, xr.Dataset):
        raise InputError(
            f"`data` must be a run, a comparison, a sweep or a training, got {type(data).__name__}. "
            "Pass what `simulate`, `compare`, `sweep` or `transformer.train` returned."
        )
    kind = kind_of(dataset)
    options: dict[str, Any] = {"value": value, "x": x, "y": y, "at": at, "lines": tuple(lines)}
    given = {name: option for name, option in options.items() if option}
    if given and kind != "engram sweep":
        raise InputError(
            f"`{next(iter(given))}` is for sweeps, and this is a {kind}. Leave it out."
        )
    with plotting.style():
        return _KINDS[kind](dataset, title=title, **given)


def kind_of(data: xr.Dataset) -> str:
    """What a dataset is, from its attributes."""
    kind = data.attrs.get("kind")
    if kind in _KINDS:
        return str(kind)
    known = ", ".join(_KINDS)
    raise InputError(
        f"`data` does not say what it is: its attribute `kind` must be among {known}, got {kind!r}. "
        "Operations of xarray drop attributes; keep them with `xarray.set_options(keep_attrs=True)`."
    )
