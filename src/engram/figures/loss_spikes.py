"""Figure 2: two correlated tokens, where a large learning rate spikes and still wins."""

import dataclasses
import json

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram.dynamics import GradientDescent
from engram.problem import two_tokens
from engram.simulation import simulate

TITLE = "Loss spikes: two correlated tokens, two learning rates (fig:translate)"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the paper's Figure 2 uses, with what its text leaves out."""

    correlation: float = 0.95  # of the two input embeddings
    p1: float = 0.75  # frequency of the first token
    learning_rates: tuple[float, ...] = (10.0, 1.0)
    steps: int = 35  # recorded points: the start and 34 updates


def compute(settings: Settings) -> xr.Dataset:
    """Losses, errors, margins and weights along full-batch descent from W = 0."""
    problem = two_tokens(settings.correlation, settings.p1)
    runs = [
        simulate(
            problem,
            GradientDescent(rate, settings.steps - 1),
            record=("loss", "error", "margins", "weights"),
        )
        for rate in settings.learning_rates
    ]
    rates = xr.Variable("learning_rate", list(settings.learning_rates))
    traces = [run[["loss", "error", "margins", "weights"]].drop_vars("time") for run in runs]
    attrs = {
        "title": TITLE,
        "settings": json.dumps(dataclasses.asdict(settings)),
        "source": "engram",
    }
    return xr.concat(traces, dim=rates).assign_attrs(attrs)


def findings(data: xr.Dataset) -> list[str]:
    """What the figure shows, measured."""
    said = []
    for rate in data.learning_rate.values:
        loss = data.loss.sel(learning_rate=rate)
        wrong = np.flatnonzero(data.error.sel(learning_rate=rate).values > 0)
        learnt = wrong[-1] + 1 if len(wrong) else 0
        accuracy = (
            f"perfect accuracy from t = {learnt} on"
            if learnt < data.sizes["step"]
            else f"perfect accuracy not reached in {data.sizes['step'] - 1} steps"
        )
        said.append(
            f"eta = {rate:g}: largest loss {float(loss.max()):.6f} at t = {int(np.argmax(loss.values))}, "
            f"last loss {float(loss[-1]):.6f}, {accuracy}"
        )
    return said


def draw(data: xr.Dataset) -> Figure:
    """Loss and margins against the step, one colour per learning rate."""
    colours = ["#0072B2", "#D55E00"]  # blue and vermillion: safe for colour-blind readers
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.9), layout="constrained")
    for rate, colour in zip(data.learning_rate.values, colours, strict=True):
        run = data.sel(learning_rate=rate)
        left.plot(data.step, run.loss, color=colour, marker=".", ms=4, label=f"$\\eta = {rate:g}$")
        for token, style in enumerate(("-", "--")):
            label = f"$\\eta = {rate:g}$, token {token + 1}"
            right.plot(data.step, run.margins[:, token], style, color=colour, label=label)
    left.axhline(np.log(2), color="0.6", lw=0.8, zorder=0)
    left.annotate("log 2", (data.sizes["step"] - 1, np.log(2)), (0, 3), textcoords="offset points",
                  ha="right", color="0.4", fontsize=8)  # fmt: skip
    left.set(xlabel="step $t$", ylabel="loss $L(W_t)$", yscale="log", title="Loss")
    right.axhline(0, color="0.6", lw=0.8, zorder=0)
    right.set(xlabel="step $t$", ylabel="margin $m_t(x)$", title="Margins")
    left.legend(frameon=False, fontsize=8)
    right.set_ylim(bottom=-9.5)  # room for the legend below the curves
    right.legend(frameon=False, fontsize=8, ncols=2, loc="lower right")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure
