"""What a sweep can measure of each cell, taken in step by step or from the last ones."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from engram.observables import NEVER, SPIKE_FACTOR


class About(NamedTuple):
    """What an observable means; which axes it has besides the sweep's."""

    meaning: str
    symbol: str = ""
    axes: tuple[str, ...] = ()


OBSERVABLES = {
    "first_perfect": About("first step without error; NaN if not reached", "t"),
    "perfect_from": About("step from which there is no error any more; NaN if none", "t"),
    "final_loss": About("loss after the last step", "L(W_T)"),
    "final_error": About("0-1 loss after the last step", "L_01(W_T)"),
    "final_margins": About("margins after the last step", "m_T(x)", ("token",)),
    "likeliest_margin": About("margin of the most frequent token after the last step", "m_T"),
    "likeliest_forgotten": About("1 if the most frequent token is not recalled after the last step, else 0"),
    "max_loss": About("largest loss of the run", "max L"),
    "spike_height": About("largest loss over the running minimum before it; 1 if it never rose", ""),
    "num_spikes": About("excursions of the loss above 1.1 times its running minimum", ""),
    "last_rise": About("last step at which the loss rose; NaN if it never did", "t"),
    "convergence": About("how the run ends, by its last steps", ""),
    "period": About("period of the cycle it ends in, 1 at a fixed point; NaN if none", "k"),
    "tail_loss": About("the loss at the last steps", "L(W_t)", ("tail",)),
}  # fmt: skip
CLASSES = ("fixed point", "cycle", "growing", "aperiodic", "not finite")
NEEDS_TAIL = frozenset({"convergence", "period", "tail_loss"})
TAIL = 64  # last steps looked at: the longest period that is told apart
CLOSE = 1e-8  # how closely a state must return, relative to its size, to count as the same


class Folded(NamedTuple):
    """What is known of a cell so far."""

    first_perfect: Any
    last_wrong: Any
    lowest: Any
    previous: Any
    last_rise: Any
    max_loss: Any
    height: Any
    in_spike: Any
    num_spikes: Any


def nothing() -> Folded:
    """Before the first step."""
    never, zero = jnp.full((), NEVER, int), jnp.zeros((), int)
    inf = jnp.full((), jnp.inf)
    one = jnp.ones(())
    return Folded(never, never, inf, inf, never, -inf, one, jnp.zeros((), bool), zero)


def take(folded: Folded, t: Any, system: Any, state: Any, wanted: frozenset[str]) -> Folded:
    """Take in the state at step `t`; what nobody asks for is not computed."""
    changes: dict[str, Any] = {}
    if wanted & {"first_perfect", "perfect_from"}:
        wrong = system.look(state).error > 0
        first = folded.first_perfect
        changes["first_perfect"] = jnp.where((first == NEVER) & ~wrong, t, first)
        changes["last_wrong"] = jnp.where(wrong, t, folded.last_wrong)
    if wanted & {"max_loss", "spike_height", "num_spikes", "last_rise"}:
        loss = system.loss(state)
        above = loss > SPIKE_FACTOR * folded.lowest
        changes |= {
            "last_rise": jnp.where(loss > folded.previous, t, folded.last_rise),
            "max_loss": jnp.maximum(folded.max_loss, loss),
            # Once the loss has underflowed to zero there is no height over it.
            "height": jnp.maximum(
                folded.height, jnp.where((t > 0) & (folded.lowest > 0), loss / folded.lowest, 1.0)
            ),
            "num_spikes": folded.num_spikes + (above & ~folded.in_spike),
            "in_spike": above,
            "lowest": jnp.minimum(folded.lowest, loss),
            "previous": loss,
        }
    return folded._replace(**changes)


def results(
    folded: Folded, points: int, system: Any, state: Any, tail: Any, wanted: frozenset[str]
) -> dict[str, Any]:
    """Everything asked for, once the last step has been taken in."""
    reached = lambda t: jnp.where(t == NEVER, jnp.nan, t)
    look = system.look(state)
    loss, error, margins = look.loss, look.error, look.margins
    likeliest = margins[jnp.argmax(jnp.asarray(system.problem.probs))]
    finite = jnp.isfinite(sum(leaf.sum() for leaf in jax.tree.leaves(state)))
    known = lambda value: jnp.where(finite, value, jnp.nan)  # NaN if it has diverged
    kept = folded.last_wrong + 1
    found: dict[str, Any] = {
        "first_perfect": lambda: reached(folded.first_perfect),
        "perfect_from": lambda: jnp.where(kept >= points, jnp.nan, kept),
        "final_loss": lambda: known(loss),
        "final_error": lambda: known(error),
        "final_margins": lambda: known(margins),
        "likeliest_margin": lambda: known(likeliest),
        "likeliest_forgotten": lambda: known(likeliest <= 0),
        "max_loss": lambda: folded.max_loss,
        "spike_height": lambda: folded.height,
        "num_spikes": lambda: folded.num_spikes.astype(float),
        "last_rise": lambda: reached(folded.last_rise),
        "convergence": lambda: convergence(tail, system.is_bounded)[0],
        "period": lambda: convergence(tail, system.is_bounded)[1],
        "tail_loss": lambda: tail.loss[-TAIL:],
    }
    return {name: found[name]() for name in sorted(wanted)}


class Tail(NamedTuple):
    """The last 2 TAIL + 1 steps of a run."""

    states: Any  # (2 TAIL + 1, K): scores or margins
    least: Any  # the smallest margin
    loss: Any


def glance(system: Any, state: Any) -> Tail:
    """One step of the tail."""
    look = system.look(state)
    return Tail(system.outline(state), look.margins.min(), look.loss)


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
