"""Figure 2: two correlated tokens, where a large learning rate spikes and still wins."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram import plotting
from engram.figures._comparison import (
    Comparison,
    compared,
    compared_records,
    counted,
    runs_in_common,
)
from engram.figures._labels import labelled
from engram.figures._plane import draw_plane, plane_of
from engram.figures._reference import reference
from engram.figures._runs import Progress, descents, silent
from engram.figures._training import num_spikes
from engram.problem import two_tokens


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the paper's Figure 2 uses, with what its text leaves out."""

    correlation: float = 0.95  # of the two input embeddings
    p1: float = 0.75  # frequency of the first token
    learning_rates: tuple[float, ...] = (10.0, 1.0)
    points: int = 35  # the start and 34 updates
    first: tuple[float, float] = (-1.0, 8.0)  # the plane shown
    second: tuple[float, float] = (-17.0, 10.0)
    num: int = 197


SCALES = {"quick": Settings(), "paper": Settings(num=589)}


def compute(settings: Settings, progress: Progress = silent) -> xr.Dataset:
    """Losses, errors, margins and the path along full-batch descent from W = 0, and the plane."""
    problem = two_tokens(settings.correlation, settings.p1)
    record = ("loss", "error", "margins", "weights")
    along = descents(problem, settings.learning_rates, settings.points - 1, record)
    progress(1, 2)
    axes = ((*settings.first, settings.num), (*settings.second, settings.num))
    data = along.merge(plane_of(problem, *axes))
    progress(2, 2)
    return labelled(data, "fig2", settings)


def compare(data: xr.Dataset) -> list[Comparison]:
    """Every point of both runs, and the events that the text speaks of."""
    rows = []
    for here, run, rate in runs_in_common(data, reference("fig2")["runs"]):
        theirs, events = np.asarray(run["loss_f64"]), _events(run["err01_f64"])
        rows += compared_records(here, run, ("loss", "error", "margins", "gamma"), f", {rate}")
        rows += [
            compared(f"largest loss, {rate}", here.loss.max(), theirs.max()),
            counted(
                f"step of the largest loss, {rate}", here.loss.values.argmax(), theirs.argmax()
            ),
            compared(f"last loss, {rate}", here.loss[-1], theirs[-1]),
        ]
        for name, ours in _events(here.error).items():
            if events[name] is None:
                rows.append(counted(f"{name}: reached (0: no), {rate}", ours is not None, 0))
            else:
                rows.append(counted(f"{name}, {rate}", -1 if ours is None else ours, events[name]))
    return rows


def _events(error: Any) -> dict[str, int | None]:
    """The first step without error and the one from which there is none; None if there is no such step."""
    wrong = np.asarray(error) > 0
    last = int(np.flatnonzero(wrong)[-1]) if wrong.any() else -1
    return {
        "first step without error": None if wrong.all() else int(np.argmin(wrong)),
        "step from which accuracy is perfect": None if last + 1 == len(wrong) else last + 1,
    }


def findings(data: xr.Dataset) -> list[str]:
    """What the figure shows, measured."""
    sentences = []
    for rate in data.learning_rate.values:
        loss = data.loss.sel(learning_rate=rate).values
        first, kept = _events(data.error.sel(learning_rate=rate)).values()
        accuracy = (
            f"perfect accuracy first at t = {first}, "
            + ("not for good" if kept is None else f"for good from t = {kept}")
            if first is not None
            else f"perfect accuracy not reached in {len(loss) - 1} steps"
        )
        spikes = num_spikes(loss) > 0
        peak = f"spikes to {loss.max():.6f} at t = {loss.argmax()}" if spikes else "does not spike"
        sentences.append(f"η = {rate:g} {peak} and ends at {loss[-1]:.6f}; {accuracy}")
    last = data.loss.isel(step=-1).values
    fast, slow = data.learning_rate.values[[last.argmin(), last.argmax()]]
    sentences.append(
        f"η = {fast:g} ends {last.max() / last.min():.1f} times lower than η = {slow:g}"
    )
    return sentences


def draw(data: xr.Dataset) -> Figure:
    """The plane with both trajectories, the loss and the margins; one colour per learning rate."""
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 2.7)
        plane, loss, margins = figure.subplots(1, 3)
        draw_plane(plane, data, num=9)
        for rate in data.learning_rate.values:
            run, label = data.sel(learning_rate=rate), rf"$\eta = {rate:g}$"
            plotting.draw_path(plane, run.gamma, rate, label=label)
            look = plotting.rate_style(rate)
            loss.plot(data.step, run.loss, ms=2.5, label=label, **look)
            for token, dashes in enumerate(("-", "--")):
                margins.plot(data.step, run.margins[:, token], dashes, color=look["color"])
        loss.axhline(np.log(2), color="0.6", lw=0.8, zorder=0)
        loss.annotate("log 2", (data.sizes["step"] - 1, np.log(2)), (0, 2), ha="right",
                      textcoords="offset points", color="0.4", fontsize=7)  # fmt: skip
        loss.set(xlabel="step $t$", ylabel="loss $L(W_t)$", yscale="log", title="Loss")
        plotting.log_ticks(loss.yaxis)
        margins.axhline(0, color="0.6", lw=0.8, zorder=0)
        margins.set(xlabel="step $t$", ylabel="margin $m_t(x)$", title="Margins")
        plane.set_title("Trajectories on the loss")
        plane.legend(loc="upper right", frameon=True, framealpha=0.85, edgecolor="none")
        for token, dashes in enumerate(("-", "--")):
            margins.plot([], [], dashes, color="0.3", label=f"token {token + 1}")
        margins.legend(loc="lower right")
        return figure
