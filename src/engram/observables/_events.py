"""Events of a run, found step by step: perfect accuracy, spikes and peaks, tokens learnt and forgotten."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from engram._types import Array, PyTree
from engram.dynamics import BURST, AbstractFold, Ledger, Moment, empty_ledger
from engram.system import AbstractSystem, Look

NEVER = -1  # inside the fold only: results say "not reached" by NaN
SPIKE_FACTOR = 1.1  # a loss this many times above its running minimum is a spike
PARTS = ("accuracy", "losses", "peaks", "tokens")
_LARGE = 2**20  # tokens
_NUMBERS = 2**13  # about that many tokens' margins are kept before the host must empty the ledger


class Accuracy(NamedTuple):
    """Steps, as are those below; NEVER until they happen."""

    first_perfect: Any
    last_imperfect: Any


class Losses(NamedTuple):
    """Losses, and heights over a running minimum."""

    lowest: Any
    previous: Any
    largest: Any
    highest: Any  # over the running minimum
    top: Any  # height of the spike at hand
    trough: Any  # the lowest since the last peak
    crest: Any  # the highest since


class Counts(NamedTuple):
    """Steps and counts of what the loss does."""

    last_rise: Any
    highest_step: Any
    in_spike: Any
    num_spikes: Any
    start: Any  # of the spike at hand
    top_step: Any
    is_up: Any  # on the way from a trough to a peak
    num_peaks: Any
    crest_step: Any


class EventState(eqx.Module):
    """What is known so far, of the parts that are wanted.

    In few arrays, since XLA compiles a kernel for each array that a loop carries, and for each use of it;
    without a ledger, as in lanes, whose numbers are arrays already, as they are.
    """

    accuracy: Any = None  # Accuracy, Losses and Counts, or arrays of their parts
    losses: Any = None
    counts: Any = None
    margins: Float[Array, "*lanes N"] | None = None  # one step ago
    # Times forgotten; first learnt; first, last forgotten; last re-learnt.
    tokens: Int[Array, "*lanes 5 N"] | None = None
    # Steps at which a spike ended, a peak was confirmed or tokens changed sides. Whole numbers: the step;
    # whether a spike ended, its start, its top; whether there was a peak, its step. Others: the heights of
    # both; margins before and after.
    ledger: Ledger | None = None

    @property
    def last_rise(self) -> Any:
        return self.counts[0]

    @property
    def num_spikes(self) -> Any:
        return self.counts[3]


class Watched(eqx.Module):
    """A stretch of steps in which the loss only fell and no token changed sides, or not."""

    quiet: Bool[Array, ""]
    loss: Float[Array, ""]
    margins: Float[Array, " N"]
    perfect: Bool[Array, ""]


class Events(AbstractFold):
    """Finds events at every step, whatever is recorded. The loss is that of the problem's own law.

    A spike is an excursion of the loss above `spike_factor` times its running minimum, from where
    it leaves to where it returns; its height is its peak over that minimum. A peak is the highest loss
    between two troughs of a zig-zag: the loss has risen to it by the factor from the trough before, and
    fallen from it by the factor; its height is its loss over that trough's. A token is learnt when its margin
    is above zero for the first time, forgotten when it falls to zero or below, re-learnt when it rises again.

    Args:
        spike_factor: How far above its running minimum the loss must be in a spike; also that of the zig-zag.
        parts: What to look for: among "accuracy", "losses", "peaks" (and losses) and "tokens".
        capacity: How many steps at which something happened the ledger holds until it is emptied, or in all
            where nobody empties it (`dynamics.run`); 0 for no ledger. By default some 8192 / (N + 1), and at
            least 64.
    """

    spike_factor: Any = SPIKE_FACTOR
    parts: tuple[str, ...] = eqx.field(static=True, converter=tuple, default=PARTS)
    capacity: int | None = eqx.field(static=True, default=None)

    reads_states = False

    def _packed(self, parts: PyTree) -> Any:
        return parts if self.capacity == 0 else jnp.stack(parts)

    def init(self, system: AbstractSystem, state: PyTree) -> EventState:
        loss, _, margins = _numbers(system.look(state))
        N, dtype = len(margins), loss.dtype
        never, zero = jnp.full((), NEVER, int), jnp.zeros((), int)
        inf, one = jnp.asarray(jnp.inf, dtype), jnp.ones((), dtype)
        known: dict[str, Any] = {}
        if "accuracy" in self.parts:
            known["accuracy"] = self._packed(Accuracy(never, never))
        if {"losses", "peaks"} & set(self.parts):
            losses = Losses(inf, inf, -inf, one, one, inf, -inf)
            counts = Counts(never, never, zero, zero, never, never, zero, zero, never)
            if self.capacity == 0:  # without what only the ledger needs
                losses = losses._replace(top=None)
                counts = counts._replace(start=None, top_step=None)
                if "peaks" not in self.parts:
                    losses = losses._replace(trough=None, crest=None)
                    counts = counts._replace(is_up=None, num_peaks=None, crest_step=None)
            known |= {"losses": self._packed(losses), "counts": self._packed(counts)}
        if "tokens" in self.parts:
            known["margins"] = jnp.full(N, jnp.nan, dtype)
            known["tokens"] = jnp.full((5, N), NEVER, int).at[0].set(0)
        if self.capacity != 0:
            least = (
                2 * BURST if N <= _LARGE else 4
            )  # rows of millions of numbers each: a few are enough
            capacity = self.capacity or max(least, _NUMBERS // (N + 1))
            row = (jnp.zeros(6, int), jnp.zeros(2 + 2 * N, dtype))
            known["ledger"] = empty_ledger(capacity, row, _read)
        return EventState(**known)

    def update(self, folded: EventState, index: Array, moment: Moment) -> EventState:
        loss, error, margin = _numbers(moment.look)
        known: dict[str, Any] = {}
        if folded.accuracy is not None:
            first, last_wrong = folded.accuracy
            perfect = error == 0
            first = jnp.where(perfect & (first == NEVER), index, first)
            known["accuracy"] = self._packed(Accuracy(first, jnp.where(perfect, last_wrong, index)))
        if folded.losses is not None:
            losses, here, more = _losses(
                Losses(*folded.losses), Counts(*folded.counts), loss, self.spike_factor
            )
            # Two arrays and a choice between them: nine choices in one array would be nine kernels.
            known["losses"] = self._packed(losses)
            known["counts"] = jax.tree.map(
                lambda is_here, old, added: jnp.where(is_here, index, old) + added,
                self._packed(here),
                folded.counts,
                self._packed(more),
            )
        if folded.tokens is not None:
            known |= _tokens(folded, index, margin)
        if folded.ledger is not None:
            known["ledger"] = _with_row(folded, index, known, margin)
        return EventState(**known)

    def for_lanes(self) -> "Events":
        return Events(self.spike_factor, self.parts, capacity=0)

    @property
    def can_glide(self) -> bool:
        return self.parts == PARTS

    def watch(self, folded: EventState, index: Array) -> Watched:
        previous, counts = Losses(*folded.losses).previous, Counts(*folded.counts)
        # Before anything was seen, within a spike, or on the way up, every step counts.
        quiet = jnp.isfinite(previous) & (counts.in_spike == 0) & (counts.is_up == 0)
        perfect = Accuracy(*folded.accuracy).last_imperfect < index - 1
        return Watched(quiet, previous, jnp.asarray(folded.margins), perfect)

    def see(self, watched: Watched, moment: Moment) -> Watched:
        loss, error, margin = _numbers(moment.look)
        same = ((margin > 0) == (watched.margins > 0)).all() & ((error == 0) == watched.perfect)
        quiet = watched.quiet & (loss <= watched.loss) & same
        return Watched(quiet, loss, margin, watched.perfect)

    def is_quiet(self, watched: Watched) -> Bool[Array, ""]:
        return watched.quiet

    def skip(self, folded: EventState, watched: Watched, index: Array) -> EventState:
        loss, before, accuracy = watched.loss, Losses(*folded.losses), Accuracy(*folded.accuracy)
        lowest, trough = jnp.minimum(before.lowest, loss), jnp.minimum(before.trough, loss)
        losses = before._replace(lowest=lowest, previous=loss, trough=trough)
        last = jnp.where(watched.perfect, accuracy.last_imperfect, index)
        accuracy = accuracy._replace(last_imperfect=last)
        return eqx.tree_at(
            lambda known: (known.accuracy, known.losses, known.margins),
            folded,
            (self._packed(accuracy), self._packed(losses), watched.margins),
        )

    def describe(self, folded: EventState, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Turn the fold into named variables; what did not happen is NaN, never the horizon.

        Of a system without margins nothing is said of single tokens.
        """
        folded = jax.tree.map(np.asarray, folded)
        entries = {} if folded.ledger is None else _entries(folded)
        return self.describe_all(folded, last) | entries

    def describe_all(self, folded: EventState, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """As `describe`, of one run or of a run in each row; without spikes and changes one by one."""
        variables: dict[str, tuple[tuple[str, ...], Any]] = {}
        if folded.accuracy is not None:
            first, last_wrong = Accuracy(*map(np.asarray, folded.accuracy))
            stays = last_wrong + 1
            variables["first_perfect"] = ((), _steps(first))
            variables["perfect_from"] = ((), np.where(stays <= last, stays, np.nan))
        if folded.losses is not None:
            losses = Losses(*jax.tree.map(np.asarray, tuple(folded.losses)))
            counts = Counts(*jax.tree.map(np.asarray, tuple(folded.counts)))
            variables |= {
                "last_rise": ((), _steps(counts.last_rise)),
                "num_spikes": ((), counts.num_spikes),
                "highest_spike": ((), np.where(counts.num_spikes > 0, losses.highest, np.nan)),
                "highest_spike_step": ((), _steps(counts.highest_step)),
                "max_loss": ((), losses.largest),
                "highest_rise": ((), losses.highest),
            }
            if counts.num_peaks is not None:
                variables["num_peaks"] = ((), counts.num_peaks)
        if folded.tokens is not None and np.shape(folded.tokens)[-1]:
            names = ("first_learnt", "first_forgotten", "last_forgotten", "last_relearnt")
            times, *steps = np.moveaxis(np.asarray(folded.tokens), -2, 0)
            right = np.asarray(folded.margins) > 0
            per_token = {"num_learnt": times + right, "num_forgotten": times}
            per_token |= {name: _steps(each) for name, each in zip(names, steps, strict=True)}
            variables |= {name: (("token",), value) for name, value in per_token.items()}
        return variables


def _steps(value: Any) -> np.ndarray:
    return np.where(np.asarray(value) == NEVER, np.nan, value).astype(float)


def _losses(
    before: Losses, counts: Counts, loss: Array, factor: Any
) -> tuple[Losses, Counts, Counts]:
    """Spikes above the running minimum, and the zig-zag of troughs and peaks.

    Returns:
        The losses; of the counts, those that are steps and become this one, and what is added to the others.
    """
    in_spike = counts.in_spike > 0
    above, height = loss > factor * before.lowest, loss / before.lowest
    starts = above & ~in_spike
    no, zero = jnp.zeros_like(above), jnp.zeros_like(counts.in_spike)
    number = lambda value: value.astype(zero.dtype)
    losses = before._replace(
        lowest=jnp.minimum(before.lowest, loss),
        previous=loss,
        largest=jnp.where(loss > before.largest, loss, before.largest),
        highest=jnp.where(height > before.highest, height, before.highest),
    )
    here = jax.tree.map(lambda _: no, counts)._replace(
        last_rise=loss > before.previous, highest_step=above & (height > before.highest)
    )
    more = jax.tree.map(lambda _: zero, counts)._replace(
        in_spike=number(above) - counts.in_spike, num_spikes=number(starts)
    )
    if before.top is not None:
        taller = starts | (above & (height > before.top))
        losses = losses._replace(top=jnp.where(taller, height, before.top))
        here = here._replace(start=starts, top_step=taller)
    if before.trough is not None:
        is_up = counts.is_up > 0
        deeper, turns_up = ~is_up & (loss < before.trough), ~is_up & (loss > factor * before.trough)
        higher, turns_down = is_up & (loss > before.crest), is_up & (factor * loss < before.crest)
        losses = losses._replace(
            trough=jnp.where(deeper | turns_down, loss, before.trough),
            crest=jnp.where(higher | turns_up, loss, before.crest),
        )
        here = here._replace(crest_step=higher | turns_up)
        more = more._replace(
            is_up=number(turns_up) - number(turns_down), num_peaks=number(turns_down)
        )
    return losses, here, more


def _tokens(folded: EventState, t: Array, margin: Array) -> dict[str, Any]:
    assert folded.tokens is not None
    assert folded.margins is not None
    num_forgotten, is_first = folded.tokens[0], folded.tokens[1:3] == NEVER
    was_right, right = folded.margins > 0, margin > 0
    lost, gained = was_right & ~right, ~was_right & right
    news = jnp.stack([gained & is_first[0], lost & is_first[1], lost, gained & (num_forgotten > 0)])
    steps = jnp.where(news, t, folded.tokens[1:])
    return {"margins": margin, "tokens": jnp.concatenate([(num_forgotten + lost)[None], steps])}


def _with_row(folded: EventState, t: Array, now: dict[str, Any], margin: Array) -> Ledger:
    """The ledger with whatever has happened at a step."""
    assert folded.ledger is not None
    zero, comes = jnp.zeros((), t.dtype), jnp.zeros((), bool)
    whole, heights = [t, zero, zero, zero, zero, zero], jnp.zeros(2, margin.dtype)
    if folded.losses is not None:
        losses, was, counts = Losses(*folded.losses), Counts(*folded.counts), Counts(*now["counts"])
        ends, turns = was.in_spike > counts.in_spike, was.is_up > counts.is_up
        flag = lambda value: value.astype(t.dtype)
        whole = [t, flag(ends), was.start, was.top_step, flag(turns), was.crest_step]
        heights = jnp.stack([losses.top, losses.crest / losses.trough])
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


_LISTED = {  # by axis; in this order, since JAX sorts what it maps over
    "spike": ("spike_start", "spike_step", "spike_end", "spike_height"),
    "peak": ("peak_step", "peak_height"),
    "event": ("event_step", "event_token", "margin_before", "margin_after"),
}


def _entries(folded: EventState) -> dict[str, tuple[tuple[str, ...], Any]]:
    """What the ledger holds, by name, and the spike that has not ended."""
    assert folded.ledger is not None
    kept, listed = folded.ledger.entries(), dict(_LISTED)
    if folded.losses is None:
        listed |= {"spike": (), "peak": ()}
    elif (counts := Counts(*folded.counts)).in_spike:
        last = (counts.start, counts.top_step, np.nan, Losses(*folded.losses).top)
        spikes = zip(listed["spike"], last, strict=True)
        kept |= {name: np.append(kept[name], value) for name, value in spikes}
    if folded.tokens is None or not np.shape(folded.tokens)[-1]:
        listed["event"] = ()
    return {name: ((axis,), kept[name]) for axis, names in listed.items() for name in names}


def _numbers(look: Look) -> tuple[Any, Any, Any]:
    """Loss, 0-1 loss and margins; a system that has no tokens, or knows neither right nor wrong, has none."""
    loss = jnp.asarray(look.loss)
    error = jnp.full_like(loss, jnp.nan) if look.error is None else look.error
    margins = jnp.zeros(loss.shape + (0,), loss.dtype) if look.margins is None else look.margins
    return loss, jnp.asarray(error), jnp.asarray(margins)
