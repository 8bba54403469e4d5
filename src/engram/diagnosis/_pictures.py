"""Pictures of a diagnosis: a spike explained, who pushes whom, and a raster of what was forgotten when."""

from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, SymLogNorm
from matplotlib.figure import Figure

from engram._checks import InputError, check_choice
from engram.pictures import legend_name, shown_name
from engram.plotting import COLOURS, WIDE, new_figure, style

_FEW = 5  # tokens that are drawn apart
_MOST_LABELS = 40  # of an axis
_FURTHER = ("decay", "noise", "embeddings", "remainder")  # what moves margins, beside tokens
_PATIENCE = 0.6  # of a spike's length shown before and after it
_RECALLED, _FORGOTTEN = "#9ecae1", "#D55E00"
Order = Literal["frequency", "class", "cluster"]


def _along(run: xr.Dataset) -> str:
    return "step" if "step" in run.dims else "time"


# --- a spike ----------------------------------------------------------------------------------------------


def draw_spike(explanation: Any, index: int = 0) -> Figure:
    """The loss around a spike, the margins of those concerned, and who pushed whom."""
    if not explanation.spikes:
        raise InputError("there was no spike to draw.")
    spike, run = explanation.spikes[index], explanation.run
    concerned = _concerned(spike)
    with style():
        figure = new_figure(WIDE, 2.7)
        left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
        window = _window(run, spike)
        _draw_loss(left, run, spike, window)
        _draw_margins(middle, run, spike, window, concerned, explanation.names)
        _draw_pushes(right, spike, concerned, explanation.names)
    return figure


def _concerned(spike: Any) -> list[int]:
    """The tokens that rose most, then those that pushed them most."""
    picked = [x for x, share in spike.risen.top(2) if share > 0.01]
    for side, count in ((spike.against, 2), (spike.helping, 1)):
        least = 0.05 * np.abs(side.values).sum()
        picked += [x for x, v in side.top(count) if x not in picked and abs(v) > least]
    return picked[:_FEW]


def _window(run: xr.Dataset, spike: Any) -> slice:
    values = run[_along(run)].values
    end = spike.end if np.isfinite(spike.end) else spike.peak
    length = max(end - spike.first, 4 if _along(run) == "step" else 0)
    first = np.searchsorted(values, spike.first - _PATIENCE * length)
    last = np.searchsorted(values, end + _PATIENCE * length, side="right")
    return slice(int(first), int(max(last, first + 2)))


def _draw_loss(axes: Axes, run: xr.Dataset, spike: Any, window: slice) -> None:
    shown = run.isel({_along(run): window})
    axes.plot(shown[_along(run)], shown["loss"], color="black", marker=".", ms=3)
    axes.axvspan(spike.first, spike.peak, color=COLOURS[4], alpha=0.25, lw=0)
    axes.set_yscale("log")
    axes.set(xlabel=_along(run), ylabel="loss", title=f"The spike at {spike.peak:g}")


def _draw_margins(
    axes: Axes, run: xr.Dataset, spike: Any, window: slice, tokens: list[int], names: list[str]
) -> None:
    axes.axhline(0, color="0.6", lw=0.6)
    axes.axvspan(spike.first, spike.peak, color=COLOURS[4], alpha=0.25, lw=0)
    if "margins" in run:
        shown = run.isel({_along(run): window})
        for x, colour in zip(tokens, COLOURS, strict=False):
            axes.plot(
                shown[_along(run)],
                shown["margins"][:, x],
                color=colour,
                label=legend_name(names[x]),
            )
    else:
        for x, colour in zip(tokens, COLOURS, strict=False):
            ends = [float(spike.pushes[f"margin_{when}"][x]) for when in ("before", "after")]
            axes.plot(
                [spike.first, spike.peak], ends, "o-", color=colour, label=legend_name(names[x])
            )
    axes.legend(title="token")
    axes.set(xlabel=_along(run), ylabel="margin", title="Margins of those concerned")


def _draw_pushes(axes: Axes, spike: Any, tokens: list[int], names: list[str]) -> None:
    """For each token that rose, what each source did to its margin."""
    risen = [x for x, share in spike.risen.top(2) if share > 0.01]
    push = spike.pushes["push"].values
    others = [x for x in range(push.shape[1]) if x not in tokens]
    further = [name for name in _FURTHER if name in spike.pushes and _is_large(spike, name, risen)]
    rows = [*(shown_name(names[x]) for x in tokens), *(["others"] if others else []), *further]
    height = 0.8 / max(len(risen), 1)
    for k, x in enumerate(risen):
        values = [*push[x, tokens], *([push[x, others].sum()] if others else [])]
        values += [float(spike.pushes[name][x]) for name in further]
        places = np.arange(len(rows)) + k * height
        axes.barh(places, values, height, color=COLOURS[k], label=f"on {shown_name(names[x])}")
    axes.axvline(0, color="0.4", lw=0.6)
    axes.set_yticks(np.arange(len(rows)) + 0.4 - height / 2, rows)
    axes.invert_yaxis()
    axes.legend()
    axes.set(xlabel="change of margin", ylabel="pushed by", title="Who pushed")


def _is_large(spike: Any, name: str, tokens: list[int]) -> bool:
    """Whether what is no push of a token moved the margin of one of these as much as is worth a bar."""
    part, pushes = np.abs(spike.pushes[name].values), np.abs(spike.pushes["push"].values)
    return bool((part > 0.05 * (part + pushes.sum(axis=1)))[tokens].any())


# --- who pushes whom --------------------------------------------------------------------------------------


def draw_interference(pushes: xr.Dataset, *, order: Order = "frequency") -> Figure:
    """Who pushed whom as a heat map: rows are pushed, columns push; purple raises, orange lowers.

    Args:
        pushes: What `interference` returned.
        order: Sort the tokens by "frequency", by "class", or by "cluster": those that push alike together.
    """
    check_choice("order", order, ("frequency", "class", "cluster"))
    places = _order(pushes, order)
    values = pushes["push"].values[np.ix_(places, places)]
    labels = [shown_name(str(label)) for label in pushes["token"].values[places]]
    largest = np.abs(values).max() or 1.0
    with style():
        figure = new_figure(0.62 * WIDE, 0.54 * WIDE)
        axes = figure.subplots()
        draw_signed(figure, axes, values, largest, "change of margin")
        shown = range(0, len(labels), -(-len(labels) // _MOST_LABELS))
        axes.set_xticks(shown, [labels[k] for k in shown], rotation=90)
        axes.set_yticks(shown, [labels[k] for k in shown])
        sorted_by = {
            "frequency": "most frequent first",
            "class": "by class",
            "cluster": "by cluster",
        }
        axes.set(xlabel=f"pushed by (tokens {sorted_by[order]})", ylabel="token")
        first, last = pushes.attrs["first"], pushes.attrs["last"]
        axes.set_title(f"Changes of margins from {first:g} to {last:g}")
    return figure


def draw_signed(figure: Figure, axes: Axes, values: np.ndarray, largest: float, label: str) -> None:
    """A matrix as colours: purple above zero, orange below, on a scale that shows small values as well."""
    norm = SymLogNorm(largest / 100, vmin=-largest, vmax=largest)
    image = axes.imshow(values, cmap="PuOr", norm=norm, interpolation="nearest")
    exponents = np.arange(np.ceil(np.log10(0.01 * largest)), np.floor(np.log10(largest)) + 1)
    ticks = [*-(10.0 ** exponents[::-1]), 0.0, *10.0**exponents]
    bar = figure.colorbar(image, ax=axes, label=label, shrink=0.9, ticks=ticks, format="{x:g}")
    bar.ax.minorticks_off()


def _order(pushes: xr.Dataset, order: str) -> np.ndarray:
    frequent = np.argsort(-pushes["probs"].values, kind="stable")
    if order == "frequency":
        return frequent
    if order == "class":
        return frequent[np.argsort(pushes["target"].values[frequent], kind="stable")]
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(frequent) < 3:
        return frequent
    values = pushes["push"].values
    both = np.concatenate([values, values.T], axis=1)
    size = np.linalg.norm(both, axis=1, keepdims=True)
    return leaves_list(linkage(both / np.where(size > 0, size, 1.0), method="average"))


def draw_graph(pushes: xr.Dataset, *, strongest: int = 20) -> Figure:
    """The strongest pushes between different tokens as arrows on a circle, the most frequent token on top.

    Args:
        pushes: What `interference` returned.
        strongest: How many arrows.
    """
    values = pushes["push"].values.copy()
    np.fill_diagonal(values, 0.0)
    order = _order(pushes, "frequency")
    angle = np.empty(len(order))
    angle[order] = np.pi / 2 - 2 * np.pi * np.arange(len(order)) / len(order)
    x, y = np.cos(angle), np.sin(angle)
    ranked = np.argsort(-np.abs(values), axis=None)[:strongest]
    largest = np.abs(values).max() or 1.0
    with style():
        figure = new_figure(0.62 * WIDE, 0.62 * WIDE)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.scatter(x, y, s=20 + 400 * pushes["probs"].values, color="0.75", zorder=3)
        for flat in ranked:
            token, source = np.unravel_index(flat, values.shape)
            size = values[token, source]
            if abs(size) < 0.01 * largest:
                continue
            axes.annotate(
                "", (x[token], y[token]), (x[source], y[source]), zorder=2,
                arrowprops={
                    "arrowstyle": "-|>", "lw": 0.4 + 2.6 * abs(size) / largest, "shrinkA": 5,
                    "shrinkB": 5, "color": COLOURS[0] if size > 0 else COLOURS[1],
                    "connectionstyle": "arc3,rad=0.12",
                },
            )  # fmt: skip
        if len(order) <= 60:
            for token, label in enumerate(pushes["token"].values):
                axes.text(
                    1.12 * x[token],
                    1.12 * y[token],
                    shown_name(str(label)),
                    ha="center",
                    va="center",
                )
        axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
        axes.set_title("Strongest pushes: blue raises a margin, orange lowers it")
    return figure


# --- what was forgotten -----------------------------------------------------------------------------------


def draw_forgetting(run: xr.Dataset) -> Figure:
    """Tokens by frequency against steps, blue while recalled, orange where forgotten; the loss above."""
    if "event_step" not in run or "step" not in run.dims:
        raise InputError(
            "`run` must be a descent with its events. Run `simulate` with `events=True`."
        )
    last = int(run.attrs["stopped_at"])
    edges = _edges(last)
    states = _states_at(run, edges)
    order = np.argsort(-run["probs"].values, kind="stable")
    with style():
        figure = new_figure(WIDE, 3.6)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2.2))
        above.plot(run["step"] + 1, run["loss"], color="black")
        above.set(yscale="log", ylabel="loss")
        colours = ListedColormap(["white", _RECALLED, _FORGOTTEN])
        x = np.append(edges, last + 1) + 1
        y = np.arange(len(order) + 1)
        below.pcolormesh(x, y, states[order], cmap=colours, vmin=0, vmax=2, rasterized=True)
        below.set(xscale="log", xlabel="step + 1", ylabel="token, most frequent first")
        below.invert_yaxis()
        if len(order) <= 30:
            below.set_yticks(
                np.arange(len(order)) + 0.5,
                [shown_name(str(t)) for t in run["token"].values[order]],
            )
        for colour, text in ((_RECALLED, "recalled"), (_FORGOTTEN, "forgotten")):
            below.plot([], [], "s", color=colour, label=text)
        below.legend(loc="upper left", frameon=True)  # nothing is learnt yet
    return figure


def _edges(last: int) -> np.ndarray:
    """Steps, all of them if few, otherwise evenly on a logarithmic scale."""
    if last < 2000:
        return np.arange(last + 1)
    return np.unique(np.geomspace(1, last + 1, 1500).astype(int)) - 1


def _states_at(run: xr.Dataset, steps: np.ndarray) -> np.ndarray:
    """Of each token at each step: 0 never learnt so far, 1 recalled, 2 forgotten; from the events alone."""
    states = np.zeros((run.sizes["token"], len(steps)), int)
    when, tokens = run["event_step"].values, run["event_token"].values.astype(int)
    gained = run["margin_after"].values > 0
    for step, token, is_gain in zip(when, tokens, gained, strict=True):
        states[token, np.searchsorted(steps, step) :] = 1 if is_gain else 2
    return states
