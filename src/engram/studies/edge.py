"""More tokens than can be recalled: where descent settles, cycles or wanders, over the learning rate."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram import memory, plotting
from engram._checks import InputError
from engram._precision import in_double
from engram.capacity import loss_minimiser
from engram.dynamics import lyapunov_exponent
from engram.problem import Problem
from engram.registry import make
from engram.special import normals
from engram.studies._study import AbstractStudy, Row
from engram.studies._work import Work
from engram.sweeps import CLASSES
from engram.theory import cycles

_LAST = 64  # losses that are kept of the end of a run
_NEAR = 1e-6  # how far from the minimiser runs start that ask whether it attracts
_SECTIONS, _ROUNDS = (
    64,
    4,
)  # each round looks at so many rates between the last that did and the first that did not
_BELOW = (0.75, 0.9)  # shares of the edge at which the minimiser's exponent is compared
_CYCLES = ((0.98, 2), (1.03, 2), (1.08, 4))  # shares of the edge, and the line's period there
_LINE = ([1.0, -8.0, -0.5], [0.679, 0.021, 0.3])  # lengths and frequencies of three parallel tokens


def line() -> Problem:
    """Three parallel tokens of one class, the second and third of which pull the other way."""
    lengths, probs = _LINE
    return Problem([[z, 0.0] for z in lengths], np.eye(2), probs, [0, 0, 0])


def problem_of(table: Mapping[str, Any] | None) -> Problem:
    """The problem of a table; without one, the three parallel tokens."""
    return line() if table is None else make("problem", table)


def minimiser_of(problem: Problem) -> tuple[np.ndarray, float]:
    """Where the loss is least, and 2 over its sharpness there: the edge of stability."""
    best = loss_minimiser(problem)
    if not best.exists:
        raise InputError(
            "`problem` must have more tokens than can be recalled, and this one can be recalled: its loss "
            "has no minimiser. Take another `seed` or more tokens."
        )
    return np.asarray(best.weights), 2 / float(memory.sharpness(problem, best.weights))


@in_double
def exponents(
    problem: Mapping[str, Any] | None, shares: list[float], skip: int, steps: int
) -> xr.Dataset:
    """The largest Lyapunov exponent of descent from zero, and the losses at its end, by shares of the edge."""
    here = problem_of(problem)
    weights, edge = minimiser_of(here)
    system = memory.MemorySystem(here)

    def one(eta: Any) -> Any:
        end = lyapunov_exponent(system, here.zero_weights, eta, skip=skip, steps=steps)
        ahead = lambda W, _: (W - eta * system.grad(W), system.loss(W))
        return end.exponent, end.error, jax.lax.scan(ahead, end.last, length=_LAST)[1]

    rates = edge * np.asarray(shares)
    exponent, error, losses = jax.jit(jax.vmap(one))(rates)
    spectrum = np.asarray(memory.spectrum(here, weights, restricted=True))
    below = np.log(np.abs(1 - rates[:, None] * spectrum).max(1))
    return xr.Dataset(
        {
            "exponent": ("share", np.asarray(exponent)),
            "error": ("share", np.asarray(error)),
            "tail_loss": (("share", "tail"), np.asarray(losses)),
            "at_minimiser": ("share", below),
            "edge": edge,
        },
        {"share": list(shares)},
    )


@in_double
def doubling(
    problem: Mapping[str, Any], low: float, high: float, steps: int, seed: int = 0
) -> xr.Dataset:
    """The rate at which the minimiser stops attracting, between the last that is seen to and the first that is not.

    Runs start beside the minimiser, and it attracts if their steps become shorter: no use is made of the Hessian.
    """
    here = problem_of(problem)
    weights, edge = minimiser_of(here)
    system = memory.MemorySystem(here)
    aside = system.movable()(jnp.asarray(normals(seed, weights.shape, jnp.float64)))
    start = weights + _NEAR * aside / system.norm(aside)

    def leaves(eta: Any) -> Any:
        length = lambda W: eta * system.norm(system.grad(W))
        go = lambda W: jax.lax.fori_loop(0, steps // 2, lambda _, W: W - eta * system.grad(W), W)
        middle = go(start)
        before, after = length(middle), length(go(middle))
        return (after > 1e-3 * _NEAR) & ((after > before) | (after > 10 * _NEAR))

    look = jax.jit(jax.vmap(leaves))
    brackets = [(low * edge, high * edge)]
    for _ in range(_ROUNDS):
        rates = np.linspace(*brackets[-1], _SECTIONS)
        gone = np.asarray(look(rates))
        if gone[0] or not gone.any():  # not within these rates
            brackets.append((np.nan, np.nan))
            break
        first = int(gone.argmax())
        brackets.append((rates[first - 1], rates[first]))
    last = brackets[-1]
    return xr.Dataset({"low": last[0], "high": last[1], "edge": edge})


@dataclasses.dataclass(frozen=True)
class Edge(AbstractStudy):
    """Bifurcations and Lyapunov exponents over the learning rate."""

    num_tokens: int = 6
    num_classes: int = 2
    dim: int = 2
    seed: int = 0
    lowest: float = 0.6
    highest: float = 6.0
    rates: int = 400
    skip: int = 4000
    steps: int = 16384

    title: ClassVar[str] = "At the edge of stability: settling, cycling, wandering"
    question: ClassVar[str] = (
        "With more tokens than can be recalled the loss has a minimiser. Where does descent end as the learning "
        "rate grows past 2 over the sharpness there, and is what looks aperiodic chaotic?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "The minimiser attracts its neighbourhood exactly below 2/H, and cycles may attract below that "
        "(Meng, Orvieto, Cao, De Sa, arXiv 2406.05033; claim C46).",
        "On a line of tokens periods double on the way to chaos (the same; claim J3c).",
    )
    open: ClassVar[tuple[str, ...]] = (
        "For which data a cycle attracts below the edge in more than one dimension.",
        "Whether chaos ever ends in a better memory than the minimiser: here its loss is always larger.",
    )
    minutes: ClassVar[float] = 1
    tiny: ClassVar[Mapping[str, Any]] = {"rates": 24, "skip": 400, "steps": 512}

    def __post_init__(self) -> None:
        if self.lowest >= self.highest:
            raise InputError(
                f"`lowest` must be below `highest`, got {self.lowest} and {self.highest}. Swap them."
            )

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        drawn = {"num_tokens": self.num_tokens, "num_classes": self.num_classes, "dim": self.dim}
        problem = {"family": "sphere", **drawn, "seed": self.seed}
        shares = np.linspace(self.lowest, self.highest, self.rates)
        length = {"skip": self.skip, "steps": self.steps}
        all_shares = np.append(shares, _BELOW).tolist()
        ours = work.keep("exponents", exponents, problem=problem, shares=all_shares, **length)
        on_line = np.append(np.linspace(0.93, 1.25, self.rates), [share for share, _ in _CYCLES])
        diagram = work.sweep(
            "diagram",
            {
                "problem": problem,
                "dynamics": {"kind": "gd", "steps": self.skip + self.steps},
                "sweep": {"observables": ["convergence", "period"]},
            },
            {"learning_rate": float(ours.edge) * shares},
        )
        around = {"low": self.lowest, "high": self.highest, "steps": self.skip}
        return {
            "diagram": diagram,
            "exponents": ours,
            "doubling": work.keep("doubling", doubling, problem=problem, **around),
            "line": work.keep("line", exponents, problem=None, shares=on_line.tolist(), **length),
        }

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        first = data["doubling"]
        low, high = float(first.low / first.edge), float(first.high / first.edge)
        rows = [
            Row("rate at which the minimiser stops attracting, over 2/H", (low + high) / 2, low, high, 1.0, 1e-6,
                "Meng et al., arXiv 2406.05033; the error is that of starts 1e-6 away"),
        ]  # fmt: skip
        for share in _BELOW:
            here = data["exponents"].isel(share=[-2, -1]).sel(share=share)
            known = "log max |1 - ηh| over the Hessian's eigenvalues h"
            rows.append(_row(f"exponent of descent from zero at {share:g} of the edge", here, float(here.at_minimiser), known))  # fmt: skip
        for share, period in _CYCLES:
            here = data["line"].sel(share=share)
            multiplier = float(np.log(abs(_cycle(share, period).multiplier))) / period
            known = "logarithm of the cycle's multiplier per step, theory.cycles"
            rows.append(_row(f"exponent on the line's cycle of period {period} at {share:g} of the edge", here, multiplier, known))  # fmt: skip
        return rows

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        diagram = data["diagram"]
        ours = data["exponents"].isel(share=slice(diagram.sizes["learning_rate"]))
        shares, code = ours.share.values, diagram.convergence.values
        sure = ours.exponent.values - 2 * ours.error.values > 0
        names = {name: code == k for k, name in enumerate(CLASSES)}
        counts = ", ".join(f"{name} {at.mean():.0%}" for name, at in names.items() if at.any())
        settled = shares[names["fixed point"]]
        out = [
            f"Of {len(shares)} learning rates between {shares[0]:.2g} and {shares[-1]:.2g} of the edge: {counts}.",
        ]  # fmt: skip
        if len(settled):
            out.append(f"Descent from zero settles up to {settled.max():.4g} of the edge.")
        periods = np.unique(diagram.period.values[names["cycle"]]).astype(int)
        if len(periods):
            out.append(f"Periods that attract: {', '.join(map(str, periods))}.")
        for name, wanted, word in (
            ("cycle", ~sure, "not positive"),
            ("aperiodic", sure, "positive"),
        ):
            at = names[name]
            if at.any():
                out.append(f"{name}: the exponent is {word} at {(wanted & at).sum()} of {at.sum()} rates.")  # fmt: skip
        calm = names["aperiodic"] & (abs(ours.exponent.values) < 1e-3 + 2 * ours.error.values)
        if calm.any():
            out.append(
                f"Of the aperiodic ones {calm.sum()} have an exponent of zero, up to 0.001 and twice its error: descent "
                f"wanders without chaos (first at {shares[calm.argmax()]:.3g} of the edge)."
            )
        if sure.any():
            top = int(ours.exponent.values.argmax())
            out.append(
                f"The largest exponent is {float(ours.exponent[top]):.4f} ± {float(ours.error[top]):.4f} per step, at "
                f"{shares[top]:.3g} of the edge: an error doubles in {np.log(2) / float(ours.exponent[top]):.2g} steps."
            )  # fmt: skip
        on_line = data["line"].sortby("share")
        chaos = on_line.share.values[(on_line.exponent - 2 * on_line.error).values > 0]
        if len(chaos):
            out.append(f"On the line the first positive exponent is at {chaos[0]:.4g} of the edge.")
        return out

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        with plotting.style():
            figure = plotting.new_figure(plotting.WIDE, 4.4)
            grid = figure.subplots(2, 2, sharex="col", height_ratios=[1.25, 1])
            plane = f"{self.num_tokens} tokens in {self.dim} dimensions"
            _column(grid[:, 0], data["exponents"].sortby("share"), f"{plane}, seed {self.seed}")
            _column(grid[:, 1], data["line"].sortby("share"), "three parallel tokens")
            grid[0, 0].set_ylabel("loss where descent ends")
            grid[1, 0].set_ylabel("Lyapunov exponent per step")
            return figure


def _row(quantity: str, here: xr.Dataset, known: float, source: str) -> Row:
    ours, half = float(here.exponent), 1.96 * float(here.error)
    return Row(quantity, ours, ours - half, ours + half, known, 1e-9, source)


def _cycle(share: float, period: int) -> cycles.Cycle:
    """The line's attracting cycle, from where descent from 1.35 is after many steps; c = 2 for one-hot outputs."""
    z, p = map(np.asarray, _LINE)
    eta = share * cycles.edge(z, p)
    start = cycles.descend(1.35, eta, z, p, skip=20_000, keep=1)[0]
    return cycles.cycle(start, eta, z, p, period)


def _column(axes: Any, data: xr.Dataset, title: str) -> None:
    """Where descent ends, and below it the exponent; red where that is positive."""
    above, below = axes
    share, exponent = data.share.values, data.exponent.values
    chaotic = exponent - 2 * data.error.values > 0
    for chosen, colour in ((~chaotic, plotting.COLOURS[0]), (chaotic, plotting.COLOURS[1])):
        x = np.repeat(share[chosen], data.sizes["tail"])
        above.plot(x, data.tail_loss.values[chosen].ravel(), ".", ms=0.9, mew=0, color=colour, rasterized=True)  # fmt: skip
        label = "chaotic: a positive exponent" if colour == plotting.COLOURS[1] else "not chaotic"
        above.plot([], [], "o", ms=3, color=colour, label=label)
    above.set(yscale="log", title=title)
    above.legend(loc="upper left")
    plotting.log_ticks(above.yaxis)
    _edge(above)
    below.axhline(0, color="0.6", lw=0.8)
    below.fill_between(share, exponent - 2 * data.error, exponent + 2 * data.error, color="0.8")
    below.plot(share, exponent, lw=0.7, color="0.2")
    below.plot(share[chaotic], exponent[chaotic], ".", ms=2, color=plotting.COLOURS[1])
    below.set(xlabel=r"learning rate over the edge $2/H_*$", ylim=(max(-1.0, np.nanmin(exponent) * 1.1), max(0.1, np.nanmax(exponent) * 1.15)))  # fmt: skip
    _edge(below)


def _edge(axes: Axes) -> None:
    axes.axvline(1.0, color="k", lw=0.8, ls=":")
