"""explain: for every spike in the loss, whose loss rose, who pushed them, and whether it was foreseen."""

import math
import os
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from engram._checks import InputError, check_count
from engram._precision import in_double
from engram.diagnosis._interference import describe, deviation
from engram.diagnosis._path_average import RecordFollower
from engram.diagnosis._pushes import Path, carried_at, follow, has_linear_scores
from engram.diagnosis._replay import check_events, check_moments, path_of
from engram.diagnosis._sentences import PUSHES, as_html, as_text, paragraphs, push_rows
from engram.dynamics import AbstractFlow, Carry, Curriculum, Descent, Status, moment_of
from engram.memory import MemorySystem
from engram.problem import Problem, show_name
from engram.special import largest_eigenpairs, normals
from engram.theory import spike as theory

MOST_SPIKES = 8
_BUMP = 1.5  # a learning rate that rises by this factor within a few steps is worth a word
_SHORT = 4  # steps before a spike in which such a rise counts as its cause


@dataclass(frozen=True)
class Side:
    """Tokens on one side of a question, most important first, with a number for each."""

    tokens: np.ndarray
    values: np.ndarray

    def top(self, count: int) -> list[tuple[int, float]]:
        pairs = zip(self.tokens.tolist(), self.values.tolist(), strict=True)
        return list(pairs)[:count]


@dataclass(frozen=True)
class Stability:
    """The curvature before a spike, against what the method bears.

    Args:
        sharpness: The largest eigenvalue of the Hessian, preconditioned where the method is.
        threshold: The sharpness beyond which the method is unstable on a quadratic; NaN if not known.
        direction: How the unstable direction moves the tokens' margins, the largest scaled to 1; None if
            there is none.
    """

    sharpness: float
    threshold: float
    direction: np.ndarray | None

    @property
    def is_crossed(self) -> bool:
        return self.sharpness > self.threshold


@dataclass(frozen=True)
class Spike:
    """One spike, explained.

    Args:
        first: The last step (or time) before the excursion.
        peak: Where the loss is highest.
        end: Where it has returned; NaN if it has not.
        height: The loss at the peak over the running minimum.
        loss_before: The loss at `first`.
        loss_peak: The loss at the peak.
        risen: Tokens whose losses rose, with their shares of the rise: p times the change, where positive.
        net: The change of the loss over the whole rise: 1 if no token's loss fell meanwhile.
        against: Sources that lowered the margins of the risen tokens (or raised those of `surer` ones), with
            how much, weighted by the shares.
        helping: Sources that did the opposite.
        surer: Of the risen tokens, those whose margins rose, too: their targets are noisy.
        pushes: The interference between the last step before and the peak, against the rivals at the peak.
        stability: The curvature before the spike; None for flows.
        rates: The learning rate before, and in, the spike, where it rose; else None.
        stages: Of a curriculum, its stages on the way to the peak, from one, and where each ends.
        foreseen: What theory says of it, in sentences.
    """

    first: float
    peak: float
    end: float
    height: float
    loss_before: float
    loss_peak: float
    risen: Side
    net: float
    against: Side
    helping: Side
    surer: frozenset[int]
    pushes: xr.Dataset
    stability: Stability | None
    rates: tuple[float, float] | None
    stages: tuple[tuple[int, int], ...]
    foreseen: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """What happened at the spikes of a run; printed, it says so in words.

    Args:
        spikes: Those explained, in the order of steps.
        num_spikes: How many there were.
        names: What the tokens are called.
        probs: How often they come.
        run: The run itself.
    """

    spikes: tuple[Spike, ...]
    num_spikes: int
    names: list[str]
    probs: np.ndarray
    run: xr.Dataset

    def __str__(self) -> str:
        return as_text(paragraphs(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(paragraphs(self), self.plot(self.highest) if self.spikes else None)

    @property
    def highest(self) -> int:
        """The place of the highest spike among those explained."""
        return int(np.argmax([spike.height for spike in self.spikes])) if self.spikes else 0

    def plot(self, spike: int = 0) -> Any:
        """The loss, the margins of those concerned, and the pushes, as a Figure."""
        from engram.diagnosis._pictures import draw_spike

        return draw_spike(self, spike)

    def graph(self, spike: int = 0) -> Any:
        """The strongest pushes of a spike as arrows, as a Figure."""
        from engram.diagnosis._pictures import draw_graph

        if not self.spikes:
            raise InputError("there was no spike to draw.")
        return draw_graph(self.spikes[spike].pushes)

    def write_page(self, path: str | os.PathLike[str], title: str) -> None:
        """Write all of it to a file, FILE.html, with nothing outside it."""
        from engram._pages import Section, write_page

        head, *rest = paragraphs(self)
        sections = [
            Section(
                f"The spike at {spike.peak:g}",
                sentences,
                self.plot(k),
                PUSHES,
                push_rows(self, spike),
            )
            for k, (spike, sentences) in enumerate(zip(self.spikes, rest, strict=True))
        ]
        write_page(path, title, " ".join(head), sections)

    def table(self) -> xr.Dataset:
        """One row per spike and token: share of the rise, and how it pushed those who rose."""
        if not self.spikes:
            raise InputError("there was no spike, so there is no table of them.")
        count = len(self.names)
        spread = lambda side: np.bincount(side.tokens, side.values, minlength=count)
        columns = {
            "share": [spread(each.risen) for each in self.spikes],
            "push": [spread(each.against) + spread(each.helping) for each in self.spikes],
        }
        first = self.spikes[0].pushes
        values: dict[str, Any] = {
            name: (("spike", "token"), np.asarray(rows)) for name, rows in columns.items()
        }
        for name in ("first", "peak", "end", "height", "loss_before", "loss_peak", "net"):
            values[name] = ("spike", np.asarray([getattr(each, name) for each in self.spikes]))
        known = [each.stability for each in self.spikes]
        for name in ("sharpness", "threshold"):
            numbers = [math.nan if each is None else getattr(each, name) for each in known]
            values[name] = ("spike", np.asarray(numbers))
        return xr.Dataset(values, {"token": first["token"]}, {"kind": "explanation"})


@in_double
def explain(
    run: xr.Dataset | Problem | Any,
    dynamics: Any = None,
    *,
    most: int = MOST_SPIKES,
    start: Any = None,
    key: Any = None,
) -> Explanation:
    """Say of each spike in the loss whose loss rose, who pushed them, and whether it was to be expected.

    From the last step before the loss left its running minimum to the peak: the tokens whose losses rose,
    by their shares of the rise; the sources that lowered their margins and those that raised them; the
    sharpness before, against the threshold of the method, and which tokens the unstable direction moves; the
    learning rate, where it rose; what theory says of it.

    Args:
        run: What `simulate` returned, with its events, or a recording. Or a problem or system, with
            `dynamics`, `start` and `key` as for `simulate`.
        dynamics: How a problem or system moves.
        most: Explain so many of the highest spikes.
        start: Where a problem or system starts.
        key: The random numbers of a problem or system.
    """
    most = check_count("most", most)
    if not isinstance(run, xr.Dataset):
        from engram.simulation import simulate

        record = ("loss", "error", "margins")
        run = simulate(run, dynamics, start=start, key=key, record=record)
    check_events(run, "spike_step")
    path = path_of(run)
    check_moments(run, path)
    heights = run["spike_height"].values
    chosen = np.sort(np.argsort(-heights, kind="stable")[:most])
    follower, moments = follow(path), _Moments(path, run)
    spikes = []
    for k in chosen:
        first, peak = moments.before(float(run["spike_start"][k])), float(run["spike_step"][k])
        pushes = describe(path.system, follower.between(first, peak, "last"), (first, peak))
        pushes.attrs["deviation"] = deviation(run, pushes)
        spikes.append(_explain_one(path, run, pushes, int(k), first, peak))
    names = [show_name(str(label)) for label in run["token"].values]
    total = int(run["num_spikes"]) if "num_spikes" in run else len(heights)
    return Explanation(tuple(spikes), total, names, run["probs"].values, run)


class _Moments:
    """The last moment before another: a step, or the recorded time before."""

    def __init__(self, path: Path, run: xr.Dataset):
        dynamics = path.dynamics
        self.times = None
        if isinstance(dynamics, AbstractFlow):
            self.times = run["time"].values
        elif isinstance(dynamics, RecordFollower):
            self.times = dynamics.steps
        elif dynamics.counts_time:
            self.times = dynamics.time_at(np.arange(dynamics.num_steps + 1))

    def before(self, moment: float) -> float:
        if self.times is None:
            return moment - 1
        return float(self.times[max(np.searchsorted(self.times, moment * (1 - 1e-12)) - 1, 0)])


def _explain_one(
    path: Path, run: xr.Dataset, pushes: xr.Dataset, k: int, first: float, peak: float
) -> Spike:
    p = pushes["probs"].values
    change = p * (pushes["loss_after"].values - pushes["loss_before"].values)
    rise = np.maximum(change, 0)
    share = rise / rise.sum() if rise.any() else rise
    problem = getattr(path.system, "problem", None)
    is_surer = (share > 0) & _rose(pushes) & (problem is not None and problem.is_noisy)
    pull = np.where(is_surer, -share, share) @ pushes["push"].values
    stability, foreseen = _reasons(path, first)
    return Spike(
        first=first,
        peak=peak,
        end=float(run["spike_end"][k]),
        height=float(run["spike_height"][k]),
        loss_before=float(p @ pushes["loss_before"].values),
        loss_peak=float(p @ pushes["loss_after"].values),
        risen=_side(share, share > 0),
        net=float(change.sum() / rise.sum()) if rise.any() else math.nan,
        against=_side(pull, pull < 0),
        helping=_side(pull, pull > 0),
        surer=frozenset(np.flatnonzero(is_surer).tolist()),
        pushes=pushes,
        stability=stability,
        rates=_bump(path.dynamics, run, int(first), int(peak)),
        stages=_stages(path.dynamics, first, peak),
        foreseen=foreseen,
    )


def _rose(pushes: xr.Dataset) -> np.ndarray:
    """Whose margins against the strongest rivals of the end rose."""
    return (pushes["change"] - pushes["rival"]).values > 0


def _reasons(path: Path, first: float) -> tuple[Stability | None, tuple[str, ...]]:
    """The curvature before a spike, and what theory says of it."""
    dynamics = path.dynamics
    if isinstance(dynamics, Descent):
        return _stability(path, int(first)), _foreseen(path, first)
    if not isinstance(dynamics, RecordFollower):
        return None, ()
    stability = Stability(dynamics.sharpness(first), math.nan, None)
    rate = dynamics.learning_rate(first)
    if not rate > 0:
        return stability, ()
    return stability, (
        f"At the recorded learning rate of {rate:.4g}, plain gradient descent would be unstable above a "
        f"sharpness of {2 / rate:.4g}.",
    )


def _side(values: np.ndarray, chosen: np.ndarray) -> Side:
    tokens = np.flatnonzero(chosen)
    tokens = tokens[np.argsort(-np.abs(values[tokens]), kind="stable")]
    return Side(tokens, values[tokens])


@eqx.filter_jit
def _curvature(path: Path, inner: Any, index: Any) -> tuple[Any, Any, Any]:
    """The sharpness, the threshold, and how the sharpest direction moves the margins."""
    system, dynamics = path.system, path.dynamics
    carry = Carry(index, inner, None, jnp.asarray(int(Status.RUNNING)))
    moment = moment_of(system, dynamics, carry, path.key)
    threshold = jnp.asarray(dynamics.threshold(index), float)
    preconditioner, state = dynamics.preconditioner(inner), moment.state
    if preconditioner is not None:
        # Adam and its kin: the Hessian seen in the coordinates in which their steps are plain.
        root, metric = jax.tree.map(jnp.sqrt, preconditioner), None
    else:
        if has_linear_scores(system):  # where directions are those of W, whatever the space
            state, system = system.weights(state), MemorySystem(system.problem)  # pyright: ignore
        root, metric = jax.tree.map(jnp.ones_like, state), system.inner
    divided = lambda v: jax.tree.map(jnp.divide, v, root)
    start = jax.tree.map(lambda x: normals(0, x.shape, x.dtype), state)
    hessian = lambda v: divided(system.hvp(state, divided(v)))
    pairs = largest_eigenpairs(hessian, start, inner=metric)
    along = divided(jax.tree.map(lambda x: x[0], pairs.vector))
    margins = lambda state: system.look(state).margins
    return pairs.value[0], threshold, jax.jvp(margins, (state,), (along,))[1]


def _stability(path: Path, first: int) -> Stability:
    carried = carried_at(path, first)
    sharpness, threshold, moved = jax.device_get(_curvature(path, carried, jnp.asarray(first)))
    largest = moved[np.abs(moved).argmax()]
    has_direction = np.isfinite(largest) and largest != 0
    return Stability(float(sharpness), float(threshold), moved / largest if has_direction else None)


def _bump(dynamics: Any, run: xr.Dataset, first: int, peak: int) -> tuple[float, float] | None:
    """The learning rate before, and the largest in the spike or shortly before it, where that is larger."""
    if isinstance(dynamics, Descent):
        rates = np.asarray(dynamics.learning_rate)
    elif isinstance(dynamics, RecordFollower) and "learning_rate" in run:
        rates = run["learning_rate"].values
        first, peak = np.searchsorted(dynamics.steps, (first, peak)).tolist()
    else:
        return None
    if rates.ndim == 0:
        return None
    begin = max(first - _SHORT, 0)
    largest, before = rates[begin : max(peak, begin + 1)].max(), rates[begin]
    return (float(before), float(largest)) if largest > _BUMP * before else None


def _stages(dynamics: Any, first: float, peak: float) -> tuple[tuple[int, int], ...]:
    """The stages of a curriculum between two steps, and the step at which each ends."""
    sampling = dynamics.sampling if isinstance(dynamics, Descent) else None
    if not isinstance(sampling, Curriculum):
        return ()
    ends = np.append(sampling.ends[:-1], dynamics.num_steps).astype(int).tolist()
    starts = [0, *ends[:-1]]
    stages = enumerate(zip(starts, ends, strict=True), start=1)
    return tuple((k, end) for k, (start, end) in stages if start < peak and end > first)


def _foreseen(path: Path, first: float) -> tuple[str, ...]:
    """What the theory of the first step says, where it is about this spike."""
    problem, dynamics = path.system.problem, path.dynamics  # pyright: ignore
    rates = np.asarray(dynamics.learning_rate)
    rate = float(rates if rates.ndim == 0 else rates[0])
    is_first = first == 0 and dynamics.optimizer.is_plain and not dynamics.sampling.needs_key
    if not is_first or problem.is_noisy or math.isnan(rate):
        return ()
    if np.abs(path.system.weights(path.state)).max() > 0:
        return ()
    threshold = float(theory.spike_threshold(problem))
    if rate > threshold:
        return (
            f"The first step from zero raises the loss if the learning rate is above {threshold:.4g}; it was "
            f"{rate:.4g}.",
        )
    return ()
