"""Stochastic gradient flow: an Ito equation, by the Euler-Maruyama scheme."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from engram._checks import (
    InputError,
    check_count,
    check_not_negative,
    check_scalar,
    is_traced,
    read_array,
)
from engram._types import Array, ArrayLike, Numbers, PyTree, Scalar
from engram.dynamics._base import AbstractStepwise, need_key
from engram.dynamics._flow import read_times
from engram.system import AbstractSystem


class StochasticGradientFlow(AbstractStepwise):
    r"""The Ito equation $dW = -\nabla L(W)\,dt + \sqrt{\eta / |B|}\, \Sigma(W)^{1/2} dB + \sigma\, dE$.

    $\Sigma$ is the covariance of one-sample gradients, and $\eta, |B|$ are the learning rate and batch
    size of the descent that it describes, one step of which takes the time $\eta$. The noise is driven
    by one Brownian motion per sample: the law of the data shakes by
    $\sqrt{p}\,dB - p \sum \sqrt{p}\,dB$, whose covariance is that of one draw. $\sigma\, dE$ shakes
    every entry of W alike. Only Euler steps converge to Ito's solution among the cheap schemes.

    Args:
        times: When to record, increasing from zero on; or `end`, `num_times` and `spacing`, as for
            `GradientFlow`.
        learning_rate: $\eta$, with `batch_size`: how large the noise of the gradients is.
        batch_size: $|B|$.
        noise_scale: $\sigma$, the isotropic noise on W.
        time_step: The largest step of the scheme; by default a tenth of the learning rate, or of
            the shortest time between records, or 0.01, whichever is smallest.
        brownian: Increments of the Brownian motions to use instead of drawing them, one row of
            the shape of the law per step.

    Paper: eq:SGF, where $\sigma_t$ must be a square root of the covariance, with $\sqrt\eta$.
    """

    times: Any
    learning_rate: Any
    batch_size: int | None = eqx.field(static=True)
    time_step: Any
    time_steps: Any
    gradient_noise: Any
    noise_scale: Any
    brownian: Any
    is_isotropic: bool = eqx.field(static=True)
    record_steps: Any

    counts_time = True

    def __init__(
        self,
        times: ArrayLike | None = None,
        learning_rate: Scalar | None = None,
        batch_size: int | None = None,
        *,
        end: Scalar | None = None,
        num_times: int = 200,
        spacing: Literal["linear", "log"] = "linear",
        noise_scale: Scalar | None = None,
        time_step: Scalar | None = None,
        brownian: ArrayLike | None = None,
    ):
        self.times = read_times(times, end, num_times, spacing)
        if (learning_rate is None) != (batch_size is None):
            raise InputError(
                "`learning_rate` and `batch_size` go together, got one of them. They set the size of "
                "the gradients' noise; for noise on W alone give `noise_scale`."
            )
        if learning_rate is None and noise_scale is None:
            raise InputError(
                "`learning_rate` with `batch_size`, or `noise_scale`, must be given, got neither. "
                "Without noise use `GradientFlow`."
            )
        self.batch_size = batch_size
        self.learning_rate = None if learning_rate is None else learning_rate + np.zeros(())
        self.gradient_noise = np.asarray(0.0)
        if learning_rate is not None:
            size = check_count("batch_size", batch_size)
            check_not_negative("learning_rate", learning_rate)
            self.gradient_noise = (learning_rate / size) ** 0.5 + np.zeros(())
        self.is_isotropic = noise_scale is not None
        if self.is_isotropic:
            check_not_negative("noise_scale", noise_scale)
        self.noise_scale = np.asarray(0.0) if noise_scale is None else noise_scale + np.zeros(())
        gaps = np.diff(np.concatenate([[0.0], self.times]))
        if time_step is None:
            wanted = [0.01, gaps[gaps > 0].min(initial=np.inf) / 10]
            if learning_rate is not None and not is_traced(learning_rate) and learning_rate > 0:
                wanted.append(float(learning_rate) / 10)
            time_step = min(wanted)
        if not check_scalar("time_step", time_step) > 0:
            raise InputError(f"`time_step` must be positive, got {time_step}. Take a small one.")
        self.time_step = np.asarray(time_step, float)
        # Equal steps between records, none longer than asked, so that records are met exactly.
        wanted_steps = np.ceil(gaps / time_step * (1 - 1e-12))
        if wanted_steps.sum() > 50_000_000:
            raise InputError(
                f"`time_step` = {time_step:g} makes {wanted_steps.sum():.3g} steps, more than 50 "
                "million. Take a larger one, or end sooner."
            )
        counts = wanted_steps.astype(int)
        self.record_steps = np.cumsum(counts)
        self.time_steps = np.repeat(gaps / np.maximum(counts, 1), counts)
        if not len(self.time_steps):
            self.time_steps = np.zeros(1)  # never used, but there to be looked up
        self.brownian = None if brownian is None else read_array("brownian", brownian)
        if self.brownian is not None and len(self.brownian) != self.num_steps:
            raise InputError(
                f"`brownian` must have one row per step, {self.num_steps}, got "
                f"{len(self.brownian)}. `time_step` and `times` set the number of steps."
            )

    @property
    def needs_key(self) -> bool:
        return self.brownian is None or self.is_isotropic

    def _unshown(self) -> tuple[str, ...]:
        return ("end",)

    def settings(self) -> dict[str, Any]:
        names = ("times", "learning_rate", "batch_size", "time_step", "brownian")
        scale = self.noise_scale if self.is_isotropic else None
        given = {name: getattr(self, name) for name in names}
        return {"kind": "sgf"} | given | {"noise_scale": scale}

    @property
    def record_at(self) -> np.ndarray:
        return np.unique(self.record_steps)

    def check(self, system: AbstractSystem) -> None:
        law = np.shape(system.law)
        if self.brownian is not None and self.brownian.shape[1:] != law:
            raise InputError(
                f"`brownian` must have rows of the shape of the law, {law}, got "
                f"{self.brownian.shape[1:]}. Give one increment per sample and step."
            )

    def step(
        self, system: AbstractSystem, inner: PyTree, index: Array, key: PRNGKeyArray | None
    ) -> PyTree:
        law = jnp.asarray(system.law)
        dt = jnp.asarray(self.time_steps)[index]
        if self.brownian is not None:
            dB = jnp.asarray(self.brownian)[index]
        else:
            here = jax.random.fold_in(need_key(key), 2 * index)
            dB = jnp.sqrt(dt) * jax.random.normal(here, law.shape, law.dtype)
        root = jnp.sqrt(law)
        shaken = root * dB - law * (root * dB).sum()
        pulled = system.grad(inner, law * dt + self.gradient_noise * shaken)
        state = jax.tree.map(lambda x, g: x - g, inner, pulled)
        if not self.is_isotropic:
            return state
        here = jax.random.fold_in(need_key(key), 2 * index + 1)
        shake = lambda x, dE: x + self.noise_scale * (jnp.sqrt(dt) * dE)
        return jax.tree.map(shake, state, system.noise(state, here))

    @property
    def num_steps(self) -> int:
        return int(self.record_steps[-1])

    def time_at(self, steps: ArrayLike) -> Numbers:
        at = np.asarray(steps)
        summed = np.concatenate([[0.0], np.cumsum(self.time_steps)])[at]
        # At the times asked for, those very numbers.
        place = np.minimum(np.searchsorted(self.record_steps, at), len(self.times) - 1)
        return np.where(self.record_steps[place] == at, self.times[place], summed)
