"""Practical descent: any optax transformation, with or without batches, decay and layer norm."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, PRNGKeyArray, PyTree

from engram._checks import InputError, check_count, check_scalar, is_traced
from engram._types import Array
from engram.dynamics._base import AbstractStepwise, read_steps, summed_rates
from engram.dynamics._descent import batch_law
from engram.dynamics._optimizers import Optimizer, second_moment, wrap
from engram.system import AbstractSystem


class Moving(eqx.Module):
    """A state and what the optimizer remembers."""

    state: Any
    memory: Any


class PracticalDescent(AbstractStepwise):
    r"""What practitioners use: momentum, preconditioning, weight decay, layer norm.

    Args:
        optimizer: One of `engram.dynamics.adam(...)`, `momentum`, `nesterov`, `adamw`, `rmsprop`,
            `sign`, `normalised`, `muon`, `sgd`, or any optax transformation.
        steps: How many updates.
        batch_size: Draw batches of this size; by default all the data.
        weight_decay: $\lambda$ of a term $\lambda W$ added to the gradient. Not with `adamw`, which has
            a decay of its own.
        layer_norm: Score W e_x / ||W e_x|| instead of W e_x; then W must not start at zero.

    Paper: Section 2, practical descent.
    """

    optimizer: Optimizer
    steps: Any
    weight_decay: Any
    batch_size: int | None = eqx.field(static=True)
    layer_norm: bool = eqx.field(static=True)

    def __init__(
        self,
        optimizer: Any,
        steps: int,
        batch_size: int | None = None,
        *,
        weight_decay: Any = 0.0,
        layer_norm: bool = False,
    ):
        if isinstance(optimizer, optax.GradientTransformation):
            optimizer = wrap(optimizer)
        if not isinstance(optimizer, Optimizer):
            raise InputError(
                f"`optimizer` must be an optax transformation or one of engram.dynamics' own, got "
                f"{optimizer!r}. Try `engram.dynamics.adam(1e-2)`."
            )
        if not is_traced(weight_decay) and check_scalar("weight_decay", weight_decay) < 0:
            raise InputError(f"`weight_decay` must not be negative, got {weight_decay}. Use 0.")
        if "weight_decay" in optimizer.numbers and (is_traced(weight_decay) or weight_decay != 0):
            name = optimizer.name
            raise InputError(
                f"`weight_decay` must be left out with {name}, which has its own, got {weight_decay}. "
                f"Pass it to `{name}(..., weight_decay=...)`."
            )
        self.optimizer = optimizer
        self.steps = read_steps(steps)
        self.weight_decay = (
            weight_decay if is_traced(weight_decay) else np.asarray(weight_decay, float)
        )
        self.batch_size = None if batch_size is None else check_count("batch_size", batch_size)
        self.layer_norm = layer_norm

    @property
    def needs_key(self) -> bool:
        return self.batch_size is not None

    def init(self, system: AbstractSystem, state: PyTree) -> Moving:
        del system
        return Moving(state, self.optimizer.build().init(state))

    def step(
        self, system: AbstractSystem, inner: Moving, index: Array, key: PRNGKeyArray | None
    ) -> Moving:
        law = None
        if self.batch_size is not None:
            law = batch_law(system.law, self.batch_size, None, index, key)
        g = system.grad(inner.state, law)
        g = jax.tree.map(lambda g, x: g + self.weight_decay * x, g, inner.state)
        if self.optimizer.is_normalised:
            norm = system.norm(g)
            # Once the gradient is exactly zero there is no direction left to take.
            g = jax.tree.map(lambda g: jnp.where(norm > 0, g / jnp.where(norm > 0, norm, 1), 0), g)
        moves, remembered = self.optimizer.build().update(g, inner.memory, inner.state)
        return Moving(optax.apply_updates(inner.state, moves), remembered)

    def state_of(self, inner: Moving) -> Any:
        return inner.state

    @property
    def num_steps(self) -> int:
        return int(self.steps)

    def time_at(self, steps: Any) -> Any:
        rate = self.optimizer.numbers.get("learning_rate", np.asarray(np.nan))
        return summed_rates(rate, steps)

    def threshold(self, index: Array) -> Float[Array, ""]:
        del index
        # Weight decay adds itself to the curvature that the method feels.
        return jnp.asarray(self.optimizer.threshold(self.optimizer.numbers)) - self.weight_decay

    def preconditioner(self, inner: Moving) -> Any:
        return second_moment(self.optimizer, inner.memory)
