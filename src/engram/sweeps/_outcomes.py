"""What a sweep measures of each cell: events found step by step, and how the last steps end."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from engram.observables import Events, Folds
from engram.registry import entries, make

OUTCOMES = entries("outcome")
CLASSES = ("fixed point", "cycle", "growing", "aperiodic", "not finite")
NEEDS_TAIL = frozenset({"convergence", "period", "tail_loss"})
TAIL = 64  # last steps looked at: the longest period that can be recognised
CLOSE = 1e-8  # how closely a state must return, relative to its size, to count as the same
_OF_THE_LOSS = ("max_loss", "spike_height")  # NaN for a run that diverged


def folds_for(wanted: Collection[str], events: Mapping[str, Any], spike_factor: Any) -> Folds:
    """What must be folded for these outcomes and events: parts that nobody asks for are not computed."""
    asked = {OUTCOMES[name].about["part"] for name in wanted if name in OUTCOMES}
    parts = tuple(part for part in Events().parts if part in asked)
    own = (Events(spike_factor, parts=parts, capacity=0),) if parts else ()
    return Folds((*own, *(make("event", events[name]).for_lanes() for name in sorted(events))))


def endings(system: Any, state: Any, tail: Any, wanted: Collection[str]) -> dict[str, Any]:
    """How the run ends, of all that is asked for; and the loss in any case."""
    look = system.look(state)
    seen = lambda name: system.shown(look, name)
    likeliest = lambda: seen("margins")[jnp.argmax(jnp.asarray(system.problem.probs))]
    finite = jnp.isfinite(sum(leaf.sum() for leaf in jax.tree.leaves(state)))
    known = lambda value: jnp.where(finite, value, jnp.nan)  # NaN if it has diverged
    computed: dict[str, Any] = {
        "final_loss": lambda: known(look.loss),
        "final_error": lambda: known(seen("error")),
        "final_margins": lambda: known(seen("margins")),
        "likeliest_margin": lambda: known(likeliest()),
        "likeliest_forgotten": lambda: known(likeliest() <= 0),
        "convergence": lambda: convergence(tail, system.is_bounded)[0],
        "period": lambda: convergence(tail, system.is_bounded)[1],
        "tail_loss": lambda: tail.loss[-TAIL:],
    }
    names = {*wanted, "final_loss"}
    return {name: compute() for name, compute in computed.items() if name in names}


def results(
    fold: Folds, folded: Any, ends: Mapping[str, Any], last: int, wanted: Collection[str]
) -> dict[str, np.ndarray]:
    """Everything asked for, by name, with a row for each cell; on the host."""
    values = {name: value for name, (_, value) in fold.describe_all(folded, last).items()}
    values |= {name: np.asarray(value) for name, value in ends.items()}
    diverged = np.isnan(values["final_loss"])
    for name in wanted & OUTCOMES.keys():
        values[name] = values[OUTCOMES[name].about.get("variable", name)]
        if name in _OF_THE_LOSS:
            values[name] = np.where(diverged, np.nan, values[name])
    return values


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
