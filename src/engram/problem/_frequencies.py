"""How often each token comes: uniform, or a power law of its rank."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from engram._checks import (
    InputError,
    check_count,
    check_floats,
    check_scalar,
    is_traced,
    read_array,
)
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
    probs: ArrayLike | str | None, num_tokens: int, exponent: Scalar | None, default: str
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


def count_pairs(tokens: ArrayLike, num_tokens: int, num_classes: int | None = None) -> np.ndarray:
    """How often each token comes after each other one: the `counts` of a next-token memory.

    Args:
        tokens: A text as numbers, one after another; or several, one per row.
        num_tokens: How many tokens there are.
        num_classes: How many may come after, if not as many.

    Returns:
        A table of shape (N, M), with the token that comes first as the row.
    """
    num_classes = check_count("num_tokens", num_tokens) if num_classes is None else num_classes
    given = read_array("tokens", tokens)
    if given.dtype.kind not in "iu" or given.ndim not in (1, 2) or given.shape[-1] < 2:
        raise InputError(
            f"`tokens` must be integers in one row or several, at least two of them, got {given.dtype} of "
            f"shape {given.shape}. Tokenise the text first."
        )
    first, second = given[..., :-1].ravel(), given[..., 1:].ravel()
    limit = min(num_tokens, check_count("num_classes", num_classes))
    if given.min() < 0 or first.max() >= num_tokens or second.max() >= num_classes:
        raise InputError(
            f"`tokens` must lie in 0..{limit - 1}, got {given.min()} to {given.max()}. Count from zero."
        )
    counts = np.zeros((num_tokens, num_classes), int)
    np.add.at(counts, (first, second), 1)
    return counts


def read_counts(counts: ArrayLike | None, num_tokens: int, num_classes: int) -> tuple[Any, Any]:
    """Frequencies from counts of tokens, or of pairs; of pairs also p(y|x), uniform where x never came."""
    if counts is None:
        return uniform(num_tokens), None
    given = read_array("counts", counts)
    pairs = given.ndim == 2
    shape = (num_tokens, num_classes) if pairs else (num_tokens,)
    table = check_floats("counts", given, ndim=len(shape), axes="(N,) or (N, M)")
    if table.shape != shape:
        raise InputError(
            f"`counts` must have shape (N,) or (N, M) = ({num_tokens}, {num_classes}), got {table.shape}. "
            "Give one row per row of `inputs`."
        )
    if (table < 0).any() or not table.any():
        raise InputError(
            f"`counts` must not be negative, and not all zero, got {table.min():g} as the smallest."
        )
    came = table.sum(axis=1) if pairs else table
    if not pairs:
        return came / came.sum(), None
    seen = came[:, None] > 0
    return came / came.sum(), np.where(
        seen, table / np.where(seen, came[:, None], 1), 1 / num_classes
    )
