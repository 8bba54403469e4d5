"""Descent: an optimizer times a sampling; and the three names that people know."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from engram._checks import InputError, check_count, check_not_negative, is_traced
from engram._types import Array, ArrayLike, Numbers, PyTree, Rate, Scalar
from engram.dynamics._base import AbstractStepwise
from engram.dynamics._optimizers import AbstractOptimizer, Plain, wrap
from engram.dynamics._sampling import AbstractSampling, Batches, Everything, Replayed
from engram.dynamics._sharing import Shares, Update
from engram.system import AbstractSystem


@runtime_checkable
class Transformation(Protocol):
    """What optax has: a pair of functions."""

    @property
    def init(self) -> Callable[..., Any]: ...

    @property
    def update(self) -> Callable[..., Any]: ...


class Moving(eqx.Module):
    """A state, what the optimizer remembers, and what the sampling carries."""

    state: PyTree
    memory: PyTree
    drawn: Any = None


class Descent(AbstractStepwise):
    r"""Steps of an optimizer on the laws of a sampling: its changes for $\nabla L_{p_t}(W_t)$.

    Args:
        optimizer: From gradients to changes of the state.
        sampling: Which law of the data each step sees; by default the data's own.
        steps: How many updates; the path has one point more.
        weight_decay: $\lambda$ of a term $\lambda W$ added to the gradient. Not with `adamw`, which has
            a decay of its own.

    Paper: Section 2.
    """

    optimizer: AbstractOptimizer
    sampling: AbstractSampling
    steps: Any
    weight_decay: Any

    def __init__(
        self,
        optimizer: AbstractOptimizer | Transformation,
        sampling: AbstractSampling | None = None,
        *,
        steps: int,
        weight_decay: Scalar | None = None,
    ):
        if not isinstance(optimizer, AbstractOptimizer | Transformation):
            raise InputError(
                f"`optimizer` must be an optax transformation or one of engram.dynamics' own, got "
                f"{optimizer!r}. Try `engram.dynamics.adam(1e-2)`."
            )
        sampling = Everything() if sampling is None else sampling
        if not isinstance(sampling, AbstractSampling):
            raise InputError(
                f"`sampling` must be one of engram.dynamics' samplings, got {sampling!r}. Try "
                "`engram.dynamics.Batches(16)`."
            )
        # An array, so that changing it does not recompile.
        self.steps = np.asarray(check_count("steps", steps, least=0))
        optimizer = optimizer if isinstance(optimizer, AbstractOptimizer) else wrap(optimizer)
        self.optimizer, self.sampling = optimizer.over(int(self.steps)), sampling
        self.weight_decay = None
        if weight_decay is not None:
            self.weight_decay = _read_decay(weight_decay, self.optimizer)

    @property
    def needs_key(self) -> bool:
        return self.sampling.needs_key

    def check(self, system: AbstractSystem) -> None:
        self.sampling.check(system)

    def init(self, system: AbstractSystem, state: PyTree) -> Moving:
        return self.init_with(system, state, None)

    def init_with(self, system: AbstractSystem, state: PyTree, key: PRNGKeyArray | None) -> Moving:
        return Moving(state, self.optimizer.init(state), self.sampling.init(system, key))

    def step(
        self, system: AbstractSystem, inner: Moving, index: Array, key: PRNGKeyArray | None
    ) -> Moving:
        law, drawn = self.sampling.law(system, inner.drawn, index, key)
        g = system.grad(inner.state, law)
        if self.weight_decay is not None:
            g = jax.tree.map(lambda g, x: g + self.weight_decay * x, g, inner.state)
        change, memory = self.optimizer.update(g, inner.memory, inner.state, index, system)
        add = lambda x, c: jnp.asarray(x + c, jnp.asarray(x).dtype)
        return Moving(jax.tree.map(add, inner.state, change), memory, drawn)

    def begin_split(self, parts: PyTree, state: PyTree) -> PyTree:
        """What `split` remembers before the first step."""
        return self.optimizer.begin_split(self._with_decay(parts, state), state)

    def split(self, parts: PyTree, past: PyTree, update: Update) -> Shares | None:
        """The changes that parts of an update's gradient made, and the decay; None if not known."""
        if self.weight_decay is None:
            return self.optimizer.split(parts, past, update)
        g = jax.tree.map(lambda g, x: g + self.weight_decay * x, update.gradient, update.state)
        parts = self._with_decay(parts, update.state)
        shares = self.optimizer.split(parts, past, update._replace(gradient=g))
        if shares is None:
            return None
        own = jax.tree.map(lambda change: change[-1], shares.changes)
        if shares.decay is not None:
            own = jax.tree.map(jnp.add, own, shares.decay)
        return Shares(jax.tree.map(lambda change: change[:-1], shares.changes), own, shares.past)

    def _with_decay(self, parts: PyTree, state: PyTree) -> Any:
        """The decay is one more part of the gradient."""
        if self.weight_decay is None:
            return parts
        own = lambda part, x: jnp.concatenate([part, (self.weight_decay * x)[None]])
        return jax.tree.map(own, parts, state)

    @property
    def decays(self) -> bool:
        """Whether weights shrink by themselves, coupled or not."""
        own = self.optimizer.settings().get("weight_decay", 0.0)
        return bool(own > 0) or (self.weight_decay is not None and bool(self.weight_decay > 0))

    def law_at(
        self, system: AbstractSystem, inner: Moving, index: Array, key: PRNGKeyArray | None
    ) -> Array | None:
        return self.sampling.law(system, inner.drawn, index, key)[0]

    def state_of(self, inner: Moving) -> PyTree:
        return inner.state

    @property
    def num_steps(self) -> int:
        return int(self.steps)

    def time_at(self, steps: ArrayLike) -> Numbers:
        rate, at = np.asarray(self.learning_rate), np.asarray(steps)
        with np.errstate(over="ignore"):  # rates near the largest number: the time is infinite
            return rate * at if rate.ndim == 0 else np.append(0.0, np.cumsum(rate))[at]

    def threshold(self, index: Array) -> Float[Array, ""]:
        threshold = self.optimizer.threshold(index)
        # Weight decay adds itself to the curvature that the method feels.
        return threshold if self.weight_decay is None else threshold - self.weight_decay

    def preconditioner(self, memory: Moving) -> PyTree:
        return self.optimizer.preconditioner(memory.memory)

    @property
    def is_preconditioned(self) -> bool:
        return self.optimizer.is_preconditioned

    @property
    def needs_weights(self) -> str | None:
        decay = 0.0 if self.weight_decay is None else self.weight_decay
        if self.optimizer.is_normalised and (is_traced(decay) or decay > 0):
            return "the length of a gradient with weight decay depends on all of W."
        return self.optimizer.needs_weights

    @property
    def needs_margins_only(self) -> bool:
        return self.optimizer.is_plain and self.weight_decay is None

    @property
    def learning_rate(self) -> Array | float:
        """The learning rate: one number, one per step, or NaN where it is not known."""
        return self.optimizer.rates()

    @property
    def batch_size(self) -> int | None:
        """How many samples a step sees; None for all."""
        return getattr(self.sampling, "batch_size", None)

    @property
    def batches(self) -> Array | None:
        """Batches that are replayed, if they are."""
        return getattr(self.sampling, "batches", None)

    def settings(self) -> dict[str, Any]:
        decay = {} if self.weight_decay is None else {"weight_decay": self.weight_decay}
        parts = self.optimizer.settings() | {"steps": self.steps} | self.sampling.settings()
        return {"kind": "descent"} | decay | parts


def _read_decay(weight_decay: Any, optimizer: AbstractOptimizer) -> Any:
    check_not_negative("weight_decay", weight_decay)
    traced = is_traced(weight_decay)
    if "weight_decay" in optimizer.settings() and (traced or weight_decay != 0):
        name = optimizer.label
        raise InputError(
            f"`weight_decay` must be left out with {name}, which has its own, got {weight_decay}. "
            f"Pass it to `{name}(..., weight_decay=...)`."
        )
    return weight_decay if traced else np.asarray(weight_decay, float)


class GradientDescent(Descent):
    r"""Full-batch gradient descent, $W_{t+1} = W_t - \eta_t \nabla L(W_t)$.

    Args:
        learning_rate: $\eta$: a number, one number per step, or a schedule (as optax has them), a
            function from the step to the rate.
        steps: How many updates; the path has one point more.

    Paper: eq:GD.
    """

    def settings(self) -> dict[str, Any]:
        return AbstractStepwise.settings(self)

    def __init__(self, learning_rate: Rate, steps: int):
        super().__init__(Plain(learning_rate), steps=steps)


class StochasticGradientDescent(Descent):
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

    def __init__(
        self, learning_rate: Rate, steps: int, batch_size: int, *, batches: ArrayLike | None = None
    ):
        sampling = Batches(batch_size) if batches is None else Replayed(batches)
        super().__init__(Plain(learning_rate), sampling, steps=steps)
        if isinstance(sampling, Replayed) and sampling.batches.shape != (steps, batch_size):
            raise InputError(
                f"`batches` must be integers of shape (steps, batch_size) = ({steps}, {batch_size}), "
                f"got shape {sampling.batches.shape}. Give one row of samples per step."
            )

    def settings(self) -> dict[str, Any]:
        return AbstractStepwise.settings(self)


class PracticalDescent(Descent):
    r"""What practitioners use: momentum, preconditioning, weight decay, batches.

    Args:
        optimizer: One of `engram.dynamics.adam(...)`, `momentum`, `nesterov`, `adamw`, `rmsprop`,
            `sign`, `normalised`, `muon`, `sgd`, or any optax transformation.
        steps: How many updates.
        batch_size: Draw batches of this size; by default all the data.
        sampling: Any other way to choose what a step sees.
        weight_decay: $\lambda$ of a term $\lambda W$ added to the gradient. Not with `adamw`, which has
            a decay of its own.

    Paper: Section 2, practical descent.
    """

    def __init__(
        self,
        optimizer: AbstractOptimizer | Transformation,
        steps: int,
        batch_size: int | None = None,
        *,
        sampling: AbstractSampling | None = None,
        weight_decay: Scalar = 0.0,
    ):
        if batch_size is not None:
            if sampling is not None:
                raise InputError(
                    f"`batch_size` and `sampling` exclude each other, got {batch_size} and {sampling!r}. "
                    "Give the batch size to the sampling."
                )
            sampling = Batches(batch_size)
        super().__init__(optimizer, sampling, steps=steps, weight_decay=weight_decay)

    def _unshown(self) -> tuple[str, ...]:
        return ("batch_size",)

    def settings(self) -> dict[str, Any]:
        """The kind is the optimizer's name; batches, and all the data, go without saying."""
        table = super().settings()
        table["kind"] = table.pop("optimizer")
        if table["sampling"] in ("everything", "batches"):
            del table["sampling"]
        return table
