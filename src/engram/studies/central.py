"""Descent at the edge on average: the central flow over Figures 2 and 5, and sharpness along other systems' paths."""

import dataclasses
import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import plotting
from engram._precision import in_double
from engram.capacity import loss_minimiser
from engram.dynamics import CentralFlow, GradientDescent, run
from engram.memory import MemorySystem
from engram.planes import memory_plane
from engram.problem import Problem, two_tokens
from engram.registry import make
from engram.studies._study import AbstractStudy, Row
from engram.studies._work import Work
from engram.system import AbstractSystem
from engram.transformer import Config, TransformerSystem, prepare

FLOWS = ("flow", "small", "finite")  # gradient flow, and the central flow of either amplitude
_NAMES = {"descent": "descent", "mean": "descent, averaged", "flow": "gradient flow",
          "small": "central flow", "finite": "with finite amplitude"}  # fmt: skip
_FIGURES = ("fig2", "fig5 9", "fig5 39")
_SUBSTEPS = 32
_SYSTEMS: dict[str, dict[str, Any]] = {
    "memory": {},
    "factored": {"rank": 2, "start_size": 0.5, "imbalance": 2.0},
    "embedded": {},
    "network": {"width": 16, "activation": "tanh"},
}


def averaged(path: np.ndarray) -> np.ndarray:
    """A path without what changes sign at every step: weights 1/4, 1/2, 1/4; the first point stays, the last goes."""
    return np.concatenate([path[:1], (path[:-2] + 2 * path[1:-1] + path[2:]) / 4])


# The system and the dynamics are arguments, so that other numbers use the same programs.
@functools.partial(jax.jit, static_argnames=("steps", "every"))
def _walk(system: Any, dynamics: Any, start: Any, steps: int, every: int) -> Any:
    """States and predicted variances (NaN where a dynamics has none)."""

    def now(system: Any, dynamics: Any, carry: Any) -> Any:
        variance = getattr(carry.inner, "variance", jnp.nan)
        return dynamics.state_of(carry.inner), jnp.asarray(variance, float)

    return run(system, dynamics, start, at=jnp.arange(0, steps + 1, every), record=now).records


@jax.jit
def _sharpness_along(system: Any, states: Any) -> Any:
    return jax.lax.map(system.sharpness, states)


@jax.jit
def _parts_along(system: Any, states: Any) -> Any:
    return jax.lax.map(lambda x: (system.loss(x), system.sharpness(x), system.part_sharpness(x)), states)  # fmt: skip


@in_double
def paths(
    system: AbstractSystem, start: Any, rate: float, steps: int, flows: tuple[str, ...] = FLOWS
) -> tuple[dict[str, Any], xr.Dataset]:
    """Descent, gradient flow and central flows from one start; and how far each is from descent's average.

    Returns:
        The states of each path, and sharpness, distance and variance of the oscillation, step by step.
    """

    def along(dynamics: Any, every: int = 1) -> tuple[Any, Any]:
        states, variance = _walk(system, dynamics, jax.tree.map(jnp.asarray, start), every * steps, every)  # fmt: skip
        sharpness = _sharpness_along(system, states)
        return states, {"variance": np.asarray(variance), "sharpness": np.asarray(sharpness)}

    made: dict[str, Any] = {
        "descent": lambda: along(GradientDescent(rate, steps)),
        "flow": lambda: along(GradientDescent(rate / _SUBSTEPS, steps * _SUBSTEPS), _SUBSTEPS),
        "small": lambda: along(CentralFlow(rate, steps, substeps=_SUBSTEPS)),
        "finite": lambda: along(CentralFlow(rate, steps, substeps=_SUBSTEPS, amplitude="finite")),
    }
    found = {name: made[name]() for name in ("descent", *flows)}
    flat = {name: np.asarray(jax.vmap(lambda x: ravel_pytree(x)[0])(states)) for name, (states, _) in found.items()}  # fmt: skip
    mean = averaged(flat["descent"])
    away = flat["descent"][:steps] - mean
    rows = {name: numbers for name, (_, numbers) in found.items()}
    rows["descent"]["variance"] = np.append((away**2).sum(1), np.nan)
    distance = [np.append(np.linalg.norm(flat[name][:steps] - mean, axis=1), np.nan) for name in flat]  # fmt: skip
    pick = lambda what: (("path", "step"), np.stack([numbers[what] for numbers in rows.values()]))
    data = xr.Dataset(
        {"distance": (("path", "step"), np.stack(distance)), "variance": pick("variance"), "sharpness": pick("sharpness")},
        {"path": list(flat), "step": np.arange(steps + 1)},
        {"rate": rate},
    )  # fmt: skip
    return {name: states for name, (states, _) in found.items()}, data


def authors_draw(seed: int) -> tuple[Problem, tuple[float, float]]:
    """The draw of Figure 5 with a seed of the authors', and where in the plane it starts."""
    cases = json.loads((resources.files("engram") / "figures" / "data" / "fig5.json").read_text())
    case = next(case for case in cases["cases"] if case["seed"] == seed)
    problem = Problem(case["E"], case["U"], case["probabilities_f64"], case["targets"])
    return problem, tuple(case["gamma0"])


def figure_paths(name: str, rate: float, steps: int) -> xr.Dataset:
    """The paths in the plane of a figure: "fig2", or "fig5" and a seed of the authors'."""
    if name == "fig2":
        problem, at = two_tokens(0.95, 0.75), (0.0, 0.0)
    else:
        problem, at = authors_draw(int(name.split()[1]))
    plane = memory_plane(problem)
    states, data = paths(MemorySystem(problem), plane.weights(*at), rate, steps)
    gamma = [plane.coordinates(problem, np.asarray(states[each]))[0] for each in data.path.values]
    best = loss_minimiser(problem)
    return data.assign(
        gamma=(("path", "step", "component"), np.stack(gamma)), separable=not best.exists
    )


def system_paths(
    name: str, problem: Mapping[str, Any], share: float, horizon: float, steps: int
) -> xr.Dataset:
    """The paths of a system at a rate at which 2/rate is a share of the largest sharpness of its gradient flow."""
    here = make("problem", dict(problem))
    system = make("system", {"kind": name, **_SYSTEMS[name]}, problem=here)
    start = system.start()
    rate = 2 / (share * _largest_sharpness(system, start, horizon))
    _, data = paths(system, start, rate, steps, ("flow", "small"))
    return data


@in_double
def _largest_sharpness(system: AbstractSystem, start: Any, horizon: float, points: int = 100) -> float:  # fmt: skip
    """Of gradient flow up to a time, by short steps."""
    every = 40
    short = GradientDescent(horizon / (every * points), every * points)
    states, _ = _walk(system, short, jax.tree.map(jnp.asarray, start), every * points, every)
    return float(_sharpness_along(system, states).max())


@in_double
def transformer_parts(rate: float, steps: int, every: int, dim: int, seed: int) -> xr.Dataset:
    """The sharpness of all of a small transformer's trained matrices together, and of each alone, along descent."""
    config = Config(dim=dim, sequences=64, length=32, vocabulary=16, dtype="float64", seed=seed)
    system = TransformerSystem(*prepare(config), config.matrices)

    at = np.arange(0, steps + 1, every)
    start = jax.tree.map(jnp.asarray, system.start())
    states, _ = _walk(system, GradientDescent(rate, steps), start, int(at[-1]), every)
    loss, whole, parts = _parts_along(system, states)
    values = np.stack([np.asarray(whole), *(np.asarray(parts[name]) for name in parts)])
    return xr.Dataset(
        {"sharpness": (("matrix", "step"), values), "loss": ("step", np.asarray(loss))},
        {"matrix": ["all", *parts], "step": at},
        {"rate": rate},
    )


@dataclasses.dataclass(frozen=True)
class Central(AbstractStudy):
    """The central flow over Figures 2 and 5, and the sharpness along the paths of other systems."""

    figures: list[str] = dataclasses.field(default_factory=lambda: list(_FIGURES))
    rates: list[float] = dataclasses.field(default_factory=lambda: [10.0, 1.0])
    points: int = 35
    systems: list[str] = dataclasses.field(default_factory=lambda: list(_SYSTEMS))
    num_tokens: int = 12
    num_classes: int = 3
    dim: int = 3
    seed: int = 1
    share: float = 0.7
    horizon: float = 400.0
    steps: int = 300
    transformer_rate: float = 2.0
    transformer_steps: int = 120

    title: ClassVar[str] = "Descent at the edge of stability, on average"
    question: ClassVar[str] = (
        "Does the central flow, gradient flow kept at a sharpness of at most 2/η by the oscillation's own average, "
        "describe the averaged path of descent on a memory, and the size of its oscillation?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "In deep networks it does, with high accuracy (Cohen, Damian, Talwalkar, Kolter, Lee, arXiv 2410.24206).",
        "Models of finite amplitude go beyond it: Rod Flow (arXiv 2602.01480), Edge Flow (arXiv 2606.18080).",
    )
    open: ClassVar[tuple[str, ...]] = (
        "The first steps from W = 0 in Figure 2: the sharpness is above 2/η where it has no slope, so that neither "
        "flow has an oscillation of the right size.",
        "How long descent waits, above the edge, until an oscillation that had died out has grown again.",
    )
    minutes: ClassVar[float] = 3
    optional: ClassVar[tuple[str, ...]] = ("figures", "systems")
    tiny: ClassVar[Mapping[str, Any]] = {
        "figures": ["fig2"], "rates": [10.0], "points": 12, "systems": [], "transformer_steps": 0,
    }  # fmt: skip

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        parts = {}
        for rate in self.rates:
            for name in self.figures:
                key = f"{name} {rate:g}"
                parts[key] = work.keep(key.replace(" ", "_"), figure_paths, name=name, rate=rate, steps=self.points - 1)  # fmt: skip
        sizes = {"num_tokens": self.num_tokens, "num_classes": self.num_classes, "dim": self.dim}
        given = {"problem": {"family": "sphere", **sizes, "seed": self.seed}}
        given |= {"share": self.share, "horizon": self.horizon, "steps": self.steps}
        for name in self.systems:
            parts[name] = work.keep(name, system_paths, name=name, **given)
        if self.transformer_steps:
            asked = {"rate": self.transformer_rate, "steps": self.transformer_steps, "every": max(1, self.transformer_steps // 40)}  # fmt: skip
            parts["transformer"] = work.keep("transformer", transformer_parts, dim=16, seed=0, **asked)  # fmt: skip
        return parts

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        rows = []
        for key, here in _in_order(data).items():
            if key == "transformer":
                continue
            name = _titled(key, here)
            for flow in (each for each in here.path.values if each not in ("descent", "flow")):
                rows.append(Row(f"distance from descent's average over that of gradient flow: {_NAMES[flow]}, {name}", ratio(here, flow)))  # fmt: skip
                ours, theirs = oscillation(here, "descent"), oscillation(here, flow)
                rows.append(Row(f"variance of the oscillation, mean over all steps: {_NAMES[flow]}, {name}", theirs, source=f"{ours:.4g} is measured"))  # fmt: skip
        cycle = data.get("fig5 9 10")
        if cycle is not None and self.points >= 30:  # on its cycle of period two by then
            last = cycle.isel(step=-2)
            measured = float(last.variance.sel(path="descent"))
            rows += [
                Row("variance on the cycle of Figure 5, N = 30, η = 10, with finite amplitude", float(last.variance.sel(path="finite")), reference=measured, error=1e-3 * measured, source="half the distance of the two points of the cycle, squared"),
                Row("distance from the middle of that cycle, with finite amplitude", float(last.distance.sel(path="finite")), reference=0.0, error=1e-3, source="the middle is at rest"),
            ]  # fmt: skip
        return rows

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        out = []
        for key, here in _in_order(data).items():
            name, edge = _titled(key, here), 2 / here.rate
            if key == "transformer":
                last = here.isel(step=-1).sharpness
                highest = str(here.matrix.values[1:][last.values[1:].argmax()])
                out.append(
                    f"{name}: the sharpness goes from {float(here.sharpness[0, 0]):.3g} to {float(here.sharpness[0].max()):.3g} at most "
                    f"(2/η = {edge:.3g}), and is {float(last[0]):.3g} at the end; of single matrices {highest} is sharpest then, with {float(last[1:].max()):.3g}."
                )  # fmt: skip
                continue
            S = here.sharpness.sel(path="descent").values
            text = f"{name}: 2/η = {edge:.3g}, sharpness of descent {S[0]:.3g} at first, {np.nanmax(S):.3g} at most, {S[-1]:.3g} at the end"
            if not (here.variance.sel(path="small") > 0).any():
                text += "; the central flow never meets the edge, and is gradient flow"
            else:
                late = here.isel(step=slice(here.sizes["step"] // 2, None))
                text += (
                    f"; the central flow is {ratio(here, 'small'):.3g} times as far from the average as gradient flow, "
                    f"in the second half {ratio(late, 'small'):.3g} times; mean variance {oscillation(here, 'small'):.3g}, "
                    f"measured {oscillation(here, 'descent'):.3g}"
                )
            if "finite" in here.path and (here.variance.sel(path="small") > 0).any():
                text += (
                    f"; with finite amplitude {ratio(here, 'finite'):.3g} times, mean variance "
                    f"{oscillation(here, 'finite'):.3g}"
                )
            out.append(text + ".")
        return out

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        with plotting.style():
            return _draw(data, f"{max(self.rates):g}")


def _in_order(data: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Figures first, larger rates before smaller ones, then systems."""
    rank = {name: k for k, name in enumerate((*_SYSTEMS, "transformer"))}
    place = lambda key: (rank.get(key, -1), key.rpartition(" ")[0], -data[key].rate)
    return {key: data[key] for key in sorted(data, key=place)}


def ratio(here: xr.Dataset, flow: str) -> float:
    """How far a flow is from descent's average, summed over the steps, over the same of gradient flow."""
    total = here.distance.sum("step")
    return float(total.sel(path=flow) / total.sel(path="flow"))


def oscillation(here: xr.Dataset, path: str) -> float:
    """The mean of the variance over the steps at which both it and descent's are known."""
    return float(here.variance.sel(path=path).isel(step=slice(1, -1)).mean())


def _titled(key: str, here: xr.Dataset) -> str:
    figure, *rest = key.split()
    if figure == "fig2":
        return f"Figure 2, η = {here.rate:g}"
    if figure == "fig5":
        return f"Figure 5, N = {30 if rest[0] == '9' else 3}, η = {here.rate:g}"
    return f"{figure}, η = {here.rate:.3g}"


_LOOKS: dict[str, dict[str, Any]] = {
    "descent": {"color": "0.75", "lw": 0.8, "marker": ".", "ms": 3},
    "mean": {"color": "k", "lw": 1.4},
    "flow": {"color": plotting.COLOURS[0], "lw": 1.1, "ls": "--"},
    "small": {"color": plotting.COLOURS[1], "lw": 1.3},
    "finite": {"color": plotting.COLOURS[2], "lw": 1.3, "ls": "-."},
}


def _draw(data: Mapping[str, xr.Dataset], rate: str) -> Figure:
    planes = [name for name in (f"fig2 {rate}", f"fig5 9 {rate}") if name in data]
    others = [name for name in (*_SYSTEMS, "transformer") if name in data]
    figure = plotting.new_figure(plotting.WIDE, 2.9 + (1.9 if others else 0))
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.35, 1]) if others else [figure]
    grid = parts[0].subplots(1, 2 * len(planes) or 1, squeeze=False)[0]
    for k, name in enumerate(planes):
        _plane(grid[2 * k], data[name], _titled(name, data[name]))
        _variance(grid[2 * k + 1], data[name])
    if planes:
        lines, labels = grid[0].get_legend_handles_labels()
        parts[0].legend(lines, labels, loc="outside lower center", ncols=5)
    if others:
        grid = parts[1].subplots(1, len(others), squeeze=False)[0]
        for axes, name in zip(grid, others, strict=True):
            _sharpness(axes, data[name], name)
        grid[0].set_ylabel(r"sharpness (dotted: $2/\eta$)")
    return figure


def _plane(axes: Axes, here: xr.Dataset, title: str) -> None:
    descent = here.gamma.sel(path="descent").values
    shown = {"descent": descent, "mean": averaged(descent)}
    shown |= {name: here.gamma.sel(path=name).values for name in FLOWS}
    for name, path in shown.items():
        axes.plot(*path.T, **_LOOKS[name], label=_NAMES[name])
    plotting.name_plane(axes)
    axes.set_title(title)


def _variance(axes: Axes, here: xr.Dataset) -> None:
    for name in ("descent", "small", "finite"):
        look = _LOOKS["mean" if name == "descent" else name]
        axes.plot(here.step, here.variance.sel(path=name), **look)
    axes.set(xlabel="step $t$", title="variance")


def _sharpness(axes: Axes, here: xr.Dataset, name: str) -> None:
    axes.axhline(2 / here.rate, color="k", lw=0.8, ls=":")
    if name == "transformer":
        for colour, matrix in zip(("k", *plotting.COLOURS[:3]), here.matrix.values, strict=True):
            axes.plot(here.step, here.sharpness.sel(matrix=matrix), lw=0.9, color=colour, label=str(matrix))  # fmt: skip
        axes.set_ylim(bottom=0.02)
        axes.legend(fontsize=5.5, ncols=2, loc="lower center")
    else:
        looks = {"descent": {"color": "0.6", "lw": 0.8}, "flow": _LOOKS["flow"], "small": _LOOKS["small"]}  # fmt: skip
        for path, look in looks.items():
            axes.plot(here.step, here.sharpness.sel(path=path), **look)
    axes.set(xlabel="step $t$", title=name, yscale="log")
    plotting.log_ticks(axes.yaxis)
