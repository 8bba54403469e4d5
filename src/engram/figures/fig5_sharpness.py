"""Figure 5: the sharpness over the plane and along descent, separable and not."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import plotting
from engram.capacity import loss_minimiser
from engram.figures._comparison import Comparison, compared, compared_records, runs_in_common
from engram.figures._labels import labelled
from engram.figures._plane import at_authors_points, cases_of, draw_minimiser, plane_of, stacked
from engram.figures._reference import arrays_of, case_of, problem_of
from engram.figures._runs import Progress, descents, reported, silent
from engram.planes import memory_plane, sharpness_along


@dataclasses.dataclass(frozen=True)
class Settings:
    """The authors' two draws, starts and learning rates."""

    seeds: tuple[int, ...] = (39, 9)
    learning_rates: tuple[float, ...] = (10.0, 1.0)
    points: int = 35  # the start and 34 updates
    half_width: float = 10.0
    num: int = 199  # points per axis; 99 k + 1 holds the authors' 100


SCALES = {"quick": Settings(), "paper": Settings(num=595)}


def compute(settings: Settings, progress: Progress = silent) -> xr.Dataset:
    """The sharpness over the plane and along descent, for each draw of the embeddings."""
    rows = []
    axis = (-settings.half_width, settings.half_width, settings.num)
    record = ("loss", "error", "sharpness", "weights")
    for seed in reported(settings.seeds, progress):
        case = case_of("fig5", seed=seed)
        problem = problem_of(case)
        start = memory_plane(problem).weights(*case["gamma0"])
        steps = settings.points - 1
        along = descents(problem, settings.learning_rates, steps, record, start=start)
        over = plane_of(problem, axis, axis, ("loss", "error", "sharpness"))
        rows.append(along.merge(over).merge(_at_minimiser(problem)))
    return labelled(stacked(rows, settings.seeds), "fig5", settings)


def _at_minimiser(problem: Any) -> xr.Dataset:
    best = loss_minimiser(problem)
    at = memory_plane(problem).coordinates(problem, best.weights)[0]
    at_zero, sharpness = sharpness_along(problem, np.stack([np.zeros((2, 2)), best.weights]))
    return xr.Dataset(
        {
            "minimiser": ("component", at if best.exists else np.full(2, np.nan)),
            "sharpness_at_minimiser": sharpness if best.exists else np.nan,
            "sharpness_at_zero": at_zero,
        }
    ).merge(arrays_of(problem))


def compare(data: xr.Dataset) -> list[Comparison]:
    """The sharpness over the plane where sampled, and every point of the runs."""
    rows = []
    for here in cases_of(data):
        case = case_of("fig5", seed=int(here.seed))
        name = f"seed {case['seed']}, N = {case['N']}"
        if "runs" not in case:  # the authors' draw is known, not what comes of it
            unknown = {
                f"last sharpness, η = {rate:g}": here.sharpness.sel(learning_rate=rate)[-1]
                for rate in data.learning_rate.values
            } | {"sharpness at the minimiser": here.sharpness_at_minimiser}
            rows += [Comparison(f"{what}, {name}", float(at), None) for what, at in unknown.items()]
            continue
        sampled = at_authors_points(here, case["sample_indices"], case["grid"][2])
        if sampled is not None and float(here.gamma_1.max()) == case["grid"][1]:
            rows += compared_records(sampled, case, ("sharpness",), f" over the plane, {name}")
        rows.append(compared(f"sharpness at W = 0, {name}", here.sharpness_at_zero, case["sharpness_at_zero"]))  # fmt: skip
        for along, run, rate in runs_in_common(here, case["runs"]):
            names = ("sharpness", "gamma", "loss", "error")
            rows += compared_records(along, run, names, f", {rate}, {name}")
    return rows


def findings(data: xr.Dataset) -> list[str]:
    """Where the sharpness ends, against 2/eta."""
    sentences = []
    for here in cases_of(data):
        seed, limit = int(here.seed), float(here.sharpness_at_minimiser)
        exists = np.isfinite(limit)
        ends = f"H* = {limit:.4f} at the minimiser" if exists else "no minimiser (separable)"
        sentences.append(f"seed {seed}, N = {here.N}: {ends}")
        for rate in data.learning_rate.values:
            run = here.sel(learning_rate=rate)
            values = run.sharpness.values
            text = (
                f"seed {seed}, η = {rate:g}: sharpness {values[0]:.3g} at the start, {values.max():.3g} at most "
                f"(t = {values.argmax()}), {values[-1]:.3g} at the end; 2/η = {2 / rate:g}"
            )
            sentences.append(text + (_near(run, limit, rate) if exists else ""))
    return sentences


def _near(run: xr.Dataset, limit: float, rate: float) -> str:
    """How a run ends beside the minimiser, of sharpness `limit`."""
    away = np.linalg.norm(run.gamma.values - run.minimiser.values, axis=1)[-5:]
    back, ahead = (float(np.linalg.norm(run.gamma[-1] - run.gamma[k])) for k in (-3, -2))
    return (
        f" {'<' if limit > 2 / rate else '>'} H*; {away.min():.2g} to {away.max():.2g} away from the "
        "minimiser in the last five steps"
    ) + (", jumping to and fro between two points" if back < 0.01 * ahead else "")


def draw(data: xr.Dataset) -> Figure:
    """For each draw: the plane with both trajectories, sharpness and loss along them."""
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 4.9)
        grid = figure.subplots(data.sizes["case"], 3, squeeze=False, width_ratios=[1, 1, 1])
        for row, here in zip(grid, cases_of(data), strict=True):
            picture = _plane(row[0], here)
            figure.colorbar(picture, ax=row[0], shrink=0.85, pad=0.02)
            row[0].set_title(f"seed {int(here.seed)}, $N = {here.N}$: sharpness")
            _traces(row[1], row[2], here)
        grid[0, 2].legend()
        grid[0, 1].set_title("Sharpness on the path (dashed: $2/\\eta$)")
        grid[0, 2].set_title("Loss on the path")
        return figure


def _plane(axes: Axes, here: xr.Dataset) -> Any:
    half = float(here.gamma_1.max())
    over = (here.gamma_1, here.gamma_2, here.plane_sharpness)
    levels = plotting.round_levels(here.plane_sharpness, 10)
    picture = axes.contourf(*over, 40, cmap="Greys")
    axes.contour(*over, levels=levels, colors="0.35", linewidths=0.5)
    for rate in here.learning_rate.values:
        plotting.draw_path(axes, here.sel(learning_rate=rate).gamma, rate)
    draw_minimiser(axes, here)
    axes.set(xlim=(-half, half), ylim=(-half, half), aspect="equal")
    plotting.name_plane(axes)
    return picture


def _traces(sharpness: Axes, loss: Axes, here: xr.Dataset) -> None:
    for rate in here.learning_rate.values:
        run, look = here.sel(learning_rate=rate), plotting.rate_style(rate)
        sharpness.plot(here.step, run.sharpness, ms=2.5, **look)
        sharpness.axhline(2 / rate, color=look["color"], ls="--", lw=0.9)
        loss.plot(here.step, run.loss, ms=2.5, label=rf"$\eta = {rate:g}$", **look)
    limit = float(here.sharpness_at_minimiser)
    if np.isfinite(limit):
        sharpness.axhline(limit, color="0.4", lw=0.9, ls=":")
        sharpness.annotate("$H_*$", (here.sizes["step"] - 1, limit), (0, 2), ha="right",
                           textcoords="offset points", fontsize=7, color="0.3")  # fmt: skip
    sharpness.set(xlabel="step $t$", ylabel="sharpness", yscale="log")
    loss.set(xlabel="step $t$", ylabel="loss $L(W_t)$")
    if float(here.loss.max()) > 10 * float(here.loss.min()):
        loss.set_yscale("log")
        plotting.log_ticks(loss.yaxis)
