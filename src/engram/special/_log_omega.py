r"""The inverse of $m + e^m$: the product logarithm without overflow."""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from engram._precision import in_input_precision
from engram._types import Array

_NEWTON_STEPS = 8


@in_input_precision
@jax.jit
def log_omega(y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""Solve $m + e^m = y$, that is $m = y - \mathcal{W}_0(e^y)$, for any real y.

    Paper: proof:bin-ortho.
    """
    y = jnp.asarray(y)

    def newton(_, m):
        return m - (m + jnp.exp(m) - y) / (1 + jnp.exp(m))

    # Both starts lie right of the root of an increasing convex function: Newton is monotone.
    start = jnp.where(y > 1, jnp.log(jnp.maximum(y, 1)), y)
    return jax.lax.fori_loop(0, _NEWTON_STEPS, newton, start)
