"""A probe shown: as tables, as a picture, and as a page with nothing outside it."""

import os

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import plotting
from engram._pages import Section, write_page
from engram.diagnosis._pictures import draw_signed
from engram.pictures import legend_name
from engram.plotting import COLOURS
from engram.problem import show_name

SUMMARY = (
    "matrix",
    "recalled",
    "error",
    "possible",
    "loss",
    "least margin",
    "effective rank",
    "norm",
)
_READING = (
    "“possible” is the error that some matrix is known to reach; where two numbers stand, none goes below "
    "the first. A push is how fast a token's gradient changes the margin of another one at these weights, "
    "per unit of flow time."
)
CONFUSIONS = ("token", "target", "nearest wrong", "margin", "loss", "pushed down by")


def each_matrix(dataset: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    """The matrices of a probe with their names: those that err least first, then by loss."""
    if "matrix" not in dataset.dims:
        return [("W", dataset)]
    order = np.lexsort((dataset.loss.values, dataset.error.values))
    return [(str(dataset["matrix"].values[k]), dataset.isel(matrix=k)) for k in order]


def summary_rows(dataset: xr.Dataset) -> list[tuple[str, ...]]:
    """One row per matrix, the best first, in the order of `SUMMARY`."""
    least, bound = float(dataset.possible_error), float(dataset.possible_bound)
    possible = f"{least:.4g}" if least - bound < 1e-12 else f"{bound:.4g} to {least:.4g}"
    return [
        (
            show_name(name),
            f"{int(one.num_recalled)} of {one.sizes['token']}",
            f"{float(one.error):.4g}",
            possible,
            f"{float(one.loss):.4g}",
            f"{float(one.margins.min()):.4g}",
            f"{float(one.effective_rank):.3g} of {one.sizes['mode']}",
            f"{float(one.weight_norm):.4g}",
        )
        for name, one in each_matrix(dataset)
    ]


def confusion_rows(one: xr.Dataset, most: int = 10) -> list[tuple[str, ...]]:
    """The tokens of one matrix with the smallest margins, in the order of `CONFUSIONS`."""
    call = lambda axis, place: show_name(str(one[axis].values[int(place)]))
    rows = []
    for x in np.argsort(one.margins.values, kind="stable")[:most]:
        by = int(one.hurt_by[x])
        pushed = "nobody" if by < 0 else f"{call('token', by)} ({float(one.hurt[x]):.3g})"
        rows.append(
            (
                call("token", x),
                call("class", one.target[x]),
                call("class", one.rival[x]),
                f"{float(one.margins[x]):.4g}",
                f"{float(one.token_losses[x]):.4g}",
                pushed,
            )
        )
    return rows


def draw_probe(dataset: xr.Dataset) -> Figure:
    """Margins, the spectrum, and the pushes; of several matrices margins and spectra, the best in colour."""
    matrices = each_matrix(dataset)
    single = len(matrices) == 1 and "push" in dataset
    coloured = len(COLOURS) if len(matrices) <= len(COLOURS) else len(COLOURS) - 1
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE * (1.35 if single else 1), 2.9)
        axes = figure.subplots(1, 3 if single else 2)
        for place, (name, one) in reversed(list(enumerate(matrices))):  # the best ones on top
            colour = COLOURS[place] if place < coloured else "0.8"
            label = (
                legend_name(name) if place < coloured else "others" if place == coloured else None
            )
            for panel, values in zip(
                axes, (np.sort(one.margins), one.singular_values), strict=False
            ):
                panel.plot(np.arange(1, len(values) + 1), values, color=colour, label=label)
        axes[0].axhline(0, color="0.6", lw=0.8, zorder=0)
        axes[0].set(xlabel="token, by margin", ylabel="margin $m(x)$")
        axes[1].set(xlabel="mode", ylabel="singular value of $W$")
        if len(matrices) > 1:
            axes[0].legend(reverse=True)
        else:
            _shade_wrong(axes[0], matrices[0][1])
        if single:
            _draw_pushes(figure, axes[2], matrices[0][1])
    return figure


def _shade_wrong(axes: Axes, one: xr.Dataset) -> None:
    values = np.sort(one.margins.values)
    places = np.arange(1, len(values) + 1)
    axes.fill_between(places, values, 0, where=values <= 0, color=COLOURS[1], alpha=0.3)
    axes.set_title(f"{int(one.num_recalled)} of {len(values)} recalled")


def _draw_pushes(figure: Figure, axes: Axes, one: xr.Dataset) -> None:
    """Who changes whose margin, tokens by falling frequency."""
    order = np.argsort(-one.probs.values, kind="stable")
    push = one.push.values[np.ix_(order, order)]
    others = push[~np.eye(len(push), dtype=bool)]
    size = float(np.abs(others).max(initial=0.0)) or 1.0
    draw_signed(figure, axes, push, size, "change of margin per unit of time")
    axes.set(
        xlabel="pushed by, most frequent first",
        ylabel="token, most frequent first",
        title="purple raises a margin, orange lowers it",
    )


def write_probe_page(dataset: xr.Dataset, path: str | os.PathLike[str], title: str) -> None:
    """Write a page with the table, the picture, and the nearest confusions of each matrix."""
    sizes = (dataset.sizes["token"], dataset.sizes["class"], dataset.sizes["mode"])
    lead = "{} tokens, {} classes, {} singular values.".format(*sizes)
    matrices = each_matrix(dataset)
    of = lambda name: f" of {show_name(name)}" if len(matrices) > 1 else ""
    confusions = [
        Section(f"Nearest confusions{of(name)}", heads=CONFUSIONS, rows=confusion_rows(one, 20))
        for name, one in matrices
    ]
    overview = Section(
        sentences=[_READING], picture=draw_probe(dataset), heads=SUMMARY, rows=summary_rows(dataset)
    )
    write_page(path, title, lead, [overview, *confusions])
