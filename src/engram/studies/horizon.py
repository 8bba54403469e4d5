"""A budget of T steps: which learning rate is best, and when one in proportion to T beats small steps."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import bootstrap

from engram import memory, plotting
from engram._checks import InputError
from engram._precision import in_double
from engram.capacity import is_separable, max_margin
from engram.memory import MemorySystem
from engram.problem import Problem, on_sphere
from engram.studies._study import AbstractStudy, Row
from engram.studies._work import Work
from engram.theory import large_steps

_MOST_TRIED = 1000  # draws that are looked at for ones that can be recalled
_FEWEST = 3  # draws of which an interval is given
_LATE = 30  # η T over the squared max-margin norm, from which on limits are compared
_NOTHING = 1e-280  # a loss below is as good as zero: rates beyond cannot be told apart


def draws(count: int, seed: int, sizes: Mapping[str, int]) -> list[Problem]:
    """The first problems, from a seed on, of which every token can be recalled."""
    kept = []
    for each in range(seed, seed + _MOST_TRIED):
        problem = on_sphere(each, **sizes)
        if is_separable(problem):
            kept.append(problem)
        if len(kept) == count:
            return kept
    raise InputError(
        f"`num_tokens` must be small beside `dim`, got {sizes['num_tokens']} and {sizes['dim']}: of {_MOST_TRIED} "
        f"draws only {len(kept)} can be recalled. Take fewer tokens."
    )


@in_double
def losses(
    count: int, seed: int, sizes: Mapping[str, int], rates: list[float], horizons: list[int]
) -> xr.Dataset:
    """The loss after each number of steps, of descent from zero at each rate, for each draw."""
    problems = draws(count, seed, sizes)
    stack = lambda name: np.stack([np.asarray(getattr(each, name)) for each in problems])
    given = tuple(map(stack, ("inputs", "outputs", "probs", "labels")))

    def one(given: Any, eta: Any) -> Any:
        system = MemorySystem(Problem(*given))
        go = lambda W, n: jax.lax.fori_loop(0, n, lambda _, W: W - eta * system.grad(W), W)
        until = lambda W, n: ((later := go(W, n)), system.loss(later))
        start = jnp.zeros((given[1].shape[1], given[0].shape[1]))
        return jax.lax.scan(until, start, jnp.asarray(np.diff(horizons, prepend=0)))[1]

    over_rates = jax.vmap(one, in_axes=(None, 0))
    found = jax.jit(jax.vmap(over_rates, in_axes=(0, None)))(given, np.asarray(rates))
    zero = [float(memory.sharpness(each, each.zero_weights)) for each in problems]
    return xr.Dataset(
        {
            "loss": (("draw", "rate", "horizon"), np.asarray(found)),
            "edge": ("draw", 2 / np.asarray(zero)),
            "norm": ("draw", [_max_margin_norm(each) for each in problems]),
            "reach": ("draw", [float(large_steps.reach(each)) for each in problems]),
            "least_prob": ("draw", [float(each.probs.min()) for each in problems]),
        },
        {"rate": list(rates), "horizon": list(horizons)},
    )


def _max_margin_norm(problem: Problem) -> float:
    """The norm of the max-margin matrix whose least margin is 1."""
    W = np.asarray(max_margin(problem))
    return float(np.linalg.norm(W) / np.asarray(memory.margins(problem, W)).min())


@dataclasses.dataclass(frozen=True)
class Horizon(AbstractStudy):
    """The best learning rate for a budget of steps."""

    num_tokens: int = 12
    num_classes: int = 2
    dim: int = 8
    seed: int = 0
    draws: int = 16
    per_step: float = 1e-3
    lowest: float = 0.1
    highest: float = 1e6
    rates: int = 85
    longest: int = 16384
    horizons: int = 12

    title: ClassVar[str] = "A budget of steps: when large learning rates win"
    question: ClassVar[str] = (
        "Every token can be recalled, and there are T steps. Which learning rate leaves the smallest loss, and from "
        "which T on does one in proportion to T beat every rate that is stable at the start, below 2/λ?"
    )
    known: ClassVar[tuple[str, ...]] = (
        "With η in proportion to T the loss falls like 1/T², with any stable rate like 1/T "
        "(Wu, Bartlett, Telgarsky, Yu, arXiv 2402.15926, two classes; constants: claim J2b).",
        "As η grows without bound descent becomes the batch perceptron, which ends (claim J2c).",
    )
    open: ClassVar[tuple[str, ...]] = (
        "The best rate for budgets that are too short for the perceptron to end.",
        "More classes than two, where the sharpness at zero is not the largest there is.",
    )
    minutes: ClassVar[float] = 1
    tiny: ClassVar[Mapping[str, Any]] = {"draws": 3, "rates": 15, "longest": 1024, "horizons": 8}

    def budgets(self) -> np.ndarray:
        """The numbers of steps, evenly spaced in their logarithm."""
        return np.unique(np.geomspace(8, self.longest, self.horizons).round().astype(int))

    def __post_init__(self) -> None:
        if self.lowest >= self.highest:
            raise InputError(
                f"`lowest` must be below `highest`, got {self.lowest} and {self.highest}. Swap them."
            )

    def compute(self, work: Work) -> dict[str, xr.Dataset]:
        T = self.budgets()
        grid = np.geomspace(self.lowest, self.highest, self.rates)
        rates = np.concatenate([grid, self.per_step * T, 1.0 * T])
        sizes = {
            "num_tokens": self.num_tokens,
            "num_classes": self.num_classes,
            "dim": self.dim,
        }
        given = {"count": self.draws, "seed": self.seed, "sizes": sizes}
        data = work.keep("losses", losses, **given, rates=rates.tolist(), horizons=T.tolist())
        return {"losses": data}

    def _read(self, data: Mapping[str, xr.Dataset]) -> dict[str, Any]:
        """The losses of the grid, in proportion to T in two ways, and of the best rate below the edge."""
        here = data["losses"]
        L, T = here.loss.values, here.horizon.values
        grid, n = here.rate.values[: self.rates], len(T)
        on_grid = L[:, : self.rates]
        is_stable = grid[None, :] < here.edge.values[:, None]
        stable = np.where(is_stable[:, :, None], on_grid, np.inf).min(1)
        diagonal = lambda begin: np.stack([L[:, begin + k, k] for k in range(n)], axis=1)
        best = on_grid.argmin(1)
        unbounded = (best == len(grid) - 1) | (on_grid.min(1) < _NOTHING)
        return {
            "T": T,
            "stable": stable,
            "slow": diagonal(self.rates),
            "fast": diagonal(self.rates + n),
            "best": on_grid.min(1),
            "rate": np.where(unbounded, np.nan, grid[best]),
            "unbounded": unbounded,
            "edge": here.edge.values,
        }

    def compare(self, data: Mapping[str, xr.Dataset]) -> list[Row]:
        here, own = data["losses"], self._read(data)
        T, squared = own["T"], here.norm.values**2
        late = self.longest / 16 <= T
        rows = []
        limit = "arXiv 2402.15926; the error is that of a finite T"
        for name, what, known, sizes in (
            ("stable", "the best rate below 2/λ", 1.0, own["edge"] * T[late][0]),
            ("slow", f"η = {self.per_step:g} T", 2.0, self.per_step * T[late][0] ** 2),
        ):
            # Draws whose limit has begun where the fit does: η T well above the squared max-margin norm.
            easy = sizes > _LATE * squared
            if easy.sum() < _FEWEST:
                continue
            slopes = -np.polyfit(np.log(T[late]), np.log(own[name][easy][:, late]).T, 1)[0]
            quantity = f"exponent of the loss over T: {what}, in {easy.sum()} draws"
            rows.append(Row(quantity, float(slopes.mean()), *interval(slopes), known, 0.05, limit))
            if name == "slow":
                scaled = own[name][easy, -1] * self.per_step * T[-1] ** 2 / squared[easy]
                quantity = (
                    f"η T L over the squared max-margin norm at T = {T[-1]}, in {easy.sum()} draws"
                )
                source = "theory.large_steps, the limit; the error is that of a finite T"
                rows.append(
                    Row(quantity, float(scaled.mean()), *interval(scaled), 1.0, 0.05, source)
                )
        powers = [_power(T, rate) for rate in own["rate"]]
        known = np.array([each for each in powers if np.isfinite(each)])
        if len(known) >= _FEWEST:
            quantity = (
                f"exponent of the best rate over T, where there is one, in {len(known)} draws"
            )
            rows.append(Row(quantity, float(known.mean()), *interval(known)))
        return rows

    def findings(self, data: Mapping[str, xr.Dataset]) -> list[str]:
        here, own = data["losses"], self._read(data)
        T, count = own["T"], len(own["edge"])
        first = np.array([T[row.argmax()] for row in own["unbounded"] if row.any()])
        gain = own["stable"] / np.maximum(own["fast"], _NOTHING)
        bound = large_steps.perceptron_bound(here.reach.values, here.norm.values)
        bound = bound / here.least_prob.values
        out = [f"The best rate stays bounded in {count - len(first)} of {count} draws."]
        if len(first):
            out = [
                f"From some T on the larger the rate the better, up to {self.highest:g}, in {len(first)} of {count} "
                f"draws: from T = {np.median(first):.0f} in the median ({first.min()} to {first.max()}). The bound on "
                f"the perceptron's steps is {np.median(bound):.0f} in the median."
            ]
        before = own["rate"] / own["edge"][:, None]
        if np.isfinite(before).any():
            low, middle, high = np.nanquantile(before, (0.1, 0.5, 0.9))
            out.append(
                f"For shorter budgets the best rate is {middle:.2g} times 2/λ in the median, and {low:.2g} to "
                f"{high:.2g} times in four of five cases."
            )
        wins = gain > 1
        crossing = [T[row.argmax()] for row in wins if row.any()]
        begins = f", first at T = {np.median(crossing):.0f} in the median" if crossing else ""
        less = np.median(gain[:, -1])
        out.append(
            f"η = T beats the best rate below 2/λ in {len(crossing)} of {count} draws{begins}; at T = {T[-1]} it leaves "
            f"{'over 1e+20' if less > 1e20 else f'{less:.2g}'} times less in the median."
        )
        slow = np.median(own["stable"][:, -1] / own["slow"][:, -1])
        out.append(
            f"η = {self.per_step:g} T, {self.per_step * T[-1]:.3g} at most, leaves {slow:.2g} times less there."
        )
        return out

    def draw(self, data: Mapping[str, xr.Dataset]) -> Figure:
        own = self._read(data)
        T = own["T"]
        looks = {
            "stable": ("best rate below 2/λ", plotting.COLOURS[0]),
            "slow": (f"η = {self.per_step:g} T", plotting.COLOURS[4]),
            "fast": ("η = T", plotting.COLOURS[1]),
            "best": ("best of all rates", "k"),
        }
        with plotting.style():
            figure = plotting.new_figure(plotting.WIDE, 3.0)
            left, right = figure.subplots(1, 2)
            for name, (label, colour) in looks.items():
                shown = np.maximum(own[name], 1e-18)  # below the axis
                left.plot(T, shown.T, color=colour, lw=0.4, alpha=0.35)
                left.plot(T, np.median(shown, axis=0), color=colour, lw=1.6, label=label)
            left.set(xscale="log", yscale="log", xlabel="number of steps T", ylabel="loss after T steps",
                     ylim=(1e-12, 2), title="Loss at the horizon")  # fmt: skip
            figure.legend(loc="outside lower center", ncols=4)
            relative = np.where(own["unbounded"], np.nan, own["rate"] / own["edge"][:, None])
            right.plot(T, relative.T, ".-", ms=3, lw=0.6, color="0.4")
            right.axhline(1, color="k", lw=0.8, ls=":")
            share = right.twinx()
            share.bar(T, own["unbounded"].mean(0), width=0.35 * T, color=plotting.COLOURS[1], alpha=0.25)  # fmt: skip
            share.set(ylim=(0, 1), ylabel="share of draws without a best rate")
            right.set(xscale="log", yscale="log", xlabel="number of steps T", ylabel=r"best rate over $2/\lambda$",
                      title="Best learning rate, where there is one")  # fmt: skip
            return figure


def interval(values: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the mean over draws."""
    found = bootstrap((values,), np.mean, n_resamples=2000, rng=np.random.default_rng(0))
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _power(T: np.ndarray, rate: np.ndarray) -> float:
    """The exponent of the best rates over T; NaN for fewer than four of them."""
    at = np.isfinite(rate)
    return float(np.polyfit(np.log(T[at]), np.log(rate[at]), 1)[0]) if at.sum() > 3 else np.nan
