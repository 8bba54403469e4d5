"""Events of a run, found step by step: perfect accuracy, spikes and peaks, tokens learnt and forgotten."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from engram._precision import in_input_precision, nan_is_a_result
from engram._types import Array
from engram.dynamics import AbstractFold, Carry, Ledger, Moment, empty_ledger
from engram.dynamics._ledger import filed, with_capacity
from engram.dynamics._run import BURST
from engram.system import AbstractSystem, Look

NEVER = -1  # inside the fold only: results say "not reached" by NaN
SPIKE_FACTOR = 1.1  # a loss this many times above its running minimum is a spike
PARTS = ("accuracy", "losses", "tokens")
_NUMBERS = 2**13  # about that many tokens' margins are kept before the host must empty the ledger


class Found(eqx.Module):
    """What is known so far, of the parts that are wanted. Steps are NEVER until they happen.

    In few arrays, since XLA compiles a kernel for each array that a loop carries, and for each use of it.
    """

    accuracy: Int[Array, "*lanes 2"] | None = None  # first perfect, last imperfect
    # Running minimum; one step ago; largest; highest over the minimum; height of the spike at hand; the last
    # trough, and the highest loss since.
    losses: Float[Array, "*lanes 7"] | None = None
    # Last rise; step of the highest; whether in a spike; how many; its start, its top; whether on the way up from a
    # trough; peaks; step of the highest loss since the trough.
    counts: Int[Array, "*lanes 9"] | None = None
    margins: Float[Array, "*lanes N"] | None = None  # one step ago
    # Times forgotten; first learnt; first, last forgotten; last re-learnt.
    tokens: Int[Array, "*lanes 5 N"] | None = None
    # Steps at which a spike ended, a peak was confirmed or tokens changed sides. Whole numbers: the step; whether a
    # spike ended, its start, its top; whether there was a peak, its step. Others: the heights of both; margins
    # before and after.
    ledger: Ledger | None = None

    @property
    def last_rise(self) -> Any:
        return self.counts[..., 0]  # pyright: ignore[reportOptionalSubscript]

    @property
    def num_spikes(self) -> Any:
        return self.counts[..., 3]  # pyright: ignore[reportOptionalSubscript]


class Watched(eqx.Module):
    """A stretch of steps in which the loss only fell and no token changed sides, or not."""

    quiet: Bool[Array, ""]
    loss: Float[Array, ""]
    margins: Float[Array, " N"]
    perfect: Bool[Array, ""]


class Events(AbstractFold):
    """Finds events at every step, whatever is recorded. The loss is that of the problem's own law.

    A spike is an excursion of the loss above `spike_factor` times its running minimum, from where
    it leaves to where it returns; its height is its peak over that minimum. A peak is the highest loss between
    two troughs of a zig-zag: known once the loss has fallen from it by the factor, after it had risen from the
    trough before by the factor; its height is its loss over that trough's. A token is learnt when its margin is
    above zero for the first time, forgotten when it falls to zero or below, and re-learnt when it rises again.

    Args:
        spike_factor: How far above its running minimum the loss must be in a spike; also the factor of the zig-zag.
        parts: What to look for: among "accuracy", "losses" and "tokens".
        capacity: Steps at which something happened that the ledger holds until it is emptied, or in all where
            nobody empties it (`dynamics.run`); 0 for no ledger. By default as many as fit into some 100 KB, and
            64 at least.
    """

    spike_factor: Any = SPIKE_FACTOR
    parts: tuple[str, ...] = eqx.field(static=True, converter=tuple, default=PARTS)
    capacity: int | None = eqx.field(static=True, default=None)

    reads_states = False

    def init(self, system: AbstractSystem, state: PyTree) -> Found:
        loss, _, margins = _numbers(system.look(state))
        N, dtype, inf = len(margins), loss.dtype, jnp.inf
        never = lambda *shape: jnp.full(shape, NEVER, int)
        known: dict[str, Any] = {}
        if "accuracy" in self.parts:
            known["accuracy"] = never(2)
        if "losses" in self.parts:
            known["losses"] = jnp.array([inf, inf, -inf, 1.0, 1.0, inf, -inf], dtype)
            known["counts"] = never(9).at[jnp.array([2, 3, 6, 7])].set(0)
        if "tokens" in self.parts:
            known["margins"] = jnp.full(N, jnp.nan, dtype)
            known["tokens"] = never(5, N).at[0].set(0)
        if self.capacity != 0:
            capacity = self.capacity or max(2 * BURST, _NUMBERS // (N + 1))
            row = (never(6), jnp.zeros(2 + 2 * N, dtype))
            known["ledger"] = empty_ledger(capacity, row, _read)
        return Found(**known)

    def update(self, folded: Found, index: Array, moment: Moment) -> Found:
        loss, error, margin = _numbers(moment.look)
        known: dict[str, Any] = {}
        if folded.accuracy is not None:
            perfect = error == 0
            first = perfect & (folded.accuracy[0] == NEVER)
            known["accuracy"] = jnp.where(jnp.stack([first, ~perfect]), index, folded.accuracy)
        if folded.losses is not None:
            known |= self._losses(folded, index, loss)
        if folded.tokens is not None:
            known |= _tokens(folded, index, margin)
        if folded.ledger is not None:
            known["ledger"] = _noted(folded, index, known, margin)
        return Found(**known)

    def _losses(self, folded: Found, t: Array, loss: Array) -> dict[str, Any]:
        assert folded.losses is not None
        assert folded.counts is not None
        lowest, previous, largest, highest, top, trough, crest = folded.losses
        in_spike, is_up = folded.counts[2] > 0, folded.counts[6] > 0
        factor = self.spike_factor

        above, height = loss > factor * lowest, loss / lowest
        starts = above & ~in_spike
        taller = starts | (above & (height > top))
        is_highest = above & (height > highest)

        deeper, turns_up = ~is_up & (loss < trough), ~is_up & (loss > factor * trough)
        higher, turns_down = is_up & (loss > crest), is_up & (factor * loss < crest)
        goes_up = (is_up | turns_up) & ~turns_down
        no = jnp.zeros((), bool)
        here = [loss > previous, is_highest, no, no, starts, taller, no, no, higher | turns_up]
        steps = jnp.where(jnp.stack(here), t, folded.counts)
        zero = jnp.zeros((), steps.dtype)
        added = [
            zero,
            zero,
            above - folded.counts[2],
            starts,
            zero,
            zero,
            goes_up - folded.counts[6],
            turns_down,
            zero,
        ]
        return {
            "losses": jnp.stack(
                [
                    jnp.minimum(lowest, loss),
                    loss,
                    jnp.where(loss > largest, loss, largest),
                    jnp.where(height > highest, height, highest),
                    jnp.where(taller, height, top),
                    jnp.where(deeper | turns_down, loss, trough),
                    jnp.where(higher | turns_up, loss, crest),
                ]
            ),
            "counts": steps + jnp.stack([jnp.asarray(each, steps.dtype) for each in added]),
        }

    def for_lanes(self) -> "Events":
        return Events(self.spike_factor, self.parts, capacity=0)

    @property
    def can_glide(self) -> bool:
        return self.parts == PARTS

    def watch(self, folded: Found, index: Array) -> Watched:
        assert folded.accuracy is not None
        assert folded.losses is not None
        assert folded.counts is not None
        # Before anything was seen, within a spike, or on the way up, every step counts.
        previous = folded.losses[1]
        quiet = jnp.isfinite(previous) & (folded.counts[2] == 0) & (folded.counts[6] == 0)
        return Watched(quiet, previous, folded.margins, folded.accuracy[1] < index - 1)

    def see(self, watched: Watched, moment: Moment) -> Watched:
        loss, error, margin = _numbers(moment.look)
        same = ((margin > 0) == (watched.margins > 0)).all() & ((error == 0) == watched.perfect)
        quiet = watched.quiet & (loss <= watched.loss) & same
        return Watched(quiet, loss, margin, watched.perfect)

    def is_quiet(self, watched: Watched) -> Bool[Array, ""]:
        return watched.quiet

    def skip(self, folded: Found, watched: Watched, index: Array) -> Found:
        assert folded.accuracy is not None
        assert folded.losses is not None
        loss, (lowest, _, *others, trough, crest) = watched.loss, folded.losses
        lower = [jnp.minimum(lowest, loss), loss, *others, jnp.minimum(trough, loss), crest]
        last = jnp.where(watched.perfect, folded.accuracy[1], index)
        return eqx.tree_at(
            lambda f: (f.accuracy, f.losses, f.margins),
            folded,
            (jnp.stack([folded.accuracy[0], last]), jnp.stack(lower), watched.margins),
        )

    def describe(self, folded: Found, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Turn the fold into named variables; what did not happen is NaN, never the horizon.

        Of a system without margins nothing is said of single tokens.
        """
        folded = jax.tree.map(np.asarray, folded)
        entries = {} if folded.ledger is None else _entries(folded)
        return self.describe_all(folded, last) | entries

    def describe_all(self, folded: Found, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """As `describe`, of one run or of a run in each row; without spikes and changes one by one."""
        found: dict[str, tuple[tuple[str, ...], Any]] = {}
        if folded.accuracy is not None:
            first, last_wrong = np.moveaxis(np.asarray(folded.accuracy), -1, 0)
            stays = last_wrong + 1
            found["first_perfect"] = ((), _steps(first))
            found["perfect_from"] = ((), np.where(stays <= last, stays, np.nan))
        if folded.losses is not None:
            numbers = np.moveaxis(np.asarray(folded.losses), -1, 0)
            counts = np.moveaxis(np.asarray(folded.counts), -1, 0)
            found |= {
                "last_rise": ((), _steps(counts[0])),
                "num_spikes": ((), counts[3]),
                "highest_spike": ((), np.where(counts[3] > 0, numbers[3], np.nan)),
                "highest_spike_step": ((), _steps(counts[1])),
                "num_peaks": ((), counts[7]),
                "max_loss": ((), numbers[2]),
                "highest_rise": ((), numbers[3]),
            }
        if folded.tokens is not None and np.shape(folded.tokens)[-1]:
            names = ("first_learnt", "first_forgotten", "last_forgotten", "last_relearnt")
            times, *steps = np.moveaxis(np.asarray(folded.tokens), -2, 0)
            right = np.asarray(folded.margins) > 0
            found |= {
                "num_learnt": (("token",), times + right),
                "num_forgotten": (("token",), times),
            }
            found |= {
                name: (("token",), _steps(each)) for name, each in zip(names, steps, strict=True)
            }
        return found


def _steps(value: Any) -> np.ndarray:
    return np.where(np.asarray(value) == NEVER, np.nan, value).astype(float)


def _tokens(folded: Found, t: Array, margin: Array) -> dict[str, Any]:
    assert folded.tokens is not None
    assert folded.margins is not None
    num_forgotten, is_first = folded.tokens[0], folded.tokens[1:3] == NEVER
    was_right, right = folded.margins > 0, margin > 0
    lost, gained = was_right & ~right, ~was_right & right
    news = jnp.stack([gained & is_first[0], lost & is_first[1], lost, gained & (num_forgotten > 0)])
    steps = jnp.where(news, t, folded.tokens[1:])
    return {"margins": margin, "tokens": jnp.concatenate([(num_forgotten + lost)[None], steps])}


def _noted(folded: Found, t: Array, now: dict[str, Any], margin: Array) -> Ledger:
    """The ledger with whatever has happened at a step."""
    assert folded.ledger is not None
    zero, none = jnp.zeros((), t.dtype), jnp.zeros(2, margin.dtype)
    whole, heights, comes = [t, zero, zero, zero, zero, zero], none, jnp.zeros((), bool)
    if folded.losses is not None:
        assert folded.counts is not None
        _, _, in_spike, _, start, top, is_up, _, crest_step = folded.counts
        ends, turns = in_spike > now["counts"][2], is_up > now["counts"][6]
        whole = [t, ends.astype(t.dtype), start, top, turns.astype(t.dtype), crest_step]
        heights = jnp.stack([folded.losses[4], folded.losses[6] / folded.losses[5]])
        comes = ends | turns
    before = jnp.full_like(margin, jnp.nan)
    if folded.margins is not None:
        before = folded.margins
        comes = comes | ((before > 0) != (margin > 0)).any()
    return folded.ledger.put(comes, (jnp.stack(whole), jnp.concatenate([heights, before, margin])))


def _read(rows: Any) -> dict[str, np.ndarray]:
    """From the rows of the ledger to spikes, peaks and changes of tokens, one by one."""
    whole, numbers = rows
    step, ended, start, top, turned, crest = whole.T
    ended, turned = ended > 0, turned > 0
    before, after = np.split(numbers[:, 2:], 2, axis=1)
    row, token = np.nonzero((before > 0) != (after > 0))
    return {
        "spike_start": start[ended].astype(float),
        "spike_step": top[ended].astype(float),
        "spike_end": step[ended].astype(float),
        "spike_height": numbers[ended, 0],
        "peak_step": crest[turned].astype(float),
        "peak_height": numbers[turned, 1],
        "event_step": step[row].astype(float),
        "event_token": token,
        "margin_before": before[row, token],
        "margin_after": after[row, token],
    }


_AXES = {  # of what the ledger holds, in this order
    "spike_start": "spike", "spike_step": "spike", "spike_end": "spike", "spike_height": "spike",
    "peak_step": "peak", "peak_height": "peak",
    "event_step": "event", "event_token": "event", "margin_before": "event", "margin_after": "event",
}  # fmt: skip


def _entries(folded: Found) -> dict[str, tuple[tuple[str, ...], Any]]:
    """What the ledger holds, by name, and the spike that has not ended."""
    assert folded.ledger is not None
    found = folded.ledger.entries()
    if folded.counts is not None and folded.counts[2]:
        last = {
            "start": folded.counts[4], "step": folded.counts[5], "end": np.nan, "height": folded.losses[4]
        }  # fmt: skip
        found |= {
            f"spike_{name}": np.append(found[f"spike_{name}"], value)
            for name, value in last.items()
        }
    present = {"event"} if folded.tokens is not None and np.shape(folded.tokens)[-1] else set()
    present |= {"spike", "peak"} if folded.losses is not None else set()
    return {name: ((axis,), found[name]) for name, axis in _AXES.items() if axis in present}


def _numbers(look: Look) -> tuple[Any, Any, Any]:
    """Loss, 0-1 loss and margins; a system that has no tokens, or cannot tell right from wrong, has none."""
    loss = jnp.asarray(look.loss)
    error = jnp.full_like(loss, jnp.nan) if look.error is None else look.error
    margins = jnp.zeros(loss.shape + (0,), loss.dtype) if look.margins is None else look.margins
    return loss, jnp.asarray(error), jnp.asarray(margins)


class _Shown(AbstractSystem):
    """A system whose states are looks."""

    law: Any = ()

    def look(self, state: Look, law: Array | None = None) -> Look:
        return state

    def grad(self, state: PyTree, law: Array | None = None, look: Look | None = None) -> Any:
        self._cannot_tell("grad")


@in_input_precision
@nan_is_a_result()
@eqx.filter_jit
def events_of_series(
    events: AbstractFold, series: Any, system: AbstractSystem | None = None, dynamics: Any = None
) -> Any:
    """What a fold makes of a series, counted in records: for flows, which have no steps, and for logs.

    Args:
        events: The fold.
        series: Looks, with a leading axis; or states of a system.
        system: Whose states they are.
        dynamics: How it moves.
    """
    system = _Shown() if system is None else system
    row = lambda k: jax.tree.map(lambda x: jnp.asarray(x)[k], series)
    T = len(jax.tree.leaves(series)[0])
    first = with_capacity(events.init(system, row(0)), T)  # so that nothing is lost

    def take(folded: Any, k: Array) -> tuple[Any, None]:
        zero = jnp.zeros((), int)
        state = row(k)
        moment = Moment(system, dynamics, Carry(k, state, None, zero), system.look(state))
        return filed(events.update(folded, k, moment)), None

    return jax.lax.scan(take, first, jnp.arange(T))[0]
