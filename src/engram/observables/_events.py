"""Events of a run, found step by step: perfect accuracy, spikes, tokens forgotten and re-learnt."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from engram._precision import in_input_precision, nan_is_a_result
from engram._types import Array
from engram.dynamics import AbstractFold, Moment
from engram.system import AbstractSystem, Look

NEVER = -1  # inside the fold only: results say "not reached" by NaN
_KEPT = 8  # spikes kept in detail; all of them are counted


class Found(eqx.Module):
    """What is known so far. Steps are NEVER until they happen.

    In few arrays, since XLA compiles a kernel for each array that a loop carries, and for each use of it.
    """

    losses: Float[Array, "3"]  # running minimum; one step ago; the highest spike, over its minimum
    steps: Int[Array, "4"]  # last rise, first perfect, last imperfect, peak of the highest spike
    spiking: Int[Array, "2"]  # whether in a spike; how many there were
    spikes: Int[Array, "3 K"]  # start, peak and end of those kept
    heights: Float[Array, " K"]
    tokens: Int[
        Array, "5 N"
    ]  # right or not; times forgotten; first, last forgotten; last re-learnt

    @property
    def last_rise(self) -> Any:
        return self.steps[0]

    @property
    def last_imperfect(self) -> Any:
        return self.steps[2]

    @property
    def num_spikes(self) -> Any:
        return self.spiking[1]


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
        loss, _, margins = _numbers(system.look(state))
        return self.nothing(len(margins), loss.dtype)

    def nothing(self, N: int, dtype: Any) -> Found:
        """What is known of N tokens before anything has happened."""
        return Found(
            losses=jnp.array([jnp.inf, jnp.inf, 0.0], dtype),
            steps=jnp.full(4, NEVER, int),
            spiking=jnp.zeros(2, int),
            spikes=jnp.full((3, _KEPT), NEVER, int),
            heights=jnp.full(_KEPT, jnp.nan, dtype),
            tokens=jnp.full((5, N), NEVER, int).at[:2].set(0),
        )

    def update(self, folded: Found, index: Array, moment: Moment) -> Found:
        loss, error, margin = _numbers(moment.look)
        return self.take(folded, index, loss, error, margin)

    @property
    def can_glide(self) -> bool:
        return True

    def watch(self, folded: Found, index: Array) -> Watched:
        # Before anything was seen, or within a spike, every step counts.
        previous = folded.losses[1]
        quiet = jnp.isfinite(previous) & (folded.spiking[0] == 0)
        perfect = folded.last_imperfect < index - 1
        return Watched(quiet, previous, folded.tokens[0] > 0, perfect)

    def see(self, watched: Watched, moment: Moment) -> Watched:
        loss, error, margin = _numbers(moment.look)
        same = ((margin > 0) == watched.right).all() & ((error == 0) == watched.perfect)
        quiet = watched.quiet & (loss <= watched.loss) & same
        return Watched(quiet, loss, watched.right, watched.perfect)

    def is_quiet(self, watched: Watched) -> Bool[Array, ""]:
        return watched.quiet

    def skip(self, folded: Found, watched: Watched, index: Array) -> Found:
        lowest = jnp.minimum(folded.losses[0], watched.loss)
        last = jnp.where(watched.perfect, folded.last_imperfect, index)
        return eqx.tree_at(
            lambda f: (f.losses, f.steps),
            folded,
            (
                jnp.asarray(folded.losses).at[:2].set(jnp.stack([lowest, watched.loss])),
                jnp.asarray(folded.steps).at[2].set(last),
            ),
        )

    def describe(self, folded: Found, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Turn the fold into named variables; what did not happen is NaN, never the horizon.

        Of a system without margins nothing is said of single tokens.
        """
        step = lambda value: np.where(np.asarray(value) == NEVER, np.nan, value).astype(float)
        last_rise, first_perfect, last_imperfect, highest_step = np.asarray(folded.steps)
        start, peak, end = step(folded.spikes)
        num_spikes, stays = int(folded.num_spikes), int(last_imperfect) + 1
        kept = min(num_spikes, _KEPT)
        tokens = np.asarray(folded.tokens)
        of_tokens = {
            "num_forgotten": (("token",), tokens[1]),
            "first_forgotten": (("token",), step(tokens[2])),
            "last_forgotten": (("token",), step(tokens[3])),
            "last_relearnt": (("token",), step(tokens[4])),
        }
        return {
            "first_perfect": ((), step(first_perfect)),
            "perfect_from": ((), float(stays) if stays <= last else np.nan),
            "last_rise": ((), step(last_rise)),
            "num_spikes": ((), num_spikes),
            "spike_start": (("spike",), start[:kept]),
            "spike_step": (("spike",), peak[:kept]),
            "spike_end": (("spike",), end[:kept]),
            "spike_height": (("spike",), np.asarray(folded.heights)[:kept]),
            "highest_spike": ((), float(folded.losses[2]) if num_spikes else np.nan),
            "highest_spike_step": ((), step(highest_step)),
            **(of_tokens if tokens.shape[1] else {}),
        }

    def take(self, f: Found, t: Array, loss: Array, error: Array, margin: Array) -> Found:
        """Take in the loss, the error and the margins of step `t`."""
        lowest, previous, highest = f.losses
        in_spike, before = f.spiking[0] > 0, f.num_spikes
        was_right, num_forgotten, first_forgotten = f.tokens[0] > 0, f.tokens[1], f.tokens[2]

        above, height = loss > self.spike_factor * lowest, loss / lowest
        starts, ends = above & ~in_spike, in_spike & ~above
        number = before + starts
        here = (jnp.arange(_KEPT) == number - 1) & above
        taller = here & ~(height <= f.heights)
        ended = (jnp.arange(_KEPT) == before - 1) & ends
        is_highest = above & (height > highest)

        perfect = error == 0
        first = perfect & (f.steps[1] == NEVER)
        right = margin > 0
        lost, regained = was_right & ~right, ~was_right & right & (num_forgotten > 0)
        changed = jnp.stack([lost & (first_forgotten == NEVER), lost, regained])
        counts = jnp.stack([right.astype(num_forgotten.dtype), num_forgotten + lost])
        return Found(
            losses=jnp.stack(
                [jnp.minimum(lowest, loss), loss, jnp.where(is_highest, height, highest)]
            ),
            steps=jnp.where(jnp.stack([loss > previous, first, ~perfect, is_highest]), t, f.steps),
            spiking=jnp.stack([above.astype(number.dtype), number]),
            spikes=jnp.where(jnp.stack([here & starts, taller, ended]), t, f.spikes),
            heights=jnp.where(taller, height, f.heights),
            tokens=jnp.concatenate([counts, jnp.where(changed, t, f.tokens[2:])]),
        )


def _numbers(look: Look) -> tuple[Any, Any, Any]:
    """Loss, 0-1 loss and margins; a system that has no tokens, or cannot tell right from wrong, has none."""
    loss = jnp.asarray(look.loss)
    error = jnp.full_like(loss, jnp.nan) if look.error is None else look.error
    margins = jnp.zeros(loss.shape + (0,), loss.dtype) if look.margins is None else look.margins
    return loss, jnp.asarray(error), jnp.asarray(margins)


@in_input_precision
@nan_is_a_result()
@eqx.filter_jit
def events_of_series(events: Events, looks: Look) -> Found:
    """The events of a series of looks, counted in records: for flows, which have no steps."""
    loss, error, margin = _numbers(looks)
    first = events.nothing(margin.shape[1], margin.dtype)
    rows = (jnp.arange(len(loss)), loss, error, margin)
    return jax.lax.scan(lambda f, row: (events.take(f, *row), None), first, rows)[0]
