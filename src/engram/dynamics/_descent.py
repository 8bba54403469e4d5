"""Gradient descent, on all the data or on random batches of it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray, PyTree

from engram._checks import InputError, check_count, read_array
from engram._types import Array
from engram.dynamics._base import (
    AbstractStepwise,
    rate_at,
    read_rate,
    read_steps,
    summed_rates,
)
from engram.system import AbstractSystem


def descend(state: PyTree, gradient: PyTree, eta: Array) -> Any:
    return jax.tree.map(lambda x, g: x - eta * g, state, gradient)


class GradientDescent(AbstractStepwise):
    r"""Full-batch gradient descent, $W_{t+1} = W_t - \eta_t \nabla L(W_t)$.

    Args:
        learning_rate: $\eta$: a number, one number per step, or a schedule (as optax has them), a
            function from the step to the rate.
        steps: How many updates; the path has one point more.

    Paper: eq:GD.
    """

    learning_rate: Any
    steps: Any

    def __init__(self, learning_rate: Any, steps: int):
        self.steps = read_steps(steps)
        self.learning_rate = read_rate(learning_rate, int(self.steps))

    @property
    def needs_key(self) -> bool:
        return False

    def step(
        self, system: AbstractSystem, inner: Any, index: Array, key: PRNGKeyArray | None
    ) -> Any:
        del key
        return descend(inner, system.grad(inner), rate_at(self.learning_rate, index))

    @property
    def num_steps(self) -> int:
        return int(self.steps)

    def time_at(self, steps: Any) -> Any:
        return summed_rates(self.learning_rate, steps)

    def threshold(self, index: Array) -> Float[Array, ""]:
        return 2 / rate_at(self.learning_rate, index)


class StochasticGradientDescent(AbstractStepwise):
    r"""Descent on random batches, $W_{t+1} = W_t - \frac{\eta_t}{|B|} \sum_{x \in B} \nabla \ell(W_t; x)$.

    Each batch holds independent draws from the law of the data.

    Args:
        learning_rate: As for `GradientDescent`.
        steps: How many updates.
        batch_size: $|B|$.
        batches: Batches to replay instead of drawing, shape (steps, batch_size): token indices, or
            `x * M + y` for the pair (x, y) when targets are noisy.

    Paper: eq:SGD, with the mean over the batch; the sum that is printed has |B| times the gradient
    as its mean.
    """

    learning_rate: Any
    steps: Any
    batches: Any
    batch_size: int = eqx.field(static=True)

    def __init__(self, learning_rate: Any, steps: int, batch_size: int, *, batches: Any = None):
        self.steps = read_steps(steps)
        self.learning_rate = read_rate(learning_rate, int(self.steps))
        self.batch_size = check_count("batch_size", batch_size)
        self.batches = None if batches is None else _read_batches(batches, steps, batch_size)

    @property
    def needs_key(self) -> bool:
        return self.batches is None

    def check(self, system: AbstractSystem) -> None:
        largest = -1 if self.batches is None else int(self.batches.max(initial=0))
        if largest >= np.size(system.law):
            raise InputError(
                f"`batches` must name samples of the problem, 0..{np.size(system.law) - 1}, got "
                f"{largest}. Tokens count from zero."
            )

    def step(
        self, system: AbstractSystem, inner: Any, index: Array, key: PRNGKeyArray | None
    ) -> Any:
        law = batch_law(system.law, self.batch_size, self.batches, index, key)
        return descend(inner, system.grad(inner, law), rate_at(self.learning_rate, index))

    @property
    def num_steps(self) -> int:
        return int(self.steps)

    def time_at(self, steps: Any) -> Any:
        return summed_rates(self.learning_rate, steps)

    def threshold(self, index: Array) -> Float[Array, ""]:
        return 2 / rate_at(self.learning_rate, index)


def batch_law(
    law: Array, batch_size: int, batches: Array | None, index: Array, key: PRNGKeyArray | None
) -> Array:
    """The law of one batch, its counts / |B|: drawn from `law`, or replayed."""
    law = jnp.asarray(law)
    if batches is not None:
        samples = jnp.asarray(batches)[index]
    else:
        if key is None:
            raise InputError("`key` must be given: random batches draw from it.")
        # Inverse of the distribution function: a sample of probability zero has no room to be hit.
        reached = jnp.cumsum(law.ravel())
        u = jax.random.uniform(jax.random.fold_in(key, index), (batch_size,), law.dtype)
        samples = jnp.searchsorted(reached, u * reached[-1], side="right")
    counts = jnp.zeros(law.size, law.dtype).at[samples].add(1.0)
    return counts.reshape(law.shape) / batch_size


def _read_batches(batches: Any, steps: int, batch_size: int) -> np.ndarray:
    array = read_array("batches", batches)
    if array.shape != (steps, batch_size) or array.dtype.kind not in "iu":
        raise InputError(
            f"`batches` must be integers of shape (steps, batch_size) = ({steps}, {batch_size}), got "
            f"{array.dtype} of shape {array.shape}. Give one row of samples per step."
        )
    if array.min(initial=0) < 0:
        raise InputError(f"`batches` must not be negative, got {array.min()}. Tokens count from 0.")
    return array.astype(np.int32)
