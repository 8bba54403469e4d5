"""Events of a run, found step by step: perfect accuracy, spikes, tokens forgotten and re-learnt."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from engram._precision import in_input_precision, nan_is_a_result
from engram._types import Array
from engram.dynamics import AbstractFold
from engram.memory import MemorySystem, error_rate, margins
from engram.particles import MarginSystem, ParticleSystem
from engram.particles import error_rate as particle_error
from engram.particles import margins as particle_margins
from engram.system import AbstractSystem

NEVER = -1  # inside the fold only: results say "not reached" by NaN
_KEPT = 8  # spikes kept in detail; all of them are counted


class Found(eqx.Module):
    """What is known so far. Steps are NEVER until they happen."""

    lowest: Float[Array, ""]  # running minimum of the loss
    previous: Float[Array, ""]  # the loss one step ago
    last_rise: Int[Array, ""]
    first_perfect: Int[Array, ""]
    last_imperfect: Int[Array, ""]
    in_spike: Bool[Array, ""]
    num_spikes: Int[Array, ""]
    spike_start: Int[Array, " K"]
    spike_step: Int[Array, " K"]
    spike_end: Int[Array, " K"]
    spike_height: Float[Array, " K"]
    highest: Float[Array, ""]  # of all spikes, also those that are not kept
    highest_step: Int[Array, ""]
    was_right: Bool[Array, " N"]
    num_forgotten: Int[Array, " N"]
    first_forgotten: Int[Array, " N"]
    last_forgotten: Int[Array, " N"]
    last_relearnt: Int[Array, " N"]


class Watched(eqx.Module):
    """A stretch of steps in which the loss only fell and no token changed sides, or not."""

    quiet: Bool[Array, ""]
    loss: Float[Array, ""]
    right: Bool[Array, " N"]
    perfect: Bool[Array, ""]


SPIKE_FACTOR = 1.1  # a loss this many times above its running minimum is a spike


class Events(AbstractFold):
    """Finds events at every step, whatever is recorded.

    A spike is an excursion of the loss above `spike_factor` times its running minimum, from where
    it leaves to where it returns; its height is its peak over that minimum. A token is forgotten
    when its margin falls from above zero to zero or below, and re-learnt when it rises again.
    """

    spike_factor: Any = SPIKE_FACTOR

    def init(self, system: AbstractSystem, state: PyTree) -> Found:
        law = jnp.asarray(system.law)
        return self.nothing(law.shape[0], law.dtype)

    def nothing(self, N: int, dtype: Any) -> Found:
        """What is known of N tokens before anything has happened."""
        never = jnp.full((), NEVER, int)
        many, tokens = jnp.full(_KEPT, NEVER, int), jnp.full(N, NEVER, int)
        return Found(
            lowest=jnp.full((), jnp.inf, dtype),
            previous=jnp.full((), jnp.inf, dtype),
            last_rise=never,
            first_perfect=never,
            last_imperfect=never,
            in_spike=jnp.array(False),
            num_spikes=jnp.zeros((), int),
            spike_start=many,
            spike_step=many,
            spike_end=many,
            spike_height=jnp.full(_KEPT, jnp.nan, dtype),
            highest=jnp.zeros((), dtype),
            highest_step=never,
            was_right=jnp.zeros(N, bool),
            num_forgotten=jnp.zeros(N, int),
            first_forgotten=tokens,
            last_forgotten=tokens,
            last_relearnt=tokens,
        )

    def update(self, folded: Found, index: Array, system: AbstractSystem, state: PyTree) -> Found:
        loss, error, margin = measure(system, state)
        return self.take(folded, index, loss, error, margin)

    def watch(self, folded: Found, index: Array) -> Watched:
        # Before anything was seen, or within a spike, every step counts.
        quiet = jnp.isfinite(folded.previous) & ~folded.in_spike
        perfect = folded.last_imperfect < index - 1
        return Watched(quiet, folded.previous, folded.was_right, perfect)

    def see(self, watched: Watched, system: AbstractSystem, state: PyTree) -> Watched:
        loss, error, margin = measure(system, state)
        same = ((margin > 0) == watched.right).all() & ((error == 0) == watched.perfect)
        quiet = watched.quiet & (loss <= watched.loss) & same
        return Watched(quiet, loss, watched.right, watched.perfect)

    def is_quiet(self, watched: Watched) -> Bool[Array, ""]:
        return watched.quiet

    def skip(self, folded: Found, watched: Watched, index: Array) -> Found:
        return eqx.tree_at(
            lambda f: (f.lowest, f.previous, f.last_imperfect),
            folded,
            (
                jnp.minimum(folded.lowest, watched.loss),
                watched.loss,
                jnp.where(watched.perfect, folded.last_imperfect, index),
            ),
        )

    def take(self, f: Found, t: Array, loss: Array, error: Array, margin: Array) -> Found:
        """Take in the loss, the error and the margins of step `t`."""
        perfect = error == 0
        above = loss > self.spike_factor * f.lowest
        starts, ends = above & ~f.in_spike, f.in_spike & ~above
        number = f.num_spikes + starts
        here = (jnp.arange(_KEPT) == number - 1) & above
        height = jnp.where(here, loss / f.lowest, -jnp.inf)
        taller = here & ~(height <= f.spike_height)
        record = above & (loss / f.lowest > f.highest)
        ended = (jnp.arange(_KEPT) == f.num_spikes - 1) & ends
        right = margin > 0
        lost = f.was_right & ~right
        regained = ~f.was_right & right & (f.num_forgotten > 0)
        return Found(
            lowest=jnp.minimum(f.lowest, loss),
            previous=loss,
            last_rise=jnp.where(loss > f.previous, t, f.last_rise),
            first_perfect=jnp.where((f.first_perfect == NEVER) & perfect, t, f.first_perfect),
            last_imperfect=jnp.where(perfect, f.last_imperfect, t),
            in_spike=above,
            num_spikes=number,
            spike_start=jnp.where(here & starts, t, f.spike_start),
            spike_step=jnp.where(taller, t, f.spike_step),
            spike_end=jnp.where(ended, t, f.spike_end),
            spike_height=jnp.where(taller, height, f.spike_height),
            highest=jnp.where(record, loss / f.lowest, f.highest),
            highest_step=jnp.where(record, t, f.highest_step),
            was_right=right,
            num_forgotten=f.num_forgotten + lost,
            first_forgotten=jnp.where(lost & (f.first_forgotten == NEVER), t, f.first_forgotten),
            last_forgotten=jnp.where(lost, t, f.last_forgotten),
            last_relearnt=jnp.where(regained, t, f.last_relearnt),
        )


@in_input_precision
def measure(system: AbstractSystem, state: PyTree) -> tuple[Any, Any, Array]:
    """Loss, 0-1 loss and margins of a state, whatever its space."""
    if isinstance(system, ParticleSystem):
        problem, w = system.problem, state.scores
        return system.loss(state), particle_error(problem, w), particle_margins(problem, w)
    if isinstance(system, MarginSystem):
        return system.loss(state), system.error(state), state.margins
    assert isinstance(system, MemorySystem)
    options = {"layer_norm": True} if system.layer_norm else {}
    problem = system.problem
    return (
        system.loss(state),
        error_rate(problem, state, **options),
        margins(problem, state, **options),
    )


def describe_events(found: Found, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Turn the fold into named variables; what did not happen is NaN, never the horizon."""
    step = lambda value: np.where(np.asarray(value) == NEVER, np.nan, value).astype(float)
    stays = int(found.last_imperfect) + 1
    kept = min(int(found.num_spikes), _KEPT)
    return {
        "first_perfect": ((), step(found.first_perfect)),
        "perfect_from": ((), float(stays) if stays <= last else np.nan),
        "last_rise": ((), step(found.last_rise)),
        "num_spikes": ((), int(found.num_spikes)),
        "spike_start": (("spike",), step(found.spike_start)[:kept]),
        "spike_step": (("spike",), step(found.spike_step)[:kept]),
        "spike_end": (("spike",), step(found.spike_end)[:kept]),
        "spike_height": (("spike",), np.asarray(found.spike_height)[:kept]),
        "highest_spike": ((), float(found.highest) if found.num_spikes else np.nan),
        "highest_spike_step": ((), step(found.highest_step)),
        "num_forgotten": (("token",), np.asarray(found.num_forgotten)),
        "first_forgotten": (("token",), step(found.first_forgotten)),
        "last_forgotten": (("token",), step(found.last_forgotten)),
        "last_relearnt": (("token",), step(found.last_relearnt)),
    }


@in_input_precision
@nan_is_a_result()
@eqx.filter_jit
def events_of_series(events: Events, loss: Array, error: Array, margin: Array) -> Found:
    """The events of a recorded series, counted in records: for flows, which have no steps."""
    first = events.nothing(np.shape(margin)[1], jnp.asarray(margin).dtype)
    rows = (jnp.arange(len(loss)), jnp.asarray(loss), jnp.asarray(error), jnp.asarray(margin))
    return jax.lax.scan(lambda f, row: (events.take(f, *row), None), first, rows)[0]
