"""What a sweep can measure of each cell: events found step by step, and what the last steps tell."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from engram.observables import Events, Folds
from engram.registry import entries, make


class About(NamedTuple):
    """What an observable means; which axes it has besides the sweep's; where it comes from.

    Args:
        meaning: In words.
        symbol: In letters.
        axes: Besides those of the sweep.
        part: Of `Events`, if that finds it.
        variable: What `Events` calls it, if otherwise.
    """

    meaning: str
    symbol: str = ""
    axes: tuple[str, ...] = ()
    part: str = ""
    variable: str = ""


def _of_losses(meaning: str, symbol: str = "", variable: str = "") -> About:
    return About(meaning, symbol, part="losses", variable=variable)


def _of_tokens(meaning: str, symbol: str = "") -> About:
    return About(meaning, symbol, ("token",), part="tokens")


OBSERVABLES = {
    "first_perfect": About("first step without error; NaN if not reached", "t", part="accuracy"),
    "perfect_from": About("step from which there is no error any more; NaN if none", "t", part="accuracy"),
    "final_loss": About("loss after the last step", "L(W_T)"),
    "final_error": About("0-1 loss after the last step", "L_01(W_T)"),
    "final_margins": About("margins after the last step", "m_T(x)", ("token",)),
    "likeliest_margin": About("margin of the most frequent token after the last step", "m_T"),
    "likeliest_forgotten": About("1 if the most frequent token is not recalled after the last step, else 0"),
    "max_loss": _of_losses("largest loss of the run", "max L"),
    "spike_height": _of_losses(
        "largest loss over the running minimum before it; 1 if it never rose", variable="highest_rise"
    ),
    "num_spikes": _of_losses("excursions of the loss above 1.1 times its running minimum"),
    "num_peaks": About("maxima of the loss between a rise and a fall by 1.1", part="peaks"),
    "last_rise": _of_losses("last step at which the loss rose; NaN if it never did", "t"),
    "first_learnt": _of_tokens("first step at which each token's margin was above zero; NaN if never", "t"),
    "num_forgotten": _of_tokens("how often each token was forgotten"),
    "convergence": About("how the run ends, by its last steps", ""),
    "period": About("period of the cycle it ends in, 1 at a fixed point; NaN if none", "k"),
    "tail_loss": About("the loss at the last steps", "L(W_t)", ("tail",)),
}  # fmt: skip
CLASSES = ("fixed point", "cycle", "growing", "aperiodic", "not finite")
NEEDS_TAIL = frozenset({"convergence", "period", "tail_loss"})
TAIL = 64  # last steps looked at: the longest period that is told apart
CLOSE = 1e-8  # how closely a state must return, relative to its size, to count as the same


_OF_THE_LOSS = ("max_loss", "spike_height")  # NaN for a run that diverged


def fold_for(wanted: frozenset[str], spike_factor: float) -> Folds:
    """What must be folded for these observables and events: parts that nobody asks for are not computed."""
    asked = {OBSERVABLES[name].part for name in wanted if name in OBSERVABLES} - {""}
    parts = tuple(part for part in Events().parts if part in asked)
    own = (Events(np.asarray(spike_factor), parts=parts, capacity=0),) if parts else ()
    named = [name for name in sorted(wanted & entries("event").keys()) if name not in OBSERVABLES]
    return Folds((*own, *(make("event", name).for_lanes() for name in named)))


def endings(system: Any, state: Any, tail: Any, wanted: frozenset[str]) -> dict[str, Any]:
    """What the last steps tell, of all that is asked for; and the loss in any case."""
    look = system.look(state)
    seen = lambda name: system.shown(look, name)
    likeliest = lambda: seen("margins")[jnp.argmax(jnp.asarray(system.problem.probs))]
    finite = jnp.isfinite(sum(leaf.sum() for leaf in jax.tree.leaves(state)))
    known = lambda value: jnp.where(finite, value, jnp.nan)  # NaN if it has diverged
    found: dict[str, Any] = {
        "final_loss": lambda: known(look.loss),
        "final_error": lambda: known(seen("error")),
        "final_margins": lambda: known(seen("margins")),
        "likeliest_margin": lambda: known(likeliest()),
        "likeliest_forgotten": lambda: known(likeliest() <= 0),
        "convergence": lambda: convergence(tail, system.is_bounded)[0],
        "period": lambda: convergence(tail, system.is_bounded)[1],
        "tail_loss": lambda: tail.loss[-TAIL:],
    }
    return {name: found[name]() for name in found if name in wanted | {"final_loss"}}


def results(
    fold: Folds, folded: Any, ends: dict[str, Any], points: int, wanted: frozenset[str]
) -> dict[str, np.ndarray]:
    """Everything asked for, by name, with a row for each cell; on the host."""
    events = {name: value for name, (_, value) in fold.describe_all(folded, points - 1).items()}
    found = events | {name: np.asarray(value) for name, value in ends.items()}
    diverged = np.isnan(found["final_loss"])
    for name in wanted & OBSERVABLES.keys():
        found[name] = found[OBSERVABLES[name].variable or name]
        if name in _OF_THE_LOSS:
            found[name] = np.where(diverged, np.nan, found[name])
    return found


class Tail(NamedTuple):
    """The last 2 TAIL + 1 steps of a run."""

    states: Any  # (2 TAIL + 1, K): scores or margins
    least: Any  # the smallest margin
    loss: Any


def glance(system: Any, state: Any) -> Tail:
    """One step of the tail."""
    look = system.look(state)
    return Tail(system.outline(state), system.shown(look, "margins").min(), look.loss)


def convergence(tail: Tail, is_bounded: bool) -> tuple[Any, Any]:
    """How a run ends: a code of `CLASSES`, and the period of a cycle (1 at a fixed point), else NaN.

    A period k must bring every state of the last TAIL steps back to the one k steps before, within `CLOSE`
    of its size. A run whose margins are all positive, and whose smallest still grows while the loss falls,
    is growing: it slows down for ever, and would look like a fixed point. Any other is aperiodic as far
    as the window tells. With layer norm scores are bounded: what returns is settled, though a margin may
    still rise within `CLOSE`.
    """
    w = tail.states
    size = jnp.maximum(jnp.abs(w).max(), 1.0)
    before = lambda k: jax.lax.dynamic_slice_in_dim(w, TAIL + 1 - k, TAIL)
    # One k after another: as 64 slices side by side it takes twenty times as long to compile.
    away = jax.lax.map(lambda k: jnp.abs(w[-TAIL:] - before(k)).max(), jnp.arange(1, TAIL + 1))
    returns = away <= CLOSE * size
    period = jnp.argmax(returns) + 1
    grows = (tail.least[-1] > tail.least[0]) & (tail.least[-1] > 0) & (tail.loss[-1] < tail.loss[0])
    settled, finite = returns.any() & (is_bounded | ~grows), jnp.isfinite(w).all()
    code = jnp.where(settled, jnp.where(period == 1, 0, 1), jnp.where(grows, 2, 3))
    return jnp.where(finite, code, 4), jnp.where(settled & finite, period.astype(float), jnp.nan)
