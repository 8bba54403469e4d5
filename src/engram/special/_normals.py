"""Normal numbers, bit by bit those of `jax.random.normal`, without compiling for each shape."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from engram._checks import is_traced
from engram._precision import make_key
from engram._types import Array

_LENGTHS = (2**8, 2**12, 2**16)  # how many numbers are drawn at once


def normals(
    key: PRNGKeyArray | int, shape: tuple[int, ...], dtype: jnp.dtype | type = jnp.float64
) -> Float[Array, "..."]:
    """Independent standard normal numbers; with a seed for a key a constant, also under a trace.

    Each number depends on the key and on its own place only (JAX's partitionable layout), so a short
    draw begins a long one. A program that draws takes more than a second to compile.
    """
    if isinstance(key, int):
        with jax.ensure_compile_time_eval():
            key = make_key(key)
    size = math.prod(shape)
    length = next((length for length in _LENGTHS if size <= length), None)
    with jax.threefry_partitionable(True):
        if length is None or is_traced(key):
            return jax.random.normal(key, shape, dtype)
        with jax.ensure_compile_time_eval():
            return np.asarray(jax.random.normal(key, (length,), dtype))[:size].reshape(shape)
