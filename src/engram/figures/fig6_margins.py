"""Figure 6: the margins of five tokens, over dimensions and learning rates."""

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import particles, plotting
from engram._precision import in_double
from engram.dynamics import GradientDescent, advance, begin
from engram.figures._comparison import Comparison, compared
from engram.figures._labels import labelled
from engram.figures._reference import arrays_of, case_of, problem_of
from engram.figures._training import FIVE
from engram.particles import ParticleSystem
from engram.problem import Problem, on_sphere
from engram.simulation import simulate

TITLE = "Margins of five tokens on the sphere"
LABEL = "fig:margins_N5"  # in the paper
CAPTION = (
    "Margins of N = 5 tokens with embeddings drawn on the sphere, p(x) ∝ 1/x, each with its own class, from "
    "W = 0: dimensions d downwards, learning rates η across; the first 30 of 99 steps. A token is recalled above the "
    "grey line. The right column compares the losses. Bottom: the loss after 99 steps at the largest rate over that at the "
    "smallest, in 200 draws (grey) and in the draw above (red line); right of the dotted line the large rate ends worse. "
    "What to see: large rates learn faster and oscillate more, above all in low dimension, where tokens compete; in the d = 3 draw shown the largest rate ends worse, which few draws do. The paper "
    "says that with d < N the memory has not enough capacity; in d = 3 it has, for nearly all draws (claim C52)."
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The authors' draws and learning rates, and how many draws of our own to compare with."""

    dims: tuple[int, ...] = (3, 5, 10)
    learning_rates: tuple[float, ...] = (3.0, 10.0, 20.0)
    points: int = 100  # the start and 99 updates
    shown: int = 30  # of which the picture shows
    draws: int = 200  # seeds 0, 1, ... of our own


SCALES = {"quick": Settings(), "paper": Settings(draws=2000)}


def compute(settings: Settings, tell: Callable[[int, int], None] | None = None) -> xr.Dataset:
    """Margins, losses, errors and sharpness of the authors' draws; last losses of our own."""
    rows, total = [], 2 * len(settings.dims)
    for done, dim in enumerate(settings.dims):
        problem = problem_of(case_of("fig6", d=dim))
        runs = [_run(problem, rate, settings.points - 1) for rate in settings.learning_rates]
        if tell is not None:
            tell(2 * done + 1, total)
        along = xr.concat(runs, xr.Variable("learning_rate", list(settings.learning_rates)))
        padded = arrays_of(problem).pad(component=(0, max(settings.dims) - dim))
        rows.append(along.merge(_over_draws(dim, settings)).merge(padded))
        if tell is not None:
            tell(2 * done + 2, total)
    found = xr.concat(rows, xr.Variable("dim", list(settings.dims)))
    return labelled(found, "fig6", TITLE, LABEL, settings)


def _run(problem: Problem, rate: float, steps: int) -> xr.Dataset:
    record = ("loss", "error", "margins", "sharpness")
    run = simulate(problem, GradientDescent(rate, steps), record=record, events=False)
    return (
        run[list(record)]
        .drop_vars(["time", "probs", "target", "class"], errors="ignore")
        .assign_attrs({})
    )


def _over_draws(dim: int, settings: Settings) -> xr.Dataset:
    """Loss and error after the last step, for each of our draws and each learning rate."""
    drawn = [on_sphere(k, 5, 5, dim, targets="identity") for k in range(settings.draws)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)
    loss, error = _ends(stacked, np.asarray(settings.learning_rates), settings.points - 1)
    dims = ("draw", "learning_rate")
    coords = {"draw": np.arange(settings.draws), "learning_rate": list(settings.learning_rates)}
    return xr.Dataset(
        {"drawn_final_loss": (dims, np.asarray(loss)), "drawn_final_error": (dims, np.asarray(error))},
        coords,
    )  # fmt: skip


@in_double
@functools.partial(jax.jit, static_argnames="steps")
def _ends(problems: Problem, rates: Any, steps: int) -> Any:
    def one(problem: Problem, rate: Any) -> Any:
        system, descent = ParticleSystem(problem), GradientDescent(rate, steps)
        state = system.start(jnp.zeros(problem.zero_weights.shape))
        end = advance(system, descent, begin(system, descent, state, None), jnp.asarray(steps))
        last = descent.state_of(end.inner)
        return system.loss(last), particles.error_rate(problem, last.scores)

    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(problems, rates)


def compare(data: xr.Dataset) -> list[Comparison]:
    """Every margin, loss, error and sharpness of the authors' draws that is known."""
    rows = []
    for dim in data.dim.values:
        case, here = case_of("fig6", d=int(dim)), data.sel(dim=dim)
        for run in case.get("runs", []):
            if run["lr"] not in data.learning_rate or data.sizes["step"] != len(run["loss_f64"]):
                continue
            along, which = here.sel(learning_rate=run["lr"]), f"d = {case['d']}, η = {run['lr']:g}"
            rows += [
                compared(f"margins, {which}", along.margins, run["margins_f64"]),
                compared(f"loss, {which}", along.loss, run["loss_f64"]),
                compared(f"0-1 loss, {which}", along.error, run["err01_f64"], rtol=1e-12),
                compared(f"sharpness, {which}", along.sharpness, run["sharpness_f64"]),
            ]
        if "runs" not in case:  # the authors' draw is known, not what comes of it
            rows += [
                Comparison(f"last loss, d = {case['d']}, η = {rate:g}", float(last), None)
                for rate, last in zip(
                    data.learning_rate.values, here.loss[:, -1].values, strict=True
                )
            ]
    return rows


def findings(data: xr.Dataset) -> list[str]:
    """How the runs end, and how often the largest rate ends worse than the smallest."""
    rates = data.learning_rate.values
    slow, fast = rates.min(), rates.max()
    said = []
    for dim in data.dim.values:
        here = data.sel(dim=dim)
        last = {rate: float(here.loss.sel(learning_rate=rate)[-1]) for rate in rates}
        ends = ", ".join(f"{value:.4g} (η = {rate:g})" for rate, value in last.items())
        ratio = _ratio(here)
        worse, ours = int((ratio > 1).sum()), last[fast] / last[slow]
        learnt = (here.drawn_final_error == 0).sum("draw").values
        said.append(
            f"d = {dim}: losses after {data.sizes['step'] - 1} steps {ends}; η = {fast:g} ends {'worse' if ours > 1 else 'better'} than η = {slow:g} "
            f"({ours:.3g} times the loss). Over {len(ratio)} draws it ends worse in {worse}; this "
            f"ratio is smaller than here in {int((ratio < ours).sum())}; all five tokens are recalled at the end in "
            + ", ".join(f"{n} (η = {rate:g})" for n, rate in zip(learnt, rates, strict=True))
        )
    return said


def _ratio(here: xr.Dataset) -> np.ndarray:
    """The last loss of the largest learning rate over that of the smallest, draw by draw."""
    rates = here.learning_rate.values
    last = here.drawn_final_loss
    return (last.sel(learning_rate=rates.max()) / last.sel(learning_rate=rates.min())).values


def draw(data: xr.Dataset) -> Figure:
    """Margins for each dimension and learning rate, losses beside them, typicality below."""
    rates, dims = data.learning_rate.values, data.dim.values
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 1.55 * len(dims) + 2.0)
        parts: Any = figure.subfigures(2, 1, height_ratios=[1.55 * len(dims), 1.75])
        above, below = parts
        grid = above.subplots(len(dims), len(rates) + 1, squeeze=False, sharex=True)
        for row, dim in zip(grid, dims, strict=True):
            here = data.sel(dim=dim).isel(step=slice(0, _shown(data)))
            low, high = float(here.margins.min()), float(here.margins.max())
            room = 0.06 * (high - low)
            for axes, rate in zip(row, rates, strict=False):
                _margins(axes, here.sel(learning_rate=rate))
                axes.set_ylim(low - room, high + room)
            _losses(row[-1], here)
            row[0].set_ylabel(f"$d = {dim}$\nmargin $m_t(x)$")
        for axes, rate in zip(grid[0], rates, strict=False):
            axes.set_title(rf"$\eta = {rate:g}$", color=plotting.rate_style(rate)["color"])
        grid[0, -1].set_title("loss $L(W_t)$")
        grid[0, 0].legend(
            ncols=2,
            loc="lower left",
            fontsize=5.5,
            handlelength=1,
            columnspacing=0.6,
            title="token",
            title_fontsize=6,
        )
        grid[0, -1].legend(handlelength=1.2)
        for axes in grid[-1]:
            axes.set_xlabel(f"step $t$ (first {_shown(data)})")
        _typical(below.subplots(1, len(dims)), data)
        return figure  # fmt: skip


def _shown(data: xr.Dataset) -> int:
    return json.loads(data.attrs["settings"])["shown"]


def _margins(axes: Axes, run: xr.Dataset) -> None:
    axes.axhline(0, color="0.6", lw=0.8, zorder=0)
    for token, colour in zip(run.token.values, FIVE, strict=True):
        axes.plot(
            run.step, run.margins.sel(token=token), color=colour, lw=1.1, label=f"{token + 1}"
        )


def _losses(axes: Axes, here: xr.Dataset) -> None:
    for rate in here.learning_rate.values:
        colour = plotting.rate_style(rate)["color"]
        axes.plot(
            here.step,
            here.loss.sel(learning_rate=rate),
            color=colour,
            lw=1.1,
            label=rf"$\eta = {rate:g}$",
        )
    axes.set_yscale("log")
    plotting.log_ticks(axes.yaxis)  # fmt: skip


def _typical(panels: Any, data: xr.Dataset) -> None:
    rates = data.learning_rate.values
    for axes, dim in zip(np.atleast_1d(panels), data.dim.values, strict=True):
        here = data.sel(dim=dim)
        ratio = np.log10(_ratio(here))
        last = here.loss.isel(step=-1)
        ours = np.log10(
            float(last.sel(learning_rate=rates.max()) / last.sel(learning_rate=rates.min()))
        )
        axes.hist(ratio, bins=25, color="0.75")
        axes.axvline(0, color="0.4", lw=0.9, ls=":")
        axes.axvline(ours, color=plotting.COLOURS[1], lw=1.6)
        worse = int((ratio > 0).sum())
        axes.set_title(rf"$d = {dim}$: $\eta = {rates.max():g}$ worse in {worse} of {len(ratio)}")
        axes.set_xlabel(
            rf"$\log_{{10}}$ last loss, $\eta = {rates.max():g}$ over $\eta = {rates.min():g}$"
        )
    np.atleast_1d(panels)[0].set_ylabel("draws (line: shown above)")  # fmt: skip
