"""run: the one verb. It moves a system by a dynamics, and records on the way."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PRNGKeyArray

from engram._checks import InputError
from engram._precision import nan_is_a_result, traceable
from engram._types import Array, PyTree
from engram.dynamics._base import AbstractDynamics, AbstractFlow, AbstractStepwise
from engram.dynamics._ledger import PAGE, chosen, filed, has_room, ledgers_of, without_books
from engram.dynamics._trajectory import Status, Trajectory
from engram.system import AbstractSystem, Look, Registered, named_parts

# Steps between two looks at whether to go on. A short loop of known length compiles to far faster
# code than one whose end is known only as it runs, or whose body is long.
BURST = 32


class Moment(eqx.Module):
    """A moment of a run: what moves, how it moves, what is carried, a look at the state, the run's key."""

    system: Any  # with whatever its class adds, such as `problem`
    dynamics: Any  # a flow, or one that makes steps
    carry: PyTree
    look: Look
    key: Any = None

    @property
    def state(self) -> PyTree:
        return self.dynamics.state_of(self.carry.inner)


def moment_of(
    system: AbstractSystem,
    dynamics: AbstractDynamics,
    carry: PyTree,
    key: PRNGKeyArray | None = None,
) -> Moment:
    """The moment at which a run is."""
    return Moment(system, dynamics, carry, system.look(dynamics.state_of(carry.inner)), key)


class AbstractFold(Registered):
    """A reduction over every step: first hits, spikes and such cannot come from sparse records.

    `init` and `update` are enough. A fold that `can_glide` has `watch`, `see`, `is_quiet` and `skip` as
    well, and goes faster through stretches in which nothing happens. What comes in any number is put into a
    `Ledger`, which `simulate` empties on the way.
    """

    role = "event"
    reads_states = True  # whether a look at a state is not enough for it

    @abc.abstractmethod
    def init(self, system: AbstractSystem, state: PyTree) -> PyTree:
        """What is known before the first step."""

    @abc.abstractmethod
    def update(self, folded: PyTree, index: Array, moment: Moment) -> PyTree:
        """Take in step `index`."""

    def describe(self, folded: PyTree, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """The result as variables of a dataset: axes and values by name; by default each part by its name."""
        del last
        parts = named_parts(folded, type(self).__name__.lower())
        axes = lambda name, x: tuple(f"{name}_{i}" for i in range(np.ndim(x)))
        return {name: (axes(name, x), np.asarray(x)) for name, x in parts.items()}

    def describe_all(self, folded: PyTree, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """The results of many runs, one in each row of what was folded: by default one after another."""
        rows = range(len(jax.tree.leaves(folded)[0]))
        each = [self.describe(jax.tree.map(lambda x, k=k: x[k], folded), last) for k in rows]
        return {
            name: (axes, np.stack([one[name][1] for one in each]))
            for name, (axes, _) in each[0].items()
        }

    def for_lanes(self) -> "AbstractFold":
        """The fold for many runs side by side, whose ledgers nobody reads; by default itself."""
        return self

    @property
    def can_glide(self) -> bool:
        """Whether it has the four methods below."""
        return False

    def watch(self, folded: PyTree, index: Array) -> PyTree:
        """Begin to look out for anything that `update` would have to take in one by one."""
        raise NotImplementedError

    def see(self, watched: PyTree, moment: Moment) -> PyTree:
        """Take in one step; cheaper than `update`."""
        raise NotImplementedError

    def is_quiet(self, watched: PyTree) -> Array:
        """Whether nothing happened in what was seen, so that `skip` is as good as `update`."""
        raise NotImplementedError

    def skip(self, folded: PyTree, watched: PyTree, index: Array) -> PyTree:
        """Take in a quiet stretch whose last step was `index`, all at once."""
        raise NotImplementedError


class Carry(eqx.Module):
    """Where a run is: enough to go on from, in this process or another."""

    index: Int[Array, ""]
    inner: PyTree
    folded: PyTree
    status: Int[Array, ""]


class Context(eqx.Module):
    """What stays the same throughout a run.

    Args:
        system: What moves.
        dynamics: How it moves.
        fold: A reduction over every step.
        stop: Ends the run at the first state for which `stop(state)` is true.
        key: Random numbers, for dynamics that draw them.
    """

    system: Any
    dynamics: Any
    fold: AbstractFold | None = None
    stop: Any = None
    key: PRNGKeyArray | None = None

    def begin(self, state: PyTree) -> Carry:
        """What the run carries before its first step."""
        folded = None if self.fold is None else self.fold.init(self.system, state)
        zero = jnp.zeros((), int)
        inner = self.dynamics.init_with(self.system, state, self.key)
        return Carry(zero, inner, folded, zero + int(Status.RUNNING))

    def segment(
        self, carry: Carry, at: Int[Array, " T"], record: Callable[..., PyTree], **options: Any
    ) -> tuple[Carry, PyTree, Array]:
        """Go on through the steps `at`, recording at each; options as for `advance`.

        Returns:
            The carry, the records (NaN where they were not reached), and whether they were.
        """
        options |= {"fold": self.fold, "stop": self.stop, "key": self.key}

        def to(carry: Carry, until: Array):
            carry = advance(self.system, self.dynamics, carry, until, **options)
            reached = carry.index >= until
            blank = lambda x: jnp.where(reached, x, jnp.nan)
            is_float = lambda x: jnp.issubdtype(x.dtype, jnp.floating)
            records = record(self.system, self.dynamics, carry)
            records = jax.tree.map(lambda x: blank(x) if is_float(x) else x, records)
            return carry, (records, reached)

        carry, (records, reached) = jax.lax.scan(to, carry, at)
        return carry, records, reached

    def finish(self, carry: Carry) -> PyTree:
        """What the fold makes of the whole run, the last state included."""
        if self.fold is None:
            return None
        moment = moment_of(self.system, self.dynamics, carry, self.key)
        return filed(self.fold.update(carry.folded, carry.index, moment))


def advance(
    system: AbstractSystem,
    dynamics: AbstractStepwise,
    carry: Carry,
    until: Int[Array, ""],
    *,
    fold: AbstractFold | None = None,
    stop: Callable[[PyTree], Array] | None = None,
    key: PRNGKeyArray | None = None,
    bursts: bool = True,
    waits: Any = False,
) -> Carry:
    """Go on to step `until`, unless the state stops being finite or `stop(state)` holds before.

    The fold sees each state that is left behind; the one arrived at is seen when it is left, or by
    `Context.finish`. Without `bursts` it goes step by step, which compiles to a third of the program: the
    same path, and as fast where `until` is less than a burst away. If it `waits`, it also ends where a
    ledger of the fold might overflow, to go on when that is emptied; whole bursts stay whole.
    """
    bursts = bursts and all(ledger.capacity >= BURST for ledger in ledgers_of(carry.folded))
    may_go = lambda carry, steps: jnp.logical_not(waits) | has_room(carry.folded, steps)

    def take(carry: Carry) -> Carry:
        folded = carry.folded
        if fold is not None:
            folded = fold.update(folded, carry.index, moment_of(system, dynamics, carry, key))
        inner = dynamics.step(system, carry.inner, carry.index, key)
        return Carry(carry.index + 1, inner, folded, carry.status)

    def is_finite(carry: Carry) -> Array:
        leaves = jax.tree.leaves(dynamics.state_of(carry.inner))
        # A sum is finite exactly when its terms are, short of overflow, which is not finite either.
        return jnp.isfinite(sum(leaf.sum() for leaf in leaves))

    def glide(carry: Carry, fold: AbstractFold) -> tuple[Carry, Array]:
        """A burst in which the fold only watches; right if nothing happened."""

        def body(i, inner_and_watched):
            inner, watched = inner_and_watched
            here = Carry(carry.index + i, inner, carry.folded, carry.status)
            watched = fold.see(watched, moment_of(system, dynamics, here, key))
            return dynamics.step(system, inner, here.index, key), watched

        watched = fold.watch(carry.folded, carry.index)
        inner, watched = jax.lax.fori_loop(0, BURST, body, (carry.inner, watched))
        folded = fold.skip(carry.folded, watched, carry.index + BURST - 1)
        ahead = Carry(carry.index + BURST, inner, folded, carry.status)
        return ahead, fold.is_quiet(watched)

    def page(carry: Carry) -> Carry:
        """As many steps as a ledger has room for on a page."""
        light, restored = without_books(carry)
        return filed(restored(jax.lax.fori_loop(0, PAGE, lambda _, c: take(c), light)))

    def walk(carry: Carry) -> Carry:
        """A burst in which the fold takes in every step."""
        if ledgers_of(carry.folded):
            return jax.lax.fori_loop(0, BURST // PAGE, lambda _, c: page(c), carry)
        return jax.lax.fori_loop(0, BURST, lambda _, c: take(c), carry)

    is_burst = lambda c: c[1] & (c[0].index + BURST <= until)

    def soar(carry: Carry, fold: AbstractFold) -> tuple[Carry, Any]:
        """Bursts, as long as nothing happens in them; whether that was to the end."""

        def on(c):
            ahead, quiet = glide(c[0], fold)
            quiet = quiet & is_finite(ahead)
            return chosen(quiet, ahead, c[0]), quiet

        light, restored = without_books(carry)
        light, quiet = jax.lax.while_loop(is_burst, on, (light, jnp.ones((), bool)))
        return restored(light), quiet

    def burst(carry_and_sound):
        carry, _ = carry_and_sound
        if fold is None or not fold.can_glide:
            ahead = walk(carry)
        else:
            carry, quiet = soar(carry, fold)
            # A loop of one round or none: unlike `cond`, it changes a ledger where it is.
            _, ahead = jax.lax.while_loop(
                lambda c: c[0],
                lambda c: (jnp.zeros((), bool), walk(c[1])),
                (~jnp.asarray(quiet), carry),
            )
        sound = is_finite(ahead)
        return chosen(sound, ahead, carry), sound

    def one(carry: Carry) -> Carry:
        ahead = take(carry)
        status = jnp.where(is_finite(ahead), carry.status, int(Status.NOT_FINITE))
        if stop is not None:
            met = stop(dynamics.state_of(carry.inner))
            status = jnp.where(met, int(Status.STOPPED), status)
        keep = status == Status.RUNNING
        moved = filed(chosen(keep, ahead, carry))
        return eqx.tree_at(lambda c: c.status, moved, status)

    goes_on: Any = True
    if stop is None and bursts:
        carry, sound = jax.lax.while_loop(
            lambda c: is_burst(c) & may_go(c[0], BURST), burst, (carry, _is_running(carry))
        )
        goes_on = ~is_burst((carry, sound))
    carry = jax.lax.while_loop(
        lambda c: goes_on & _is_running(c) & (c.index < until) & may_go(c, 1), one, carry
    )
    if stop is None:
        return carry
    met = _is_running(carry) & stop(dynamics.state_of(carry.inner))
    status = jnp.where(met, int(Status.STOPPED), carry.status)
    return eqx.tree_at(lambda c: c.status, carry, status)


def _is_running(carry: Carry) -> Array:
    return carry.status == Status.RUNNING


@traceable
@nan_is_a_result()
def run(
    system: AbstractSystem,
    dynamics: AbstractDynamics,
    state: PyTree,
    *,
    at: Array,
    record: Callable[..., PyTree],
    fold: AbstractFold | None = None,
    stop: Callable[[PyTree], Array] | None = None,
    key: PRNGKeyArray | None = None,
) -> Trajectory:
    """Move `system` from `state` by `dynamics`, recording at the steps (or times) `at`.

    Pure: it may be compiled, mapped with `vmap` and differentiated as JAX allows. Nothing is
    compiled again when only numbers change.

    Args:
        system: What moves.
        dynamics: How it moves.
        state: Where it starts.
        at: Increasing steps, or times for a flow, at which to record.
        record: `record(system, dynamics, carry)` for steps, `record(state)` for a flow; returns a
            pytree of arrays. A Module, or any hashable function.
        fold: A reduction over every step. Not for a flow.
        stop: Ends the run at the first state for which `stop(state)` is true. Not for a flow.
        key: Random numbers, for dynamics that draw them.

    Paper: Section 2.
    """
    if dynamics.needs_key and key is None:
        raise InputError(
            f"`{type(dynamics).__name__}` draws random numbers: pass `key=jax.random.key(0)`."
        )
    if isinstance(dynamics, AbstractFlow):
        if fold is not None or stop is not None:
            raise InputError("`fold` and `stop` need steps, and a flow has none. Leave them out.")
        return dynamics.solve(system, state, at, record)
    if not isinstance(dynamics, AbstractStepwise):
        raise InputError(f"`dynamics` must be one of engram's dynamics, got {dynamics!r}.")
    context = Context(system, dynamics, fold, stop, key)
    at = jnp.asarray(at)
    carry, records, reached = context.segment(context.begin(state), at, record)
    return Trajectory(
        times=at,
        records=records,
        folded=context.finish(carry),
        final=dynamics.state_of(carry.inner),
        status=jnp.where(_is_running(carry), int(Status.COMPLETED), carry.status),
        stopped_at=carry.index,
        num_recorded=reached.sum(),
        num_steps=carry.index,
    )
