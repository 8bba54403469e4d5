"""What this machine can do at best: matrix products and exponentials, measured in the same run."""

import contextlib
import functools
import time
import timeit
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from engram.bench._torch import NoPeer, load_torch


class Limits:
    """Best rates found, per dtype, over the libraries at hand, by a clock: that of the benchmarks."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self.clock = clock

    @functools.cache  # noqa: B019  one object per run
    def rates(self, dtype: str) -> tuple[float, float]:
        """Floating-point operations per second in a matrix product, and exponentials per second."""
        rng = np.random.default_rng(0)
        A, B = (rng.standard_normal((1024, 1024)).astype(dtype) for _ in range(2))
        products: list[Callable[[], Any]] = [lambda: A @ B]
        exponentials: list[Callable[[], Any]] = [lambda: np.exp(A)]
        with jax.enable_x64(True):
            a, b = jnp.asarray(A), jnp.asarray(B)
            dot, exp = jax.jit(jnp.dot), jax.jit(jnp.exp)
            products.append(lambda: dot(a, b).block_until_ready())
            exponentials.append(lambda: exp(a).block_until_ready())
            with contextlib.suppress(NoPeer):
                s, t = map(load_torch().from_numpy, (A, B))
                products.append(lambda: s @ t)
                exponentials.append(lambda: s.exp())
            best = lambda call: min(
                timeit.repeat(call, timer=self.clock, number=1, repeat=11)
            )  # the first is cold
            return 2 * 1024**3 / min(map(best, products)), 1024**2 / min(map(best, exponentials))

    def seconds(self, dtype: str, flops: int | float, exps: int | float) -> float:
        """The least time for that many operations."""
        if not flops and not exps:
            return 0.0
        flop_rate, exp_rate = self.rates(dtype)
        return flops / flop_rate + exps / exp_rate
