"""A picture of one run: loss and error, margins, and the plane of the weights when it is exact."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import SymmetricalLogLocator

from engram import plotting
from engram.figures._plane import plane_of, shade
from engram.planes import memory_plane
from engram.plotting import COLOURS
from engram.problem import Problem


def draw_run(run: xr.Dataset, problem: Problem, title: str) -> Figure:
    """Draw what was recorded of a run: whichever of loss, error, margins and weights there is."""
    along = "step" if "step" in run.dims else "time"
    panels = [name for name in ("loss", "margins") if name in run]
    plane = "weights" in run and problem.dim == 2 and problem.num_classes == 2
    plane = plane and not problem.is_noisy and bool(np.ptp(problem.outputs, axis=0).any())
    count = max(1, len(panels) + plane)
    figure = plotting.new_figure(3.6 * count, 3.1)
    axes = figure.subplots(1, count, squeeze=False)
    for place, name in zip(axes[0], panels, strict=False):
        if name == "loss":
            _draw_loss(place, run, along)
        else:
            _draw_margins(place, run, along, problem.shown_names())
        place.set_xlabel("step $t$" if along == "step" else "time $t$")
        if _spans_decades(run[along].values):
            place.set_xscale("symlog", linthresh=1)
            place.set_xlim(0, float(run[along][-1]))
            ticks = SymmetricalLogLocator(base=10, linthresh=1)
            ticks.set_params(numticks=5)
            place.xaxis.set_major_locator(ticks)
    if plane:
        _draw_plane(axes[0][-1], run, problem)
    if not panels and not plane:
        axes[0][0].text(0.5, 0.5, "nothing recorded that this picture shows", ha="center")
        axes[0][0].set_axis_off()
    figure.suptitle(title, fontsize=9)
    return figure


def _spans_decades(values: np.ndarray) -> bool:
    """Whether points lie evenly on a logarithmic scale rather than a linear one."""
    if len(values) < 3 or values[-1] <= 0:
        return False
    return bool(np.median(values) < values[-1] / 20)


def _draw_loss(axes: Axes, run: xr.Dataset, along: str) -> None:
    t = run[along].values
    axes.plot(t, run.loss, color=COLOURS[0], lw=1.4, label="loss")
    axes.set_ylabel("loss $L(W_t)$", color=COLOURS[0])
    if (run.loss > 0).all():
        axes.set_yscale("log")
    axes.spines["top"].set_visible(False)
    if "spike_step" in run and run.sizes.get("spike", 0) and along == "step":
        steps = run.spike_step.values.astype(int)
        shown = np.isin(run.step.values, steps)
        axes.plot(t[shown], run.loss.values[shown], "v", color="0.2", ms=4, label=_spikes(run))
        axes.legend(frameon=False, fontsize=7)
    if "error" in run:
        right = axes.twinx()
        right.step(t, run.error, where="post", color=COLOURS[1], lw=1, alpha=0.8)
        right.set_ylabel("error $L_{01}(W_t)$", color=COLOURS[1])
        right.set_ylim(-0.02, 1.02)
        right.spines["top"].set_visible(False)


def _spikes(run: xr.Dataset) -> str:
    told, kept = int(run.num_spikes), run.sizes["spike"]
    return "spikes" if told == kept else f"first {kept} of {told} spikes"


def _draw_margins(axes: Axes, run: xr.Dataset, along: str, names: list[str]) -> None:
    num = run.sizes["token"]
    for token in range(num):
        # A dollar sign would begin a formula.
        label = f"token {names[token]}".replace("$", r"\$") if num <= len(COLOURS) else None
        colour = COLOURS[token % len(COLOURS)] if num <= len(COLOURS) else "0.4"
        axes.plot(run[along], run.margins[:, token], color=colour, lw=1.2, label=label)
    axes.axhline(0, color="0.6", lw=0.8, zorder=0)
    axes.set_ylabel("margin $m_t(x)$")
    axes.spines[["top", "right"]].set_visible(False)
    if num <= len(COLOURS):
        axes.legend(frameon=False, fontsize=7, ncols=2)


def _draw_plane(axes: Axes, run: xr.Dataset, problem: Problem) -> None:
    r"""The loss as a function of $\gamma = W^\top (u_1 - u_2)$, which is all that it depends on."""
    path, _ = memory_plane(problem).coordinates(problem, run.weights.values)
    path = path[np.isfinite(path).all(axis=1)]
    low, high = path.min(axis=0), path.max(axis=0)
    room = 0.15 * np.maximum(high - low, 1.0)
    first, second = (
        (float(a), float(b), 120) for a, b in zip(low - room, high + room, strict=True)
    )
    here = plane_of(problem, first, second, ("loss",))
    shade(axes, here)
    plotting.draw_levels(axes, here.gamma_1, here.gamma_2, here.plane_loss, label=False)
    axes.plot(*path.T, ".-", color=COLOURS[1], ms=3, lw=0.9)
    axes.plot(*path[0], "o", color="black", ms=5)
    axes.annotate("start", path[0], (4, 4), textcoords="offset points", fontsize=7)
    axes.set_title(r"$L$ over $\gamma = W^\top(u_1 - u_2)$; blue: recalled", fontsize=8)
