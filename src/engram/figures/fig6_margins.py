"""Figure 6: the margins of five tokens, over dimensions and learning rates."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram import particles, plotting
from engram._precision import in_double
from engram._programs import host_program
from engram.dynamics import Context, GradientDescent, advance
from engram.figures._comparison import Comparison, compared_records, runs_in_common
from engram.figures._labels import labelled, settings_of
from engram.figures._reference import arrays_of, case_of, problem_of
from engram.figures._runs import Progress, descents, reported, silent
from engram.figures._training import draw_losses, draw_margins
from engram.particles import ParticleSystem
from engram.problem import Problem, on_sphere


@dataclasses.dataclass(frozen=True)
class Settings:
    """The authors' draws and learning rates, and how many draws of our own to compare with."""

    dims: tuple[int, ...] = (3, 5, 10)
    learning_rates: tuple[float, ...] = (3.0, 10.0, 20.0)
    points: int = 100  # the start and 99 updates
    shown: int = 30  # of which the picture shows
    draws: int = 200  # seeds 0, 1, ... of our own


SCALES = {"quick": Settings(), "paper": Settings(draws=2000)}


def compute(settings: Settings, progress: Progress = silent) -> xr.Dataset:
    """Margins, losses, errors and sharpness of the authors' draws; last losses of our own."""
    rows = []
    record = ("loss", "error", "margins", "sharpness")
    for dim in reported(settings.dims, progress):
        problem = problem_of(case_of("fig6", d=dim))
        along = descents(problem, settings.learning_rates, settings.points - 1, record)
        along = along.assign_coords(token=np.arange(problem.num_tokens))
        padded = arrays_of(problem).pad(component=(0, max(settings.dims) - dim))
        rows.append(along.merge(_over_draws(dim, settings)).merge(padded))
    data = xr.concat(rows, xr.Variable("dim", list(settings.dims)))
    return labelled(data, "fig6", settings)


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
@host_program
def _ends(problems: Problem, rates: Any, steps: int) -> Any:
    def one(problem: Problem, rate: Any) -> Any:
        system, descent = ParticleSystem(problem), GradientDescent(rate, steps)
        state = system.start(jnp.zeros(problem.zero_weights.shape))
        end = advance(system, descent, Context(system, descent).begin(state), jnp.asarray(steps))
        last = descent.state_of(end.inner)
        return system.loss(last), particles.error_rate(problem, last.scores)

    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(problems, rates)


def compare(data: xr.Dataset) -> list[Comparison]:
    """Every margin, loss, error and sharpness of the authors' draws that is known."""
    rows = []
    for dim in data.dim.values:
        case, here = case_of("fig6", d=int(dim)), data.sel(dim=dim)
        for along, run, rate in runs_in_common(here, case.get("runs", [])):
            names = ("margins", "loss", "error", "sharpness")
            rows += compared_records(along, run, names, f", d = {dim}, {rate}")
        if "runs" not in case:  # the authors' draw is known, not what comes of it
            last = here.loss.isel(step=-1)
            rows += [
                Comparison(f"last loss, d = {dim}, η = {rate:g}", float(value), None)
                for rate, value in zip(last.learning_rate.values, last.values, strict=True)
            ]
    return rows


def findings(data: xr.Dataset) -> list[str]:
    """How the runs end, and how often the largest rate ends worse than the smallest."""
    rates = data.learning_rate.values
    sentences = []
    for dim in data.dim.values:
        here = data.sel(dim=dim)
        last = here.loss.isel(step=-1)
        ends = ", ".join(f"{value:.4g} (η = {rate:g})" for rate, value in zip(rates, last.values, strict=True))  # fmt: skip
        ratio, ours = _ratio(here.drawn_final_loss), float(_ratio(last))
        learnt = (here.drawn_final_error == 0).sum("draw").values
        sentences.append(
            f"d = {dim}: losses after {data.sizes['step'] - 1} steps {ends}; η = {rates.max():g} ends {'worse' if ours > 1 else 'better'} than η = {rates.min():g} "
            f"({ours:.3g} times the loss). Over {len(ratio)} draws it ends worse in {int((ratio > 1).sum())}; this "
            f"ratio is smaller than here in {int((ratio < ours).sum())}; all five tokens are recalled at the end in "
            + ", ".join(f"{n} (η = {rate:g})" for n, rate in zip(learnt, rates, strict=True))
        )
    return sentences


def _ratio(last: xr.DataArray) -> np.ndarray:
    """The last loss of the largest learning rate over that of the smallest."""
    rates = last.learning_rate
    return (last.sel(learning_rate=rates.max()) / last.sel(learning_rate=rates.min())).values


def draw(data: xr.Dataset) -> Figure:
    """Margins for each dimension and learning rate, losses beside them, typicality below."""
    rates, dims, shown = data.learning_rate.values, data.dim.values, settings_of(data)["shown"]
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 1.55 * len(dims) + 2.0)
        parts: Any = figure.subfigures(2, 1, height_ratios=[1.55 * len(dims), 1.75])
        above, below = parts
        grid = above.subplots(len(dims), len(rates) + 1, squeeze=False, sharex=True)
        for row, dim in zip(grid, dims, strict=True):
            here = data.sel(dim=dim).isel(step=slice(0, shown))
            low, high = float(here.margins.min()), float(here.margins.max())
            room = 0.06 * (high - low)
            for axes, rate in zip(row, rates, strict=False):
                margins = here.margins.sel(learning_rate=rate)
                draw_margins(axes, here.step, margins, here.token.values + 1, lw=1.1)
                axes.set_ylim(low - room, high + room)
            losses = {rate: here.loss.sel(learning_rate=rate) for rate in rates}
            draw_losses(row[-1], here.step, losses, lw=1.1)
            row[0].set_ylabel(f"$d = {dim}$\nmargin $m_t(x)$")
        for axes, rate in zip(grid[0], rates, strict=False):
            axes.set_title(rf"$\eta = {rate:g}$", color=plotting.rate_style(rate)["color"])
        grid[0, -1].set_title("loss $L(W_t)$")
        grid[0, 0].legend(ncols=2, loc="lower left", fontsize=5.5, handlelength=1, columnspacing=0.6,
                          title="token", title_fontsize=6)  # fmt: skip
        grid[0, -1].legend(handlelength=1.2)
        for axes in grid[-1]:
            axes.set_xlabel(f"step $t$ (first {shown})")
        _typical(below.subplots(1, len(dims), squeeze=False)[0], data)
        return figure


def _typical(panels: Any, data: xr.Dataset) -> None:
    fast, slow = data.learning_rate.values.max(), data.learning_rate.values.min()
    for axes, dim in zip(panels, data.dim.values, strict=True):
        here = data.sel(dim=dim)
        ratio = np.log10(_ratio(here.drawn_final_loss))
        axes.hist(ratio, bins=25, color="0.75")
        axes.axvline(0, color="0.4", lw=0.9, ls=":")
        axes.axvline(np.log10(_ratio(here.loss.isel(step=-1))), color=plotting.COLOURS[1], lw=1.6)
        worse = int((ratio > 0).sum())
        axes.set_title(rf"$d = {dim}$: $\eta = {fast:g}$ worse in {worse} of {len(ratio)}")
        axes.set_xlabel(rf"$\log_{{10}}$ last loss, $\eta = {fast:g}$ over $\eta = {slow:g}$")
    panels[0].set_ylabel("draws (line: shown above)")
