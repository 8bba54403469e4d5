"""How often each token comes: uniform, or a power law of its rank."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from engram._checks import InputError, check_count, check_scalar, is_traced
from engram._types import Array, ArrayLike, Scalar


def uniform(num_tokens: int) -> Float[Array, " N"]:
    """Equal frequencies, $p(x) = 1/N$."""
    check_count("num_tokens", num_tokens)
    return np.full(num_tokens, 1 / num_tokens)


def zipf(num_tokens: int, exponent: Scalar = 1.0) -> Float[Array, " N"]:
    r"""Frequencies that fall with the rank, $p(x) \propto x^{-a}$ for x = 1..N.

    Paper: fig:margins_N5 uses the exponent 1.
    """
    check_count("num_tokens", num_tokens)
    xp = jnp if is_traced(exponent) else np
    if xp is np and not np.isfinite(exponent := check_scalar("exponent", exponent)):
        raise InputError(f"`exponent` must be finite, got {exponent}. The paper uses 1 and 2.")
    logs = -exponent * np.log(np.arange(1, num_tokens + 1))
    weights = xp.exp(logs - logs.max())  # no exponent overflows
    return weights / weights.sum()


def frequencies(
    probs: ArrayLike | None, num_tokens: int, exponent: Scalar | None, default: str
) -> Any:
    """Read what a family was asked for: "uniform", "zipf", an exponent, or given numbers."""
    if probs is None:
        probs = default if exponent is None else "zipf"
    if isinstance(probs, str) and probs == "zipf":
        return zipf(num_tokens, 1.0 if exponent is None else exponent)
    if exponent is not None:
        raise InputError(
            f"`exponent` = {exponent} belongs to Zipf's law, got it with other `probs`. Leave one out."
        )
    if isinstance(probs, str):
        if probs != "uniform":
            raise InputError(
                f"`probs` must be 'uniform', 'zipf' or numbers, got {probs!r}. Pick one."
            )
        return uniform(num_tokens)
    return probs
