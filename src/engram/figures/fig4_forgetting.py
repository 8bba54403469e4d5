"""Figure 4: more tokens than dimensions, where the loss's minimiser forgets what could be recalled."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from engram import plotting
from engram.capacity import calibration, forgetting_rate
from engram.dynamics import StochasticGradientDescent
from engram.figures._comparison import Comparison, compared, compared_records, counted
from engram.figures._labels import labelled
from engram.figures._plane import (
    at_authors_points,
    cases_of,
    draw_minimiser,
    draw_plane,
    plane_of,
    stacked,
)
from engram.figures._reference import arrays_of, case_of, problem_of, reference
from engram.figures._runs import Progress, records_of, silent
from engram.planes import memory_plane
from engram.problem import Problem, on_sphere


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


def compute(settings: Settings, progress: Progress = silent) -> xr.Dataset:
    """Four landscapes with their exact excess risks, the SGD run, and the same over many seeds."""
    stages = len(settings.seeds) + 1 + len(settings.settings) + len(settings.num_classes)
    done = itertools.count(1)
    rows, spread, rates = [], [], []
    for seed in settings.seeds:
        case = case_of("fig4", seed=seed)
        problem = problem_of(case)
        first, second = ((*case["grid"][axis][:2], settings.num) for axis in ("x", "y"))
        rows.append(plane_of(problem, first, second).merge(_exact(problem)))
        progress(next(done), stages)
    sgd = _sgd_run(settings)
    progress(next(done), stages)
    for number, exponent in settings.settings:
        draws = (on_sphere(k, number, 2, 2, exponent=exponent) for k in range(settings.draws))
        spread.append([calibration(problem).excess for problem in draws])
        progress(next(done), stages)
    for number in settings.num_classes:
        sizes = (settings.num_tokens, settings.dims)
        rates.append(forgetting_rate(*sizes, num_classes=number, draws=settings.draws))
        progress(next(done), stages)
    numbers, exponents = zip(*settings.settings, strict=True)
    typical = xr.Dataset(
        {"drawn_excess_risk": (("setting", "draw"), spread)},
        {
            "drawn_num_tokens": ("setting", list(numbers)),
            "drawn_exponent": ("setting", list(exponents)),
            "draw": np.arange(settings.draws),
        },
    )
    often = xr.concat(rates, xr.Variable("num_classes", list(settings.num_classes)))
    often = often.rename({name: f"forgetting_{name}" for name in ("rate", "low", "high")})
    often = often[["forgetting_rate", "forgetting_low", "forgetting_high", "num_unsolved"]]
    data = xr.merge([stacked(rows, settings.seeds), sgd, typical, often])
    return labelled(data, "fig4", settings)


def _sgd_run(settings: Settings) -> xr.Dataset:
    """The authors' run of SGD and its plane, with names that begin with `sgd_`."""
    (case,) = reference("fig4_sgd")["cases"]
    problem, steps = problem_of(case), case["steps"] - 1
    batches = np.asarray(case["batches"])[:steps]
    descent = StochasticGradientDescent(case["lr"], steps, case["batch_size"], batches=batches)
    start = memory_plane(problem).weights(*case["gamma0"])
    run = records_of(problem, descent, ("loss", "error", "weights"), start=start)
    axes = ((*settings.sgd_first, settings.num), (*settings.sgd_second, settings.num))
    run = run.merge(plane_of(problem, *axes)).merge(_exact(problem))
    dims = ("token", "sector", "first", "second")
    names = [*run.data_vars, "gamma_1", "gamma_2", *dims]
    return run.rename({name: f"sgd_{name}" for name in names})


def _exact(problem: Problem) -> xr.Dataset:
    """What can be recalled at best, and what the minimiser of the loss recalls."""
    result = calibration(problem)
    best, at = result.minimiser, lambda W: memory_plane(problem).coordinates(problem, W)[0]
    nowhere = np.full(2, np.nan)
    return xr.Dataset(
        {
            "excess_risk": result.excess,
            "error_at_minimiser": result.error,
            "least_error": result.least.error,
            "is_separable": int(result.least.error == 0),
            "least_loss": best.loss,
            "minimiser": ("component", at(best.weights) if best.exists else nowhere),
            "direction": ("component", nowhere if best.exists else _unit(at(best.direction))),
            "best_direction": ("component", _unit(at(result.least.weights))),
            "forgotten": ("token", _among(result.forgotten, problem.num_tokens).astype(float)),
        }
    ).merge(arrays_of(problem))


def _among(tokens: Any, num: int) -> np.ndarray:
    """Which of `num` tokens are in a list."""
    return np.isin(np.arange(num), tokens)


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)


def compare(data: xr.Dataset) -> list[Comparison]:
    """Exact values of the authors' draws, the landscapes where sampled, and the SGD run point by point."""
    rows = []
    for here in cases_of(data):
        rows += _compare_case(here, case_of("fig4", seed=int(here.seed)))
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
    forgotten = _among(exact["misclassified_at_minimiser"], case["N"])
    rows = [
        # Sums of frequencies: a few units in the last place of 1.
        Comparison(f"{what}, {name}", float(value), float(wanted), 1e-12)
        for (what, value), wanted in zip(ours.items(), theirs, strict=True)
    ] + [
        counted(f"separable, {name}", here.is_separable, int(exact["separable"])),
        counted(f"tokens forgotten, {name}", here.forgotten[: case["N"]] == 1, forgotten),
    ]
    if exact["loss_minimiser_gamma"] is not None:
        rows += [
            compared(f"the loss's minimiser, {name}", here.minimiser, exact["loss_minimiser_gamma"]),
            compared(f"least loss, {name}", here.least_loss, exact["loss_min"]),
        ]  # fmt: skip
    sampled = at_authors_points(here, case["sample_indices"], case["grid"]["x"][2])
    if sampled is not None:
        rows += compared_records(sampled, case, ("loss", "error"), f" over the plane, {name}")
    return rows


def findings(data: xr.Dataset) -> list[str]:
    """Excess risks, what SGD does, and how typical both are."""
    sentences = []
    for here in cases_of(data):
        tokens = np.flatnonzero(here.forgotten.values == 1) + 1
        shown = ", ".join(map(str, tokens[:6])) + (", ..." if len(tokens) > 6 else "")
        which = f"{len(tokens)} of {here.N} tokens ({shown}, from 1)" if len(tokens) else "none"  # fmt: skip
        sentences.append(
            f"seed {int(here.seed)}, N = {here.N}: excess risk {float(here.excess_risk):.4f}; error {float(here.error_at_minimiser):.4f} at the "
            f"minimiser, {float(here.least_error):.4f} at best; it forgets {which}"
        )
    error = data.sgd_error.values
    sentences.append(
        f"SGD, N = 10: error {error[0]:.3f} at the start, {error.min():.3f} at t = {error.argmin()} (at best "
        f"{float(data.sgd_least_error):.3f}), {error[-1]:.3f} at the end (the minimiser's: {float(data.sgd_error_at_minimiser):.3f}; "
        f"excess risk {float(data.sgd_excess_risk):.3f})"
    )
    sentences += [_typical(data, setting) for setting in range(data.sizes["setting"])]
    rate = data.forgetting_rate
    for M in rate.num_classes.values:
        for d in rate.dim.values:
            shares = ", ".join(
                f"{100 * float(rate.sel(num_classes=M, num_tokens=n, dim=d)):.1f} % (N = {n})"
                for n in rate.num_tokens.values
            )
            lost = int(data.num_unsolved.sel(num_classes=M, dim=d).sum())
            sentences.append(
                f"M = {M}, d = {d}: the likeliest token is forgotten in {shares} of {data.sizes['draw']} draws"
                + (f" ({lost} draws could not be solved, and are left out)" if lost else "")
            )
    return sentences


def _typical(data: xr.Dataset, setting: int) -> str:
    """In how many draws the excess risk is positive, and as large as in those shown."""
    drawn = data.drawn_excess_risk.isel(setting=setting).values
    number, exponent = int(data.drawn_num_tokens[setting]), float(data.drawn_exponent[setting])
    text = f"N = {number}, p(x) ∝ x^-{exponent:g}: over {len(drawn)} draws the excess risk is positive in {int((drawn > 1e-9).sum())}"
    for name, value in _shown(data, number, exponent).items():
        if value > 1e-9:
            count = int((drawn >= value - 1e-9).sum())
            text += f", at least that of {name} ({value:.4f}) in {count}"
    return text


def _shown(data: xr.Dataset, number: int, exponent: float) -> dict[str, float]:
    """The excess risks of the draws shown that belong to a setting."""
    if exponent == 2:
        return {"the SGD run's draw": float(data.sgd_excess_risk)}
    return {
        f"seed {int(here.seed)}": float(here.excess_risk)
        for here in cases_of(data)
        if number == here.N
    }


def draw(data: xr.Dataset) -> Figure:
    """Four landscapes; SGD on its landscape and its traces; how typical they are."""
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 6.6)
        parts: Any = figure.subfigures(3, 1, height_ratios=[1, 1.15, 1])
        top, middle, bottom = parts
        panels = top.subplots(1, data.sizes["case"], squeeze=False)[0]
        for axes, here in zip(panels, cases_of(data), strict=True):
            _landscape(axes, here)
        _sgd(middle.subplots(1, 3), data)
        left, right = bottom.subplots(1, 2, width_ratios=[1.5, 1])
        _spread(left, data)
        _often(right, data)
        return figure


def _landscape(axes: Axes, here: xr.Dataset) -> None:
    draw_plane(axes, here, num=9, labels=False)
    _landmarks(axes, here)
    excess = rf"$\mathcal{{E}} = {float(here.excess_risk):.3f}$"
    axes.set_title(f"seed {int(here.seed)}, $N = {here.N}$, {excess}", fontsize=7.5)


def _landmarks(axes: Axes, here: xr.Dataset) -> None:
    reach = 1.5 * np.abs([*axes.get_xlim(), *axes.get_ylim()]).max()
    axes.plot(*zip((0, 0), reach * here.best_direction.values, strict=True), "--", color="black", lw=1,
              scalex=False, scaley=False)  # fmt: skip
    if not draw_minimiser(axes, here):
        length = 0.75 * np.abs([*axes.get_xlim(), *axes.get_ylim()]).min()
        axes.annotate("", length * here.direction.values, (0, 0),
                      arrowprops={"arrowstyle": "-|>", "color": "#B8860B", "lw": 1.6})  # fmt: skip


def _sgd(panels: Any, data: xr.Dataset) -> None:
    plane, loss, error = panels
    here = data[[name for name in data.variables if str(name).startswith("sgd_")]]
    here = here.rename({name: str(name).removeprefix("sgd_") for name in here.variables})
    here = here.rename(sgd_sector="sector")
    draw_plane(plane, here, num=9, labels=False)
    plotting.draw_path(plane, here.gamma, 0.1, ms=0)
    _landmarks(plane, here)
    plane.set_title("SGD on $N = 10$ tokens")
    look = {"color": plotting.rate_style(0.1)["color"]}
    t = np.maximum(data.step.values, 0.5)  # the start at the left edge of a logarithmic axis
    loss.plot(t, here.loss, **look)
    error.step(t, here.error, where="post", **look)
    for axes, value, text in (
        (loss, here.least_loss, "minimum"),
        (error, here.error_at_minimiser, "at the loss's minimiser"),
        (error, here.least_error, "least possible"),
    ):
        axes.axhline(float(value), color="0.4", lw=0.9, ls="--")
        axes.annotate(text, (t[0], float(value)), (0, 3), textcoords="offset points", fontsize=7, color="0.3")  # fmt: skip
    loss.set(xlabel="step $t$", ylabel="loss $L(W_t)$", xscale="log", title="Loss")
    error.set(xlabel="step $t$", ylabel="0-1 loss", xscale="log", title="0-1 loss", ylim=(0, None))


def _spread(axes: Axes, data: xr.Dataset) -> None:
    rng = np.random.default_rng(0)
    names = []
    for row in range(data.sizes["setting"]):
        here = data.isel(setting=row)
        drawn = here.drawn_excess_risk.values
        number, exponent = int(here.drawn_num_tokens.item()), here.drawn_exponent.item()
        names.append(f"$N = {number}$, $p \\propto x^{{-{exponent:g}}}$")
        up = row + rng.uniform(-0.3, 0.3, len(drawn))
        axes.plot(drawn, up, ".", color="0.6", ms=2.5, zorder=1, rasterized=True)
        for label, value in _shown(data, number, exponent).items():
            axes.plot(value, row, "D", color=plotting.COLOURS[1], ms=4, zorder=3)
            axes.annotate(label.removesuffix(" run's draw").removeprefix("the "), (value, row), (0, 5), textcoords="offset points", fontsize=6.5,
                          ha="left" if value < 0.02 else "center", bbox={"fc": "white", "ec": "none", "pad": 0.5, "alpha": 0.7})  # fmt: skip
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
