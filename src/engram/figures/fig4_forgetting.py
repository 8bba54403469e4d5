"""Figure 4: more tokens than dimensions, where the loss's minimiser forgets what could be recalled."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from engram import plotting
from engram.capacity import calibration, forgetting_rate
from engram.dynamics import StochasticGradientDescent
from engram.figures._comparison import Comparison, compared, counted
from engram.figures._labels import labelled
from engram.figures._plane import path_of, plane_of, shade, stacked
from engram.figures._reference import arrays_of, case_of, problem_of, reference
from engram.planes import memory_plane
from engram.problem import Problem, on_sphere
from engram.simulation import simulate

TITLE = "Forgetting: the minimiser of the loss is not that of the errors"
LABEL = "fig:forgetting"  # in the paper
CAPTION = (
    "More tokens than dimensions: N tokens on the circle, two classes, p(x) ∝ 1/x. Top: the loss's level lines over its exact "
    "0-1 regions (the bluer, the more is recalled), for four draws of the embeddings; the star is the minimiser of the loss (an "
    "arrow where it lies at infinity), the dashed ray a direction with the fewest errors; ℰ is the excess risk, the 0-1 "
    "loss of the former less that of the latter, computed exactly. Middle: SGD (η = 0.1, batches of 10, the authors' own draws) on "
    "N = 10 tokens with p(x) ∝ 1/x², from the black dot. Bottom left: the excess risk of 200 draws of our own (grey, "
    "scattered upwards for sight) and of those shown above (diamonds). Bottom right: in how many of 200 draws the minimiser of the "
    "loss forgets the most frequent token, for M classes in dimension d, p(x) ∝ 1/x; bars are 95 % intervals. What to see: where "
    "tokens compete the star sits in a sector with avoidable errors; SGD passes through the best sector early on and "
    "leaves it again for the minimiser; the draws shown are more extreme than most."
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The authors' draws, how finely to show them, and how many draws of our own to compare with."""

    seeds: tuple[int, ...] = (39, 81, 7, 9)
    num: int = 199  # points per axis; 99 k + 1 holds the authors' 100
    sgd_first: tuple[float, float] = (-1.5, 8.5)
    sgd_second: tuple[float, float] = (-1.5, 5.5)
    draws: int = 200  # seeds 0, 1, ... of our own
    settings: tuple[tuple[int, float], ...] = ((3, 1.0), (30, 1.0), (10, 2.0))  # N, exponent
    num_tokens: tuple[int, ...] = (5, 10, 20, 40)  # how often the likeliest token is forgotten
    dims: tuple[int, ...] = (2, 3)
    num_classes: tuple[int, ...] = (2, 5)


SCALES = {"quick": Settings(), "paper": Settings(num=595, draws=2000)}


def compute(settings: Settings, tell: Callable[[int, int], None] | None = None) -> xr.Dataset:
    """Four landscapes with their exact excess risks, the SGD run, and the same over many seeds."""
    cases = [case_of("fig4", seed=seed) for seed in settings.seeds]
    sgd_case = reference("fig4_sgd")["cases"][0]
    stages = len(cases) + 1 + len(settings.settings) + len(settings.num_classes)
    told = iter(range(1, stages + 1))
    step = lambda: tell(next(told), stages) if tell is not None else None
    rows = []
    for case in cases:
        problem, grid = problem_of(case), case["grid"]
        first, second = ((*grid[axis][:2], settings.num) for axis in ("x", "y"))
        rows.append(plane_of(problem, first, second).merge(_exact(problem)))
        step()
    found = stacked(rows).assign_coords(seed=("case", list(settings.seeds)))
    problem = problem_of(sgd_case)
    axes = ((*settings.sgd_first, settings.num), (*settings.sgd_second, settings.num))
    sgd = path_of(problem, _descend(problem, sgd_case)).merge(plane_of(problem, *axes))
    sgd = sgd.merge(_exact(problem)).rename(token="sgd_token", sector="sgd_sector")
    names = [*sgd.data_vars, "gamma_1", "gamma_2", "first", "second"]
    sgd = sgd.rename({str(name): f"sgd_{name}" for name in names})
    step()
    spread = []
    for number, exponent in settings.settings:
        drawn = [on_sphere(k, number, 2, 2, exponent=exponent) for k in range(settings.draws)]
        spread.append([calibration(problem).excess for problem in drawn])
        step()
    numbers, exponents = zip(*settings.settings, strict=True)
    rates = []
    for number in settings.num_classes:
        rates.append(
            forgetting_rate(
                settings.num_tokens, settings.dims, num_classes=number, draws=settings.draws
            )
        )
        step()
    often = xr.concat(rates, xr.Variable("num_classes", list(settings.num_classes)))
    often = often.rename(rate="forgetting_rate", low="forgetting_low", high="forgetting_high")
    typical = xr.Dataset(
        {"drawn_excess_risk": (("setting", "draw"), spread)},
        {
            "drawn_num_tokens": ("setting", list(numbers)),
            "drawn_exponent": ("setting", list(exponents)),
            "draw": np.arange(settings.draws),
        },
    )
    wanted = ["forgetting_rate", "forgetting_low", "forgetting_high", "num_unsolved"]
    return labelled(xr.merge([found, sgd, typical, often[wanted]]), "fig4", TITLE, LABEL, settings)


def _exact(problem: Problem) -> xr.Dataset:
    """What can be recalled at best, and what the minimiser of the loss recalls."""
    found, plane = calibration(problem), memory_plane(problem)
    at = lambda W: plane.coordinates(problem, W)[0]
    nowhere = np.full(2, np.nan)
    best = found.minimiser
    forgotten = np.isin(np.arange(problem.num_tokens), found.forgotten)
    return xr.Dataset(
        {
            "excess_risk": found.excess,
            "error_at_minimiser": found.error,
            "least_error": found.least.error,
            "is_separable": int(found.least.error == 0),
            "least_loss": best.loss,
            "minimiser": ("component", at(best.weights) if best.exists else nowhere),
            "direction": ("component", _unit(at(best.direction)) if not best.exists else nowhere),
            "best_direction": ("component", _unit(at(found.least.weights))),
            "forgotten": ("token", forgotten.astype(float)),
        }
    ).merge(arrays_of(problem))


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)


def _descend(problem: Problem, case: Any) -> xr.Dataset:
    batches = np.asarray(case["batches"])[: case["steps"] - 1]
    descent = StochasticGradientDescent(
        case["lr"], case["steps"] - 1, case["batch_size"], batches=batches
    )
    start = memory_plane(problem).weights(*case["gamma0"])
    return simulate(
        problem, descent, start=start, record=("loss", "error", "weights"), events=False
    )


def compare(data: xr.Dataset) -> list[Comparison]:
    """Exact values of the authors' draws, the landscapes where sampled, and the SGD run point by point."""
    rows = []
    for index, seed in enumerate(data.seed.values):
        rows += _compare_case(data.isel(case=index), case_of("fig4", seed=seed))
    (case,) = reference("fig4_sgd")["cases"]
    rows += [
        compared("SGD: path in the plane", data.sgd_gamma, case["gamma_f64"]),
        compared("SGD: loss", data.sgd_loss, case["population_loss_f64"]),
        compared("SGD: 0-1 loss", data.sgd_error, case["err01_f64"], rtol=1e-12),
        compared("SGD: the loss's minimiser", data.sgd_minimiser, case["loss_minimiser_gamma"]),
        compared("SGD: least loss", data.sgd_least_loss, case["loss_min"]),
        compared("SGD: 0-1 loss at the minimiser", data.sgd_error_at_minimiser, case["err01_at_minimiser"]),
        compared("SGD: least 0-1 loss", data.sgd_least_error, case["err01_min"]),
    ]  # fmt: skip
    return rows


def _compare_case(here: xr.Dataset, case: Any) -> list[Comparison]:
    name = f"seed {case['seed']}, N = {case['N']}"
    ours = {
        "excess risk": here.excess_risk,
        "0-1 loss at the minimiser": here.error_at_minimiser,
        "least 0-1 loss": here.least_error,
    }
    exact = case.get("exact")
    if exact is None:  # the authors' draw is known, not what comes of it
        return [Comparison(f"{what}, {name}", float(value), None) for what, value in ours.items()]
    theirs = (exact["excess"], exact["err01_at_minimiser"], exact["err01_min"])
    rows = [
        # Sums of frequencies: a few units in the last place of 1.
        Comparison(f"{what}, {name}", float(value), float(wanted), 1e-12)
        for (what, value), wanted in zip(ours.items(), theirs, strict=True)
    ]
    rows.append(counted(f"separable, {name}", here.is_separable, int(exact["separable"])))
    wrong = np.flatnonzero(here.forgotten.values == 1)
    is_forgotten = np.isin(np.arange(case["N"]), exact["misclassified_at_minimiser"])
    rows.append(
        counted(f"tokens forgotten, {name}", np.isin(np.arange(case["N"]), wrong), is_forgotten)
    )
    if exact["loss_minimiser_gamma"] is not None:
        rows.append(
            compared(f"the loss's minimiser, {name}", here.minimiser, exact["loss_minimiser_gamma"])
        )
        rows.append(compared(f"least loss, {name}", here.least_loss, exact["loss_min"]))
    stride, odd = divmod(here.sizes["first"] - 1, case["grid"]["x"][2] - 1)
    if odd:  # the grid does not hold the authors' points
        return rows
    at = stride * np.asarray(case["sample_indices"])
    sampled = here.isel(first=at, second=at)
    rows.append(compared(f"loss over the plane, {name}", sampled.plane_loss, case["loss_f64"]))
    rows.append(compared(f"0-1 loss over the plane, {name}", sampled.plane_error, case["err01_f64"], rtol=1e-12))  # fmt: skip
    return rows


def findings(data: xr.Dataset) -> list[str]:
    """Excess risks, what SGD does, and how typical both are."""
    said = []
    for index, seed in enumerate(data.seed.values):
        here = data.isel(case=index)
        tokens = np.flatnonzero(here.forgotten.values == 1) + 1
        known = int(np.isfinite(here.probs.values).sum())
        shown = ", ".join(map(str, tokens[:6])) + (", ..." if len(tokens) > 6 else "")
        which = f"{len(tokens)} of {known} tokens ({shown}, from 1)" if len(tokens) else "none"
        said.append(
            f"seed {seed}, N = {known}: excess risk {float(here.excess_risk):.4f}; error {float(here.error_at_minimiser):.4f} at the "
            f"minimiser, {float(here.least_error):.4f} at best; it forgets {which}"
        )
    error = data.sgd_error.values
    said.append(
        f"SGD, N = 10: error {error[0]:.3f} at the start, {error.min():.3f} at t = {error.argmin()} (at best "
        f"{float(data.sgd_least_error):.3f}), {error[-1]:.3f} at the end (the minimiser's: {float(data.sgd_error_at_minimiser):.3f}; "
        f"excess risk {float(data.sgd_excess_risk):.3f})"
    )
    said += [_typical(data, setting) for setting in range(data.sizes["setting"])]
    rate = data.forgetting_rate
    for M in rate.num_classes.values:
        for d in rate.dim.values:
            shares = ", ".join(
                f"{100 * float(rate.sel(num_classes=M, num_tokens=n, dim=d)):.1f} % (N = {n})"
                for n in rate.num_tokens.values
            )
            lost = int(data.num_unsolved.sel(num_classes=M, dim=d).sum())
            said.append(
                f"M = {M}, d = {d}: the likeliest token is forgotten in {shares} of {data.sizes['draw']} draws"
                + (f" ({lost} draws could not be solved, and are left out)" if lost else "")
            )
    return said


def _typical(data: xr.Dataset, setting: int) -> str:
    """In how many draws the excess risk is positive, and as large as in those shown."""
    drawn = data.drawn_excess_risk.isel(setting=setting).values
    number, exponent = int(data.drawn_num_tokens[setting]), float(data.drawn_exponent[setting])
    told = f"N = {number}, p(x) ∝ x^-{exponent:g}: over {len(drawn)} draws the excess risk is positive in {int((drawn > 1e-9).sum())}"
    for name, value in _shown(data, number, exponent).items():
        if value > 1e-9:
            told += (
                f", at least that of {name} ({value:.4f}) in {int((drawn >= value - 1e-9).sum())}"
            )
    return told


def _shown(data: xr.Dataset, number: int, exponent: float) -> dict[str, float]:
    """The excess risks of the draws shown that belong to a setting."""
    if exponent == 2:
        return {"the SGD run's draw": float(data.sgd_excess_risk)}
    sizes = np.isfinite(data.probs.values).sum(1)
    return {
        f"seed {seed}": float(excess)
        for seed, excess, size in zip(data.seed.values, data.excess_risk.values, sizes, strict=True)
        if size == number
    }


def draw(data: xr.Dataset) -> Figure:
    """Four landscapes; SGD on its landscape and its traces; how typical they are."""
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 6.6)
        parts: Any = figure.subfigures(3, 1, height_ratios=[1, 1.15, 1])
        top, middle, bottom = parts
        count = data.sizes["case"]
        for axes, index in zip(np.atleast_1d(top.subplots(1, count)), range(count), strict=True):
            _landscape(axes, data.isel(case=index))
        _sgd(middle.subplots(1, 3), data)
        left, right = bottom.subplots(1, 2, width_ratios=[1.5, 1])
        _spread(left, data)
        _often(right, data)
        return figure


def _landscape(axes: Axes, here: xr.Dataset) -> None:
    shade(axes, here)
    plotting.draw_levels(axes, here.gamma_1, here.gamma_2, here.plane_loss, num=9, label=False)
    _landmarks(axes, here)
    known = int(np.isfinite(here.probs.values).sum())
    axes.set_title(
        rf"seed {int(here.seed)}, $N = {known}$, $\mathcal{{E}} = {float(here.excess_risk):.3f}$",
        fontsize=7.5,
    )


def _landmarks(axes: Axes, here: xr.Dataset) -> None:
    reach = 1.5 * np.abs([*axes.get_xlim(), *axes.get_ylim()]).max()
    axes.plot(*zip((0, 0), reach * here.best_direction.values, strict=True), "--", color="black", lw=1,
              scalex=False, scaley=False)  # fmt: skip
    if np.isfinite(here.minimiser.values).all():
        axes.plot(
            *here.minimiser.values, "*", color="#FFD23F", mec="black", mew=0.7, ms=10, zorder=5
        )
    else:
        length = 0.75 * np.abs([*axes.get_xlim(), *axes.get_ylim()]).min()
        axes.annotate("", length * here.direction.values, (0, 0),
                      arrowprops={"arrowstyle": "-|>", "color": "#B8860B", "lw": 1.6})  # fmt: skip


def _sgd(panels: Any, data: xr.Dataset) -> None:
    plane, loss, error = panels
    names = ("gamma_1", "gamma_2", "plane_loss", "sector_begin", "sector_end", "sector_error",
             "best_direction", "minimiser")  # fmt: skip
    here = xr.Dataset({name: data[f"sgd_{name}"] for name in names}).rename(sgd_sector="sector")
    shade(plane, here)
    plotting.draw_levels(plane, here.gamma_1, here.gamma_2, here.plane_loss, num=9, label=False)
    plotting.draw_path(plane, data.sgd_gamma, 0.1, ms=0)
    _landmarks(plane, here)
    plane.set_title("SGD on $N = 10$ tokens")
    look = {"color": plotting.rate_style(0.1)["color"]}
    t = np.maximum(data.step.values, 0.5)  # the start at the left edge of a logarithmic axis
    loss.plot(t, data.sgd_loss, **look)
    loss.axhline(float(data.sgd_least_loss), color="0.4", lw=0.9, ls="--")
    loss.annotate("minimum", (t[0], float(data.sgd_least_loss)), (0, 3),
                  textcoords="offset points", fontsize=7, color="0.3")  # fmt: skip
    error.step(t, data.sgd_error, where="post", **look)
    for value, text in ((data.sgd_error_at_minimiser, "at the loss's minimiser"), (data.sgd_least_error, "least possible")):  # fmt: skip
        error.axhline(float(value), color="0.4", lw=0.9, ls="--")
        error.annotate(text, (t[0], float(value)), (0, 3), textcoords="offset points", fontsize=7,
                       color="0.3")  # fmt: skip
    loss.set(xlabel="step $t$", ylabel="loss $L(W_t)$", xscale="log", title="Loss")
    error.set(xlabel="step $t$", ylabel="0-1 loss", xscale="log", title="0-1 loss", ylim=(0, None))


def _spread(axes: Axes, data: xr.Dataset) -> None:
    rng = np.random.default_rng(0)
    for row, (number, exponent) in enumerate(
        zip(data.drawn_num_tokens.values, data.drawn_exponent.values, strict=True)
    ):
        drawn = data.drawn_excess_risk.isel(setting=row).values
        up = row + rng.uniform(-0.3, 0.3, len(drawn))
        axes.plot(drawn, up, ".", color="0.6", ms=2.5, zorder=1, rasterized=True)
        here = _shown(data, int(number), float(exponent))
        for label, value in here.items():
            axes.plot(value, row, "D", color=plotting.COLOURS[1], ms=4, zorder=3)
            axes.annotate(label.removesuffix(" run's draw").removeprefix("the "), (value, row), (0, 5), textcoords="offset points", fontsize=6.5,
                          ha="left" if value < 0.02 else "center", bbox={"fc": "white", "ec": "none", "pad": 0.5, "alpha": 0.7})  # fmt: skip
    names = [f"$N = {n}$, $p \\propto x^{{-{a:g}}}$" for n, a in zip(data.drawn_num_tokens.values, data.drawn_exponent.values, strict=True)]  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.65)
    axes.set(xlabel=r"excess risk $\mathcal{E}$", title=f"{data.sizes['draw']} draws of the embeddings; shown above: diamonds")  # fmt: skip


def _often(axes: Axes, data: xr.Dataset) -> None:
    for index, M in enumerate(data.num_classes.values):
        for other, d in enumerate(data.dim.values):
            here = data.sel(num_classes=M, dim=d)
            rate = here.forgetting_rate
            span = [rate - here.forgetting_low, here.forgetting_high - rate]
            shift = 1 + 0.03 * (2 * index + other)  # so that the bars do not cover one another
            axes.errorbar(
                shift * data.num_tokens, rate, np.maximum(span, 0), capsize=2, ms=3, lw=1.1,
                marker="os^Dv<>p"[(2 * index + other) % 8], color=plotting.COLOURS[index % 8],
                ls=("-", "--", ":", "-.")[other % 4], label=f"$M = {M}$, $d = {d}$",
            )  # fmt: skip
    axes.set(xlabel="number of tokens $N$", ylabel="share of draws, 95 % interval", xscale="log")
    axes.set_title("Likeliest token forgotten")
    axes.set_xticks(data.num_tokens.values, [str(n) for n in data.num_tokens.values])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(ncols=2, columnspacing=1, handlelength=1.8, fontsize=6)
    axes.set_ylim(top=1.45 * float(data.forgetting_high.max()))
