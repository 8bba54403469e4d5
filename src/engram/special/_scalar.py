"""Stable scalar functions and a root finder: NumPy at once, JAX when traced."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts load when they are used

from engram._checks import is_traced
from engram._precision import to_plain


def sigmoid(x: Any) -> Any:
    r"""$1/(1 + e^{-x})$, to all digits on both sides."""
    return jax.nn.sigmoid(x) if is_traced(x) else scipy.special.expit(x)


def softplus(x: Any) -> Any:
    r"""$\log(1 + e^x)$, to all digits on both sides."""
    return jax.nn.softplus(x) if is_traced(x) else np.logaddexp(0.0, x)


def logsumexp(x: Any, axis: int = -1) -> Any:
    r"""$\log \sum e^x$ along an axis, which is kept with length one."""
    logsumexp, x = (
        (jax.nn.logsumexp, x) if is_traced(x) else (scipy.special.logsumexp, np.asarray(x))
    )
    return logsumexp(x, axis=axis, keepdims=True)


def softmax(x: Any, axis: int = -1) -> Any:
    r"""$e^x / \sum e^x$ along an axis."""
    softmax, x = (jax.nn.softmax, x) if is_traced(x) else (scipy.special.softmax, np.asarray(x))
    return softmax(x, axis=axis)


def bisect(is_below: Callable[[Any], Any], low: Any, high: Any, *, halvings: int = 100) -> Any:
    """The point between `low` and `high` where `is_below` turns false, for each entry of the arrays."""

    def halve(bracket):
        low, high = bracket
        middle = (low + high) / 2
        below = is_below(middle)
        return xp.where(below, middle, low), xp.where(below, high, middle)

    if isinstance(low, jax.Array) or isinstance(high, jax.Array):
        xp: Any = jnp
        low, high = jax.lax.fori_loop(0, halvings, lambda _, b: halve(b), (low, high))
    else:
        xp = np
        for _ in range(halvings):
            low, high = halve((low, high))
    return to_plain((low + high) / 2)
