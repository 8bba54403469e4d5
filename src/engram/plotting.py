"""How pictures look: one palette, one style, and the plane of a memory drawn alike everywhere."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, NullFormatter

from engram._types import ArrayLike, Scalar

# Okabe and Ito's palette: distinct also for colour-blind readers.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000"]
# A learning rate has the same colour and mark in every picture; the paper's green and red for 10 and 1.
_RATES = {
    0.1: ("#E69F00", "D"),
    1.0: ("#D55E00", "s"),
    2.0: ("#0072B2", "<"),
    3.0: ("#0072B2", "^"),
    5.0: ("#D55E00", ">"),
    10.0: ("#009E73", "o"),
    20.0: ("#AA4499", "v"),
    50.0: ("#E69F00", "p"),
    100.0: ("#56B4E9", "h"),
    200.0: ("#000000", "*"),
}
_OTHER_RATES = [("#56B4E9", "p"), ("#000000", "h"), ("#999933", "X"), ("#882255", "P"),
                ("#332288", "*")]  # fmt: skip
# White where nothing is recalled, blue where everything is; light enough for lines to show on it.
ACCURACY = LinearSegmentedColormap.from_list("accuracy", ["#FFFFFF", "#C6DDF0", "#5B9BD5"])
WIDE = 7.2  # inches: the width of a page's text
_STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "mathtext.fontset": "cm",
    "lines.linewidth": 1.3,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Everything drawn inside looks alike."""
    with matplotlib.rc_context(_STYLE):
        yield


class Picture(Figure):
    """A figure that belongs to no window and needs no closing; notebooks show it."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=120)
        return file.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """An empty picture of a size in inches."""
    return Picture(figsize=(width, height), layout="constrained")


def add_title(figure: Figure, title: str) -> None:
    """A title above all panels; it goes on in a further line where the picture is narrow."""
    figure.suptitle(title, fontsize=9.5, wrap=True)


def leave_out(grid: np.ndarray, first: int) -> None:
    """Hide the panels of a grid from this one on, and name the axes of those that stand above them."""
    for spare in range(first, grid.size):
        above: Any = grid.flat[spare - grid.shape[1]]
        above.xaxis.set_tick_params(labelbottom=True)
        above.set_xlabel(grid.flat[first - 1].get_xlabel())
        grid.flat[spare].set_axis_off()


def rate_style(rate: Scalar) -> dict[str, Any]:
    """The colour and the mark of a learning rate."""
    for known, (colour, mark) in _RATES.items():
        if np.isclose(known, rate, rtol=1e-6):
            return {"color": colour, "marker": mark}
    colour, mark = _OTHER_RATES[round(10 * np.log10(max(float(rate), 1e-30))) % len(_OTHER_RATES)]
    return {"color": colour, "marker": mark}


def shade_accuracy(axes: Axes, begin: ArrayLike, end: ArrayLike, error: ArrayLike) -> None:
    """Fill the plane's sectors by their 0-1 loss, exactly: each reaches beyond the edge of the axes."""
    corners = [(x, y) for x in axes.get_xlim() for y in axes.get_ylim()]
    radius = 1.01 * max(float(np.hypot(*corner)) for corner in corners)
    for first, last, wrong in zip(
        *(np.asarray(v, float) for v in (begin, end, error)), strict=True
    ):
        colour = ACCURACY(1.0 - wrong)
        axes.add_patch(
            Wedge((0, 0), radius, np.degrees(first), np.degrees(last), fc=colour, ec=colour, lw=0.3, zorder=0)
        )  # fmt: skip


def draw_levels(
    axes: Axes,
    x: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    *,
    num: int = 12,
    label: bool = True,
    avoid: ArrayLike = (),
) -> None:
    """Level lines at levels that are round, evenly spaced in the share of the plane they enclose."""
    levels = round_levels(z, num)
    lines = axes.contour(x, y, z, levels=levels, colors="0.25", linewidths=0.6)
    if label:
        texts = axes.clabel(
            lines, levels[::2], fontsize=5.5, inline=False, fmt=lambda v: f"{v:.3g}"
        )
        for text in texts:
            text.set_path_effects([withStroke(linewidth=2, foreground="white", alpha=0.8)])
            _keep_clear(axes, text, avoid)


def _keep_clear(axes: Axes, text: Any, avoid: Any) -> None:
    """A label at the edge would be cut, and one upon another illegible: those are left out."""
    place = lambda at: axes.transAxes.inverted().transform(axes.transData.transform(at))
    x, y = place(text.get_position())
    crowded = any(np.hypot(*(place(point) - (x, y))) < 0.16 for point in avoid)
    if crowded or not (0.08 < x < 0.92 and 0.08 < y < 0.92):
        text.remove()


def log_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis of few decades: 1, 2, 5 times powers of ten, as plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def round_levels(z: ArrayLike, num: int) -> np.ndarray:
    """Quantiles of the values, rounded to two digits."""
    raw = np.quantile(np.asarray(z), np.linspace(0.02, 0.98, num))
    return np.unique([float(f"{value:.2g}") for value in raw if value > 0])


def draw_path(
    axes: Axes, path: ArrayLike, rate: Scalar, *, label: str | None = None, ms: float = 2.5
) -> None:
    """A trajectory in the plane, with its start in black."""
    x, y = np.asarray(path).T
    axes.plot(x, y, lw=0.9, ms=ms, label=label, zorder=3, **rate_style(rate))
    axes.plot(x[0], y[0], "o", color="black", ms=4, zorder=4)


def hatch_background(axes: Axes) -> None:
    """Hatch what is not painted over later: cells without a value."""
    axes.set_facecolor("0.85")
    axes.patch.set(hatch="////", edgecolor="0.6", linewidth=0)


def name_plane(axes: Axes) -> None:
    """Labels of the plane's coordinates."""
    axes.set_xlabel(r"$\gamma_1$", labelpad=1)
    axes.set_ylabel(r"$\gamma_2$", labelpad=2)
