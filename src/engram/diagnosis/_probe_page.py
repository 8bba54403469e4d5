"""A probe shown: as tables, as a picture, and as a page with nothing outside it."""

import base64
import io
import os
from typing import Any

import jinja2
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import engram
from engram import plotting
from engram._files import written_whole
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
CONFUSIONS = ("token", "target", "nearest wrong", "margin", "loss", "pushed down by")


def each_matrix(dataset: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    """The matrices of a probe, one by one, with their names."""
    if "matrix" not in dataset.dims:
        return [("W", dataset)]
    return [(str(name), dataset.sel(matrix=name)) for name in dataset["matrix"].values]


def summary_rows(dataset: xr.Dataset) -> list[tuple[str, ...]]:
    """One row per matrix, in the order of `SUMMARY`."""
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
    """Margins, the spectrum, and the pushes; of several matrices their margins and spectra."""
    matrices = each_matrix(dataset)
    single = len(matrices) == 1 and "push" in dataset
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE * (1.35 if single else 1), 2.9)
        axes = figure.subplots(1, 3 if single else 2)
        for index, (name, one) in enumerate(matrices):
            colour = COLOURS[index % len(COLOURS)]
            label = _escaped(name) if 1 < len(matrices) <= len(COLOURS) else None
            _draw_margins(axes[0], one, colour, label)
            values = one.singular_values.values
            axes[1].plot(
                np.arange(1, len(values) + 1), values, ".-", color=colour, ms=3, label=label
            )
        axes[0].axhline(0, color="0.6", lw=0.8, zorder=0)
        axes[0].set(xlabel="token, by margin", ylabel="margin $m(x)$")
        axes[1].set(xlabel="mode", ylabel="singular value of $W$")
        if 1 < len(matrices) <= len(COLOURS):
            axes[0].legend()
        if single:
            _draw_pushes(figure, axes[2], matrices[0][1])
    return figure


def _draw_margins(axes: Axes, one: xr.Dataset, colour: str, label: str | None) -> None:
    values = np.sort(one.margins.values)
    axes.plot(np.arange(1, len(values) + 1), values, color=colour, label=label)
    if label is None:
        wrong = values <= 0
        axes.fill_between(
            np.arange(1, len(values) + 1), values, 0, where=wrong, color=COLOURS[1], alpha=0.3
        )
        axes.set_title(f"{int(one.num_recalled)} of {len(values)} recalled")


def _draw_pushes(figure: Figure, axes: Axes, one: xr.Dataset) -> None:
    """Who changes whose margin, tokens by falling frequency."""
    order = np.argsort(-one.probs.values, kind="stable")
    push = one.push.values[np.ix_(order, order)]
    others = push[~np.eye(len(push), dtype=bool)]
    size = float(np.abs(others).max(initial=0.0)) or 1.0
    image = axes.imshow(push, cmap="RdBu", vmin=-size, vmax=size, interpolation="nearest")
    figure.colorbar(image, ax=axes, shrink=0.85)
    axes.set(xlabel="source, by frequency", ylabel="token, by frequency", title="pushes on margins")


def _escaped(text: str) -> str:
    return show_name(text).replace("$", r"\$")  # a dollar sign would begin a formula


def probe_page(dataset: xr.Dataset, title: str, most: int = 20) -> str:
    """The page as text."""
    picture = io.BytesIO()
    draw_probe(dataset).savefig(picture, dpi=130, format="png")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("engram.diagnosis", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    shape = (dataset.sizes["token"], dataset.sizes["class"], dataset.sizes["mode"])
    return environment.get_template("probe.html").render(
        title=title,
        version=engram.__version__,
        shape=shape,
        picture=base64.b64encode(picture.getvalue()).decode(),
        summary=(SUMMARY, summary_rows(dataset)),
        heads=CONFUSIONS,
        matrices=[(name, confusion_rows(one, most)) for name, one in each_matrix(dataset)],
    )


def write_probe_page(dataset: xr.Dataset, path: str | os.PathLike[str], title: str) -> None:
    """Write the page, whole or not at all."""
    text: Any = probe_page(dataset, title)
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")
