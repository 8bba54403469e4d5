r"""The inverse of $m + e^m$: the product logarithm without overflow."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from engram._checks import is_traced
from engram._types import Array, ArrayLike, Numbers

_NEWTON_STEPS = 8


def log_omega(y: ArrayLike) -> Numbers:
    r"""Solve $m + e^m = y$, that is $m = y - \mathcal{W}_0(e^y)$, for any real y.

    Computed by NumPy, with no compilation; under jit, vmap or grad by JAX.

    Paper: proof:bin-ortho.
    """
    if is_traced(y):
        return _compiled(y)
    return _solve(np, np.asarray(y, dtype=None if hasattr(y, "dtype") else np.float64))[()]


def _solve(xp: Any, y: Any) -> Any:
    finite = xp.isfinite(y)
    z = xp.where(finite, y, 0)
    # Both starts lie right of the root of an increasing convex function: Newton is monotone.
    m = xp.where(z > 1, xp.log(xp.maximum(z, 1)), z)
    for _ in range(_NEWTON_STEPS):
        e = xp.exp(m)
        m = m - (m + e - z) / (1 + e)
    return xp.where(finite, m, y)


@jax.jit
def _compiled(y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return _solve(jnp, y)
