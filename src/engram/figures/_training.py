"""What figures of trainings share: spikes, reversals, and margins of a few tokens."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from engram import plotting
from engram.observables import Events, events_of_series
from engram.system import Look

# From first to last: dark to light (of "magma"), so that no token looks like a learning rate.
FIVE = ["#000004", "#51127C", "#B73779", "#FC8961", "#E8C547"]


def five_of(values: Any) -> np.ndarray:
    """Five of them, evenly spread."""
    return np.asarray(values)[np.linspace(0, len(values) - 1, 7)[1:-1].round().astype(int)]


def num_spikes(loss: Any) -> int:
    """How often the loss leaves `SPIKE_FACTOR` times its running minimum upwards."""
    return int(_spikes_of(loss)["num_spikes"])


def highest_spike(loss: Any) -> float:
    """How high above its running minimum the loss goes in a spike; 0 without one."""
    return float(np.nan_to_num(_spikes_of(loss)["highest_spike"]))


def _spikes_of(loss: Any) -> dict[str, Any]:
    loss = np.asarray(loss, float)
    loss = loss[np.isfinite(loss)]
    if not len(loss):
        return {"num_spikes": 0, "highest_spike": 0.0}
    events = Events(parts=("losses",), capacity=0)
    found = events.describe(events_of_series(events, Look(loss)), len(loss) - 1)
    return {name: found[name][1] for name in ("num_spikes", "highest_spike")}


def taken_back(margins: Any) -> float:
    """How much margins go to and fro: of all their movement, the share that other movement undoes."""
    moves = np.diff(np.asarray(margins, float), axis=0)
    moves = moves[np.isfinite(moves).all(axis=1)]
    return float(1 - np.abs(moves.sum(axis=0)).sum() / max(np.abs(moves).sum(), 1e-300))


def draw_losses(axes: Axes, steps: Any, losses: dict[float, Any], lw: float = 1.0) -> None:
    """Losses by learning rate, on a logarithmic axis."""
    for rate, loss in losses.items():
        colour = plotting.rate_style(rate)["color"]
        axes.plot(steps, loss, color=colour, lw=lw, label=rf"$\eta = {rate:g}$")
    axes.set_yscale("log")
    plotting.log_ticks(axes.yaxis)


def draw_margins(
    axes: Axes, steps: Any, margins: Any, labels: Any, *, ls: str = "-", lw: float = 0.9
) -> None:
    """Margins of a few tokens; above the grey line they are recalled."""
    axes.axhline(0, color="0.6", lw=0.8, zorder=0)
    for values, label, colour in zip(np.asarray(margins).T, labels, FIVE, strict=False):
        axes.plot(steps, values, color=colour, lw=lw, ls=ls, label=str(label))
