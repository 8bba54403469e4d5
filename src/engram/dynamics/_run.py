"""run: the one verb. It moves a system by a dynamics, and records on the way."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PRNGKeyArray, PyTree

from engram._checks import InputError
from engram._precision import nan_is_a_result, traceable
from engram._types import Array
from engram.dynamics._base import AbstractDynamics, AbstractStepwise
from engram.dynamics._flow import GradientFlow, solve
from engram.dynamics._trajectory import Status, Trajectory
from engram.registry import read_off
from engram.system import AbstractSystem, Look, named_parts

# Steps between two looks at whether to go on. A short loop of known length compiles to far faster
# code than one whose end is known only as it runs, or whose body is long.
BURST = 32


class Moment(eqx.Module):
    """A moment of a run: what moves, how it moves, what is carried, and a look at the state."""

    system: Any
    dynamics: Any
    carry: Any
    look: Look

    @property
    def state(self) -> Any:
        return self.dynamics.state_of(self.carry.inner)


def moment_of(system: AbstractSystem, dynamics: AbstractDynamics, carry: Any) -> Moment:
    """The moment at which a run is."""
    return Moment(system, dynamics, carry, system.look(dynamics.state_of(carry.inner)))


class AbstractFold(eqx.Module):
    """A reduction over every step: first hits, spikes and such cannot come from sparse records.

    `init` and `update` are enough. A fold that `can_glide` has `watch`, `see`, `is_quiet` and `skip` as
    well, and goes faster through stretches in which nothing happens.
    """

    @abc.abstractmethod
    def init(self, system: AbstractSystem, state: PyTree) -> Any:
        """What is known before the first step."""

    @abc.abstractmethod
    def update(self, folded: Any, index: Array, moment: Moment) -> Any:
        """Take in step `index`."""

    def describe(self, folded: Any, last: int) -> dict[str, tuple[tuple[str, ...], Any]]:
        """The result as variables of a dataset: axes and values by name; by default each part by its name."""
        del last
        found = named_parts(folded, type(self).__name__.lower())
        axes = lambda name, x: tuple(f"{name}_{i}" for i in range(np.ndim(x)))
        return {name: (axes(name, x), np.asarray(x)) for name, x in found.items()}

    def settings(self) -> dict[str, Any]:
        """Its kind and its numbers, as specs and files have them."""
        return read_off("event", self)

    @property
    def can_glide(self) -> bool:
        """Whether it has the four methods below."""
        return False

    def watch(self, folded: Any, index: Array) -> Any:
        """Begin to look out for anything that `update` would have to take in one by one."""
        raise NotImplementedError

    def see(self, watched: Any, moment: Moment) -> Any:
        """Take in one step; cheaper than `update`."""
        raise NotImplementedError

    def is_quiet(self, watched: Any) -> Array:
        """Whether nothing happened in what was seen, so that `skip` is as good as `update`."""
        raise NotImplementedError

    def skip(self, folded: Any, watched: Any, index: Array) -> Any:
        """Take in a quiet stretch whose last step was `index`, all at once."""
        raise NotImplementedError


class Carry(eqx.Module):
    """Where a run is: enough to go on from, in this process or another."""

    index: Int[Array, ""]
    inner: Any
    folded: Any
    status: Int[Array, ""]


def begin(
    system: AbstractSystem, dynamics: AbstractStepwise, state: PyTree, fold: AbstractFold | None
) -> Carry:
    """What a run carries before its first step."""
    folded = None if fold is None else fold.init(system, state)
    zero = jnp.zeros((), int)
    return Carry(zero, dynamics.init(system, state), folded, zero + int(Status.RUNNING))


def advance(
    system: AbstractSystem,
    dynamics: AbstractStepwise,
    carry: Carry,
    until: Int[Array, ""],
    *,
    fold: AbstractFold | None = None,
    stop: Any = None,
    key: PRNGKeyArray | None = None,
    bursts: bool = True,
) -> Carry:
    """Go on to step `until`, unless the state stops being finite or `stop(state)` holds before.

    The fold sees each state that is left behind; the one arrived at is seen when it is left, or by
    `finish`. Without `bursts` it goes step by step, which compiles to a third of the program: the same
    path, and as fast where `until` is less than a burst away.
    """

    def take(carry: Carry) -> Carry:
        folded = carry.folded
        if fold is not None:
            folded = fold.update(folded, carry.index, moment_of(system, dynamics, carry))
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
            watched = fold.see(watched, moment_of(system, dynamics, here))
            return dynamics.step(system, inner, here.index, key), watched

        watched = fold.watch(carry.folded, carry.index)
        inner, watched = jax.lax.fori_loop(0, BURST, body, (carry.inner, watched))
        folded = fold.skip(carry.folded, watched, carry.index + BURST - 1)
        ahead = Carry(carry.index + BURST, inner, folded, carry.status)
        return ahead, fold.is_quiet(watched)

    def walk(carry: Carry) -> Carry:
        """A burst in which the fold takes in every step."""
        return jax.lax.fori_loop(0, BURST, lambda _, c: take(c), carry)

    def burst(carry_and_sound):
        carry, _ = carry_and_sound
        if fold is None or not fold.can_glide:
            ahead = walk(carry)
        else:
            glided, quiet = glide(carry, fold)
            ahead = jax.lax.cond(quiet, lambda: glided, lambda: walk(carry))
        sound = is_finite(ahead)
        return jax.tree.map(lambda a, b: jnp.where(sound, a, b), ahead, carry), sound

    def one(carry: Carry) -> Carry:
        ahead = take(carry)
        status = jnp.where(is_finite(ahead), carry.status, int(Status.NOT_FINITE))
        if stop is not None:
            met = stop(dynamics.state_of(carry.inner))
            status = jnp.where(met, int(Status.STOPPED), status)
        keep = status == Status.RUNNING
        moved = jax.tree.map(lambda a, b: jnp.where(keep, a, b), ahead, carry)
        return eqx.tree_at(lambda c: c.status, moved, status)

    if stop is None and bursts:
        carry, _ = jax.lax.while_loop(
            lambda c: c[1] & (c[0].index + BURST <= until), burst, (carry, _is_running(carry))
        )
    carry = jax.lax.while_loop(lambda c: _is_running(c) & (c.index < until), one, carry)
    if stop is None:
        return carry
    met = _is_running(carry) & stop(dynamics.state_of(carry.inner))
    status = jnp.where(met, int(Status.STOPPED), carry.status)
    return eqx.tree_at(lambda c: c.status, carry, status)


def _is_running(carry: Carry) -> Array:
    return carry.status == Status.RUNNING


def segment(
    system: AbstractSystem,
    dynamics: AbstractStepwise,
    carry: Carry,
    at: Int[Array, " T"],
    record: Any,
    *,
    fold: AbstractFold | None = None,
    stop: Any = None,
    key: PRNGKeyArray | None = None,
    bursts: bool = True,
) -> tuple[Carry, Any, Array]:
    """Go on through the steps `at`, recording at each; records that were not reached are NaN."""

    def to(carry: Carry, until: Array):
        carry = advance(
            system, dynamics, carry, until, fold=fold, stop=stop, key=key, bursts=bursts
        )
        reached = carry.index >= until
        noted = record(system, dynamics, carry)
        return carry, (jax.tree.map(lambda x: _blank_unless(reached, x), noted), reached)

    carry, (records, reached) = jax.lax.scan(to, carry, at)
    return carry, records, reached


def _blank_unless(reached: Array, value: Array) -> Array:
    if jnp.issubdtype(value.dtype, jnp.floating):
        return jnp.where(reached, value, jnp.nan)
    return value


def finish(
    system: AbstractSystem, dynamics: AbstractStepwise, carry: Carry, fold: AbstractFold | None
) -> Any:
    """What the fold makes of the whole run, the last state included."""
    if fold is None:
        return None
    return fold.update(carry.folded, carry.index, moment_of(system, dynamics, carry))


@traceable
@nan_is_a_result()
def run(
    system: AbstractSystem,
    dynamics: AbstractDynamics,
    state: PyTree,
    *,
    at: Array,
    record: Any,
    fold: AbstractFold | None = None,
    stop: Any = None,
    key: PRNGKeyArray | None = None,
) -> Trajectory:
    """Move `system` from `state` by `dynamics`, recording at the steps (or times) `at`.

    Pure: it may be compiled, mapped with `vmap` and differentiated as JAX allows. Nothing is
    compiled anew when only numbers change.

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
    if isinstance(dynamics, GradientFlow):
        if fold is not None or stop is not None:
            raise InputError("`fold` and `stop` need steps, and a flow has none. Leave them out.")
        return solve(system, dynamics, state, at, record)
    if not isinstance(dynamics, AbstractStepwise):
        raise InputError(f"`dynamics` must be one of engram's dynamics, got {dynamics!r}.")
    carry = begin(system, dynamics, state, fold)
    at = jnp.asarray(at)
    carry, records, reached = segment(
        system, dynamics, carry, at, record, fold=fold, stop=stop, key=key
    )
    running = carry.status == Status.RUNNING
    return Trajectory(
        times=at,
        records=records,
        folded=finish(system, dynamics, carry, fold),
        final=dynamics.state_of(carry.inner),
        status=jnp.where(running, int(Status.COMPLETED), carry.status),
        stopped_at=carry.index,
        num_recorded=reached.sum(),
        num_steps=carry.index,
    )
