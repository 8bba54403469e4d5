r"""The inverse of $m + e^m$: the product logarithm without overflow."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from engram._precision import in_input_precision
from engram._types import Array, ArrayLike, Scalar

_NEWTON_STEPS = 8


def log_omega(y: ArrayLike) -> Float[Array, "..."] | Scalar:
    r"""Solve $m + e^m = y$, that is $m = y - \mathcal{W}_0(e^y)$, for any real y.

    Paper: proof:bin-ortho.
    """
    return _solve(y if hasattr(y, "dtype") else np.asarray(y, dtype=np.float64))


@in_input_precision
@jax.jit
def _solve(y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    def newton(_, m):
        return m - (m + jnp.exp(m) - y) / (1 + jnp.exp(m))

    # Both starts lie right of the root of an increasing convex function: Newton is monotone.
    start = jnp.where(y > 1, jnp.log(jnp.maximum(y, 1)), y)
    m = jax.lax.fori_loop(0, _NEWTON_STEPS, newton, start)
    return jnp.where(jnp.isinf(y), y, m)
