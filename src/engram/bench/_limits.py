"""What this machine can do at best: matrix products and exponentials, measured in the same run."""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from engram.bench._torch import load_torch


@dataclasses.dataclass(frozen=True)
class Limits:
    """Best rates found, per dtype, over the libraries at hand."""

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
            if (torch := load_torch()) is not None:
                s, t = torch.from_numpy(A), torch.from_numpy(B)
                products.append(lambda: s @ t)
                exponentials.append(lambda: s.exp())
            return 2 * 1024**3 / min(map(_best, products)), 1024**2 / min(map(_best, exponentials))

    def seconds(self, dtype: str, flops: int | float, exps: int | float) -> float:
        """The least time for that many operations."""
        if not flops and not exps:
            return 0.0
        flop_rate, exp_rate = self.rates(dtype)
        return flops / flop_rate + exps / exp_rate


def _best(call: Callable[[], Any]) -> float:
    call()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
