"""Figure 5: the sharpness over the plane and along descent, separable and not."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import memory, plotting
from engram.capacity import loss_minimiser
from engram.dynamics import GradientDescent
from engram.figures._comparison import Comparison, compared
from engram.figures._labels import labelled
from engram.figures._plane import path_of, plane_of, stacked
from engram.figures._reference import arrays_of, case_of, problem_of
from engram.planes import memory_plane
from engram.simulation import simulate

TITLE = "Sharpness along descent, separable and not"
LABEL = "fig:sharpness"  # in the paper
CAPTION = (
    "Level lines of the sharpness (the largest eigenvalue of the Hessian of the loss) over the plane, with "
    "descent at two learning rates from the black dot, and the sharpness along it; dashed lines are 2/η. Top: three tokens "
    "that can be separated. Bottom: thirty that cannot; the star is the minimiser, of sharpness H*. What "
    "to see: the sharpness is highest near the origin, with ridges where a token's margin is zero. The separable runs cross "
    "a ridge and leave for infinity, where it falls to zero. Of the others, the small rate, with H* < 2/η, approaches the "
    "minimiser; the large one, with H* > 2/η, cannot stay there and jumps between two points (cycles may begin even "
    "earlier: claim C46)."
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The authors' two draws, starts and learning rates."""

    seeds: tuple[int, ...] = (39, 9)
    learning_rates: tuple[float, ...] = (10.0, 1.0)
    points: int = 35  # the start and 34 updates
    half_width: float = 10.0
    num: int = 199  # points per axis; 99 k + 1 holds the authors' 100


SCALES = {"quick": Settings(), "paper": Settings(num=595)}


def compute(settings: Settings, tell: Callable[[int, int], None] | None = None) -> xr.Dataset:
    """The sharpness over the plane and along descent, for each draw of the embeddings."""
    rows, parts = [], 1 + len(settings.learning_rates)
    told = lambda index, done: (
        tell(index * parts + done, parts * len(settings.seeds)) if tell is not None else None
    )
    for index, seed in enumerate(settings.seeds):
        case = case_of("fig5", seed=seed)
        problem = problem_of(case)
        axis = (-settings.half_width, settings.half_width, settings.num)
        start = memory_plane(problem).weights(*case["gamma0"])
        runs = []
        for done, rate in enumerate(settings.learning_rates):
            descent = GradientDescent(rate, settings.points - 1)
            record = ("loss", "error", "sharpness", "weights")
            run = simulate(problem, descent, start=start, record=record, events=False)
            runs.append(path_of(problem, run))
            told(index, done + 1)
        along = xr.concat(runs, xr.Variable("learning_rate", list(settings.learning_rates)))
        over = plane_of(problem, axis, axis, ("loss", "error", "sharpness"))
        rows.append(along.merge(over).merge(_at_minimiser(problem)))
        told(index, parts)
    found = stacked(rows).assign_coords(seed=("case", list(settings.seeds)))
    return labelled(found, "fig5", TITLE, LABEL, settings)


def _at_minimiser(problem: Any) -> xr.Dataset:
    best, zero = loss_minimiser(problem), np.zeros((2, 2))
    at = memory_plane(problem).coordinates(problem, best.weights)[0]
    sharpness = float(memory.sharpness(problem, best.weights)) if best.exists else np.nan
    return xr.Dataset(
        {
            "minimiser": ("component", at if best.exists else np.full(2, np.nan)),
            "sharpness_at_minimiser": sharpness,
            "sharpness_at_zero": float(memory.sharpness(problem, zero)),
        }
    ).merge(arrays_of(problem))


def compare(data: xr.Dataset) -> list[Comparison]:
    """The sharpness over the plane where sampled, and every point of the runs."""
    rows = []
    for index, seed in enumerate(data.seed.values):
        case, here = case_of("fig5", seed=seed), data.isel(case=index)
        name = f"seed {case['seed']}, N = {case['N']}"
        if "runs" not in case:  # the authors' draw is known, not what comes of it
            for rate in data.learning_rate.values:
                last = here.sel(learning_rate=rate).isel(step=-1)
                rows.append(
                    Comparison(f"last sharpness, η = {rate:g}, {name}", float(last.sharpness), None)
                )
            rows.append(
                Comparison(
                    f"sharpness at the minimiser, {name}", float(here.sharpness_at_minimiser), None
                )
            )
            continue  # fmt: skip
        stride, odd = divmod(here.sizes["first"] - 1, case["grid"][2] - 1)
        if not odd and float(here.gamma_1.max()) == case["grid"][1]:  # it holds the authors' points
            at = stride * np.asarray(case["sample_indices"])
            over = here.plane_sharpness.isel(first=at, second=at)
            rows.append(compared(f"sharpness over the plane, {name}", over, case["sharpness_f64"]))
        rows.append(compared(f"sharpness at W = 0, {name}", here.sharpness_at_zero, case["sharpness_at_zero"]))  # fmt: skip
        for run in case["runs"]:
            if run["lr"] not in here.learning_rate or here.sizes["step"] != len(run["loss_f64"]):
                continue
            along, which = here.sel(learning_rate=run["lr"]), f"η = {run['lr']:g}, {name}"
            rows += [
                compared(f"sharpness, {which}", along.sharpness, run["sharpness_f64"]),
                compared(f"path in the plane, {which}", along.gamma, run["gamma_f64"]),
                compared(f"loss, {which}", along.loss, run["loss_f64"]),
                compared(f"0-1 loss, {which}", along.error, run["err01_f64"], rtol=1e-12),
            ]
    return rows


def findings(data: xr.Dataset) -> list[str]:
    """Where the sharpness ends, against 2/eta."""
    said = []
    for index, seed in enumerate(data.seed.values):
        here = data.isel(case=index)
        number = int(np.isfinite(here.probs.values).sum())
        limit = float(here.sharpness_at_minimiser)
        ends = (
            "no minimiser (separable)" if np.isnan(limit) else f"H* = {limit:.4f} at the minimiser"
        )
        said.append(f"seed {seed}, N = {number}: {ends}")
        for rate in data.learning_rate.values:
            run = here.sel(learning_rate=rate)
            values = run.sharpness.values
            text = (
                f"seed {seed}, η = {rate:g}: sharpness {values[0]:.3g} at the start, {values.max():.3g} at most "
                f"(t = {values.argmax()}), {values[-1]:.3g} at the end; 2/η = {2 / rate:g}"
            )
            if not np.isnan(limit):
                away = np.linalg.norm(run.gamma.values - here.minimiser.values, axis=1)[-5:]
                text += (
                    f" {'<' if limit > 2 / rate else '>'} H*; {away.min():.2g} to {away.max():.2g} away from the "
                    "minimiser in the last five steps"
                )
                back = float(np.linalg.norm(run.gamma[-1] - run.gamma[-3]))
                ahead = float(np.linalg.norm(run.gamma[-1] - run.gamma[-2]))
                if back < 0.01 * ahead:
                    text += ", jumping to and fro between two points"
            said.append(text)
    return said


def draw(data: xr.Dataset) -> Figure:
    """For each draw: the plane with both trajectories, sharpness and loss along them."""
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 4.9)
        grid = figure.subplots(data.sizes["case"], 3, squeeze=False, width_ratios=[1, 1, 1])
        for row, index in zip(grid, range(data.sizes["case"]), strict=True):
            here = data.isel(case=index)
            number = int(np.isfinite(here.probs.values).sum())
            picture = _plane(row[0], here)
            figure.colorbar(picture, ax=row[0], shrink=0.85, pad=0.02)
            row[0].set_title(f"seed {int(here.seed)}, $N = {number}$: sharpness")
            _traces(row[1], row[2], here)
        grid[0, 2].legend()
        grid[0, 1].set_title("Sharpness on the path (dashed: $2/\\eta$)")
        grid[0, 2].set_title("Loss on the path")
        return figure


def _plane(axes: Axes, here: xr.Dataset) -> Any:
    half = float(here.gamma_1.max())
    levels = plotting.round_levels(here.plane_sharpness, 10)
    picture = axes.contourf(here.gamma_1, here.gamma_2, here.plane_sharpness, 40, cmap="Greys")
    axes.contour(here.gamma_1, here.gamma_2, here.plane_sharpness, levels=levels, colors="0.35", linewidths=0.5)  # fmt: skip
    for rate in here.learning_rate.values:
        path = here.sel(learning_rate=rate).gamma
        plotting.draw_path(axes, path, rate)
    if np.isfinite(here.minimiser.values).all():
        axes.plot(
            *here.minimiser.values, "*", color="#FFD23F", mec="black", mew=0.7, ms=9, zorder=5
        )
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
