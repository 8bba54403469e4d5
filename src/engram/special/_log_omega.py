r"""The inverse of $m + e^m$: the product logarithm without overflow."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from engram._precision import in_input_precision
from engram._types import Array, ArrayLike, Numbers

_NEWTON_STEPS = 8


def log_omega(y: ArrayLike) -> Numbers:
    r"""Solve $m + e^m = y$, that is $m = y - \mathcal{W}_0(e^y)$, for any real y.

    JAX arrays (and tracers) give JAX arrays; anything else is computed by NumPy, with no compilation.

    Paper: proof:bin-ortho.
    """
    if isinstance(y, jax.Array):
        return _compiled(y)
    y = y if hasattr(y, "dtype") else np.asarray(y, dtype=np.float64)
    return _solve(np, y)[()]


def _solve(xp: Any, y: Any) -> Any:
    finite = xp.isfinite(y)
    z = xp.where(finite, y, 0)
    # Both starts lie right of the root of an increasing convex function: Newton is monotone.
    m = xp.where(z > 1, xp.log(xp.maximum(z, 1)), z)
    for _ in range(_NEWTON_STEPS):
        e = xp.exp(m)
        m = m - (m + e - z) / (1 + e)
    return xp.where(finite, m, y)


@in_input_precision
@jax.jit
def _compiled(y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return _solve(jnp, y)
