"""The two kinds of dynamics: those that step, and those that flow."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from engram._checks import InputError, is_traced, read_array
from engram._memory_limits import check_fits
from engram._types import Array, ArrayLike, Numbers, PyTree
from engram.dynamics._trajectory import Trajectory
from engram.system import AbstractSystem, Registered


class Stability(Registered):
    """What is known of the stability of a method; by default nothing."""

    def threshold(self, index: Array) -> Array:
        """The sharpness beyond which the method is unstable on a quadratic; NaN if that is not known."""
        del index
        return jnp.asarray(jnp.nan)

    def preconditioner(self, memory: PyTree) -> PyTree:
        """What gradients are divided by, entry by entry, from what is carried or remembered; or None."""
        del memory
        return None

    @property
    def is_preconditioned(self) -> bool:
        """Whether gradients are divided by something, so that not the plain sharpness counts."""
        return type(self).preconditioner is not Stability.preconditioner

    @property
    def needs_weights(self) -> str | None:
        """Why it cannot run in the space of particles or margins, in a sentence; None if it can."""
        return None


class AbstractDynamics(Stability):
    """A way to move a system."""

    role = "dynamics"

    needs_key = False  # whether it draws random numbers
    is_isotropic = False  # whether it shakes the entries of W themselves
    # Whether a run in the space of margins needs nothing but them: not even lengths of updates.
    needs_margins_only = False

    @property
    def end(self) -> float:
        """The flow time at which a whole run ends; NaN if that is not known."""
        return float("nan")

    def state_of(self, inner: PyTree) -> PyTree:
        """The state within what is carried."""
        return inner

    def law_at(
        self, system: AbstractSystem, inner: PyTree, index: Array, key: PRNGKeyArray | None
    ) -> Array | None:
        """The law of the data that step `index` sees; None for the system's own."""
        del system, inner, index, key
        return None

    def check(self, system: AbstractSystem) -> None:
        """Refuse a system that it does not fit; on the host, before a run."""


class AbstractFlow(AbstractDynamics):
    """Dynamics in continuous time, solved as a whole and recorded at its own times."""

    times: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def solve(
        self, system: AbstractSystem, state: PyTree, times: Array, record: Callable[..., PyTree]
    ) -> Trajectory:
        """Move a state, recording `record(state)` at the given times; pure, so it may be compiled."""

    @property
    def end(self) -> float:
        return float(self.times[-1])

    def at(self, times: ArrayLike) -> "AbstractFlow":
        """The same, recorded at other times."""
        return eqx.tree_at(lambda flow: flow.times, self, times)

    def attempts(self) -> list["AbstractFlow"]:
        """What to try in turn until one does not run out of steps: by default itself alone."""
        return [self]


class AbstractStepwise(AbstractDynamics):
    """Dynamics in discrete steps. What it carries (`inner`) is the state itself, or contains it."""

    counts_time = (
        False  # whether its steps are those of a scheme, so that results are counted in time
    )

    def init(self, system: AbstractSystem, state: PyTree) -> PyTree:
        """What is carried from step to step, at the start: by default the state."""
        del system
        return state

    def init_with(self, system: AbstractSystem, state: PyTree, key: PRNGKeyArray | None) -> PyTree:
        """The same for a dynamics that also draws at the start."""
        del key
        return self.init(system, state)

    @abc.abstractmethod
    def step(
        self, system: AbstractSystem, inner: PyTree, index: Array, key: PRNGKeyArray | None
    ) -> PyTree:
        """Make step number `index`; random numbers come from `key` and `index` alone."""

    @property
    def record_at(self) -> np.ndarray | None:
        """The steps to record unless others are asked for; None for `simulate`'s own choice."""
        return None

    @property
    @abc.abstractmethod
    def num_steps(self) -> int:
        """How many steps a whole run makes."""

    @abc.abstractmethod
    def time_at(self, steps: ArrayLike) -> Numbers:
        """The flow time that corresponds to each step: the sum of the learning rates so far."""

    @property
    def end(self) -> float:
        return float(self.time_at(np.asarray([self.num_steps]))[0])


def read_rate(learning_rate: Any, steps: int) -> Any:
    """A learning rate as numbers: one, or one per step from a schedule or an array.

    A schedule is evaluated once for all steps, so that changing its numbers does not recompile.
    """
    if callable(learning_rate):
        check_fits(16 * steps, steps=max(steps, 1))
        at = lambda step: jnp.asarray(learning_rate(step), float)
        with jax.enable_x64(True):
            learning_rate = np.asarray(jax.vmap(at)(jnp.arange(steps)))
    if is_traced(learning_rate):
        return learning_rate
    if np.ndim(learning_rate) == 1 and steps == 0:
        learning_rate = np.zeros(())
    rate = read_array("learning_rate", learning_rate).astype(np.float64)
    if rate.ndim > 1 or (rate.ndim == 1 and len(rate) != steps):
        raise InputError(
            f"`learning_rate` must be a number, a schedule, or one number per step, got shape "
            f"{rate.shape} for {steps} steps. Give {steps} numbers."
        )
    if not np.isfinite(rate).all() or (rate < 0).any():
        bad = rate[~(np.isfinite(rate) & (rate >= 0))].flat[0]
        raise InputError(
            f"`learning_rate` must be finite and not negative, got {bad:g}. Choose a positive one."
        )
    return rate


def rate_at(rate: Array, index: Array | int) -> Float[Array, ""]:
    rate = jnp.asarray(rate)
    return rate if rate.ndim == 0 else rate[jnp.minimum(index, len(rate) - 1)]


def need_key(key: PRNGKeyArray | None) -> PRNGKeyArray:
    """The key of a run that draws, which must have one."""
    if key is None:
        raise InputError("`key` must be given: random numbers are drawn from it.")
    return key
