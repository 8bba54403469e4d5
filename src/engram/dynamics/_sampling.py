"""Sampling: which law of the data each step sees."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, check_count, check_distribution, read_array
from engram._memory_limits import check_fits
from engram._types import Array, ArrayLike, PyTree
from engram.dynamics._base import need_key
from engram.system import AbstractSystem, Registered


class AbstractSampling(Registered):
    """Which samples a step sees, as a law: how often each one comes in it."""

    role = "sampling"
    needs_key = False  # whether it draws random numbers

    def check(self, system: AbstractSystem) -> None:
        """Refuse a system that it does not fit; on the host, before a run."""

    def init(self, system: AbstractSystem, key: PRNGKeyArray | None) -> PyTree:
        """What is carried from step to step; nothing by default."""
        del system, key

    @abc.abstractmethod
    def law(
        self, system: AbstractSystem, inner: PyTree, index: Array, key: PRNGKeyArray | None
    ) -> tuple[Array | None, PyTree]:
        """The law of step `index` (None for the system's own), and what is carried on."""


class Everything(AbstractSampling):
    """Every step sees all the data."""

    def law(
        self, system: AbstractSystem, inner: PyTree, index: Array, key: PRNGKeyArray | None
    ) -> tuple[Array | None, PyTree]:
        return None, inner


class Batches(AbstractSampling):
    """Every step sees a batch of independent draws from the law of the data.

    Args:
        batch_size: $|B|$.
    """

    batch_size: int = eqx.field(static=True)

    needs_key = True

    def __init__(self, batch_size: int):
        self.batch_size = check_count("batch_size", batch_size)
        check_fits(48 * self.batch_size, batch_size=self.batch_size)

    def law(
        self, system: AbstractSystem, inner: PyTree, index: Array, key: PRNGKeyArray | None
    ) -> tuple[Array | None, PyTree]:
        law = jnp.asarray(system.law)
        # Inverse of the distribution function: a sample of probability zero has no room to be hit.
        reached = jnp.cumsum(law.ravel())
        here = jax.random.fold_in(need_key(key), index)
        u = jax.random.uniform(here, (self.batch_size,), law.dtype)
        samples = jnp.searchsorted(reached, u * reached[-1], side="right")
        return law_of_batch(samples, law), inner


class Replayed(AbstractSampling):
    """Every step sees a given batch.

    Args:
        batches: Integers of shape (steps, batch_size): token indices, or `x * M + y` for the pair (x, y)
            when targets are noisy.
    """

    batches: Any
    batch_size: int = eqx.field(static=True)

    def __init__(self, batches: ArrayLike):
        array = read_array("batches", batches)
        if array.ndim != 2 or array.dtype.kind not in "iu":
            raise InputError(
                f"`batches` must be integers of shape (steps, batch_size), got {array.dtype} of shape "
                f"{array.shape}. Give one row of samples per step."
            )
        if array.min(initial=0) < 0:
            raise InputError(
                f"`batches` must not be negative, got {array.min()}. Tokens count from 0."
            )
        self.batches, self.batch_size = array.astype(np.int32), array.shape[1]

    def check(self, system: AbstractSystem) -> None:
        largest = int(self.batches.max(initial=0))
        if largest >= np.size(system.law):
            raise InputError(
                f"`batches` must name samples of the problem, 0..{np.size(system.law) - 1}, got "
                f"{largest}. Tokens count from zero."
            )

    def law(
        self, system: AbstractSystem, inner: PyTree, index: Array, key: PRNGKeyArray | None
    ) -> tuple[Array | None, PyTree]:
        return law_of_batch(jnp.asarray(self.batches)[index], system.law), inner


class Epochs(AbstractSampling):
    """Every epoch sees each sample once, in an order of its own; what does not fill a batch is left out.

    Args:
        counts: How often each sample is in the data: whole numbers, proportional to the law.
        batch_size: $|B|$, at most their sum.
    """

    samples: Any
    counts: Any
    batch_size: int = eqx.field(static=True)

    needs_key = True

    def __init__(self, counts: ArrayLike, batch_size: int):
        array = read_array("counts", counts)
        if array.dtype.kind not in "iu" or array.min(initial=0) < 0 or not array.sum():
            raise InputError(
                f"`counts` must be whole numbers, not negative and not all zero, got {array}. Say how "
                "often each sample is in the data."
            )
        self.counts = array
        self.samples = np.repeat(np.arange(array.size), array.ravel()).astype(np.int32)
        self.batch_size = check_count("batch_size", batch_size)
        if self.batch_size > len(self.samples):
            raise InputError(
                f"`batch_size` must be at most the number of samples, {len(self.samples)}, got "
                f"{batch_size}. Choose a smaller one."
            )

    def check(self, system: AbstractSystem) -> None:
        law = np.asarray(system.law)
        shares = np.bincount(self.samples, minlength=law.size) / len(self.samples)
        if len(shares) != law.size or np.abs(shares - law.ravel()).max() > 1e-9:
            raise InputError(
                "`counts` must be proportional to the law of the data, or an epoch would be of another "
                "problem. Give the problem the frequencies `counts / counts.sum()`."
            )

    def law(
        self, system: AbstractSystem, inner: PyTree, index: Array, key: PRNGKeyArray | None
    ) -> tuple[Array | None, PyTree]:
        each = len(self.samples) // self.batch_size
        epoch, place = index // each, index % each
        order = jax.random.permutation(
            jax.random.fold_in(need_key(key), epoch), jnp.asarray(self.samples)
        )
        batch = jax.lax.dynamic_slice_in_dim(order, place * self.batch_size, self.batch_size)
        return law_of_batch(batch, system.law), inner


class Curriculum(AbstractSampling):
    """Step t sees the law p_t: a curriculum, or tasks one after another.

    Args:
        laws: One law per stage, with an axis for stages before those of the law; each sums to 1.
        lengths: How many steps each stage takes; the last one goes on to the end.
    """

    laws: Any
    ends: Any

    def __init__(self, laws: ArrayLike, lengths: ArrayLike):
        self.laws = read_array("laws", laws).astype(np.float64)
        counts = read_array("lengths", lengths)
        is_whole = counts.dtype.kind in "iu" and (counts >= 0).all()
        if counts.shape != self.laws.shape[:1] or not is_whole:
            raise InputError(
                f"`lengths` must be one number of steps per law, {len(self.laws)} of them, got {lengths}."
            )
        for law in self.laws:
            check_distribution("laws", law.ravel(), tolerance=1e-9)
        self.ends = np.cumsum(counts)

    def check(self, system: AbstractSystem) -> None:
        if self.laws.shape[1:] != np.shape(system.law):
            raise InputError(
                f"`laws` must have rows of the shape of the law, {np.shape(system.law)}, got "
                f"{self.laws.shape[1:]}. Give each sample its frequency."
            )

    def law(
        self, system: AbstractSystem, inner: PyTree, index: Array, key: PRNGKeyArray | None
    ) -> tuple[Array | None, PyTree]:
        stage = jnp.searchsorted(jnp.asarray(self.ends), index, side="right")
        return jnp.asarray(self.laws)[jnp.minimum(stage, len(self.laws) - 1)], inner

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.ends, prepend=0)


def law_of_batch(samples: Array, law: Array) -> Array:
    """The law of one batch, its counts / |B|, in the shape of the law that it was drawn from."""
    law = jnp.asarray(law)
    counts = jnp.zeros(law.size, law.dtype).at[samples].add(1.0)
    return counts.reshape(law.shape) / len(samples)
