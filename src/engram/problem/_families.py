"""The paper's settings by name."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, check_count, check_interval, is_traced
from engram._memory_limits import check_fits
from engram._precision import in_double
from engram._types import ArrayLike, Scalar
from engram.problem._embeddings import (
    as_key,
    canonical_rows,
    gaussian_rows,
    orthonormal_rows,
    rows_with_gram,
    sphere_rows,
)
from engram.problem._frequencies import frequencies
from engram.problem._problem import Problem


@in_double
def two_tokens(correlation: Scalar, p1: Scalar, *, dim: int = 2) -> Problem:
    r"""Two unit inputs with $\langle e_1, e_2 \rangle = \alpha$, each with its own class.

    Outputs are orthonormal, so $c = \|u_1 - u_2\|^2 = 2$.

    Args:
        correlation: $\alpha$ in [-1, 1].
        p1: The frequency of the first token; the second has `1 - p1`.
        dim: The dimension d, at least 2; coordinates beyond the second are zero.

    Paper: eq:correlation-binary.
    """
    check_interval("correlation", correlation, -1.0, 1.0, "It is the cosine of an angle.")
    check_interval("p1", p1, 0.0, 1.0, "It is a probability.")
    if check_count("dim", dim) < 2:
        raise InputError(f"`dim` must be at least 2, got {dim}. Two orthonormal outputs need it.")
    _check_sizes(2, 2, dim)
    xp = jnp if is_traced(correlation, p1) else np
    alpha, p1 = xp.asarray(correlation, dtype=float), xp.asarray(p1, dtype=float)
    zero, one = xp.zeros_like(alpha), xp.ones_like(alpha)
    # (1 - a)(1 + a) keeps the digits that 1 - a^2 loses close to 1.
    e = xp.stack([xp.stack([one, zero]), xp.stack([alpha, xp.sqrt((one - alpha) * (one + alpha))])])
    inputs = xp.concatenate([e, xp.zeros((2, dim - 2))], axis=1)
    return Problem(inputs, np.eye(2, dim), xp.stack([p1, 1 - p1]), np.arange(2))


@in_double
def orthonormal(
    num_tokens: int,
    num_classes: int,
    *,
    dim: int | None = None,
    probs: ArrayLike | str | None = None,
    exponent: Scalar | None = None,
    targets: ArrayLike | str = "mod",
    key: PRNGKeyArray | int | None = None,
) -> Problem:
    """Orthonormal inputs and orthonormal outputs.

    Args:
        num_tokens: N.
        num_classes: M.
        dim: d, by default the larger of N and M.
        probs: "uniform" (the default), "zipf", or N numbers.
        exponent: The exponent of Zipf's law, if that is wanted.
        targets: "identity", "mod" (x mod M), "random", N integers, or an (N, M) table.
        key: A JAX key or a seed to rotate both families at random; without it both are the
            canonical basis.

    Paper: thm:multi.
    """
    dim = _check_sizes(num_tokens, num_classes, dim)
    if key is None:
        inputs, outputs = canonical_rows(num_tokens, dim), canonical_rows(num_classes, dim)
        return _assemble(inputs, outputs, probs, exponent, "uniform", targets, None)
    input_key, output_key, target_key = jax.random.split(as_key(key), 3)
    inputs = orthonormal_rows(input_key, num_tokens, dim)
    outputs = orthonormal_rows(output_key, num_classes, dim)
    return _assemble(inputs, outputs, probs, exponent, "uniform", targets, target_key)


@in_double
def one_hot(
    num_tokens: int,
    num_classes: int,
    *,
    probs: ArrayLike | str | None = None,
    exponent: Scalar | None = None,
    targets: ArrayLike | str = "mod",
    key: PRNGKeyArray | int | None = None,
) -> Problem:
    """Canonical basis vectors for inputs and outputs, so the scores are the entries of W.

    Arguments as for `orthonormal`; `key` serves random targets only.

    Paper: thm:multi.
    """
    dim = _check_sizes(num_tokens, num_classes, None)
    inputs, outputs = canonical_rows(num_tokens, dim), canonical_rows(num_classes, dim)
    return _assemble(inputs, outputs, probs, exponent, "uniform", targets, key)


@in_double
def on_sphere(
    key: PRNGKeyArray | int,
    num_tokens: int,
    num_classes: int,
    dim: int,
    *,
    probs: ArrayLike | str | None = None,
    exponent: Scalar | None = None,
    targets: ArrayLike | str = "mod",
) -> Problem:
    """Embeddings drawn uniformly on the unit sphere, with Zipf frequencies unless `probs` says otherwise.

    Args:
        key: A JAX key or a seed.
        num_tokens: N.
        num_classes: M.
        dim: d.
        probs: "zipf" (the default, p(x) proportional to 1/x), "uniform", or N numbers.
        exponent: The exponent of Zipf's law, 1 by default.
        targets: "identity", "mod" (x mod M), "random", N integers, or an (N, M) table.

    Paper: fig:margins_N5, fig:forgetting.
    """
    return _random(sphere_rows, key, num_tokens, num_classes, dim, probs, exponent, targets)


@in_double
def gaussian(
    key: PRNGKeyArray | int,
    num_tokens: int,
    num_classes: int,
    dim: int,
    *,
    probs: ArrayLike | str | None = None,
    exponent: Scalar | None = None,
    targets: ArrayLike | str = "mod",
) -> Problem:
    r"""Embeddings with independent entries of law $\mathcal N(0, 1/d)$.

    Arguments as for `on_sphere`; frequencies follow Zipf's law by default, too.

    Paper: the discussion of random embeddings in Section 5.2.
    """
    return _random(gaussian_rows, key, num_tokens, num_classes, dim, probs, exponent, targets)


@in_double
def from_gram(
    input_gram: ArrayLike,
    output_gram: ArrayLike,
    *,
    dim: int | None = None,
    probs: ArrayLike | str | None = None,
    exponent: Scalar | None = None,
    targets: ArrayLike | str = "mod",
    key: PRNGKeyArray | int | None = None,
) -> Problem:
    r"""Embeddings with prescribed inner products: what the particles feel, and nothing else.

    Args:
        input_gram: $\alpha_{ij} = \langle e_i, e_j \rangle$, symmetric positive semi-definite.
        output_gram: The same for the outputs $u_y$.
        dim: d, at least both ranks; by default the larger of N and M.
        probs: "uniform" (the default), "zipf", or N numbers.
        exponent: The exponent of Zipf's law, if that is wanted.
        targets: "identity", "mod" (x mod M), "random", N integers, or an (N, M) table.
        key: A JAX key or a seed, for random targets.

    Paper: eq:correlation.
    """
    left = rows_with_gram(input_gram, name="input_gram")
    right = rows_with_gram(output_gram, name="output_gram")
    dim = max(len(left), len(right)) if dim is None else check_count("dim", dim)
    check_fits(32 * (len(left) + len(right)) * dim, dim=dim)
    inputs = rows_with_gram(input_gram, dim, name="input_gram")
    outputs = rows_with_gram(output_gram, dim, name="output_gram")
    return _assemble(inputs, outputs, probs, exponent, "uniform", targets, key)


def from_file(path: str) -> Problem:
    """A problem that `Problem.save` wrote, or any file with the same arrays."""
    # Row by row in memory: products may round differently when they lie differently.
    return jax.tree.map(np.ascontiguousarray, Problem.load(path))


def _random(rows, key, num_tokens, num_classes, dim, probs, exponent, targets) -> Problem:
    _check_sizes(num_tokens, num_classes, dim)
    input_key, output_key, target_key = jax.random.split(as_key(key), 3)
    inputs, outputs = rows(input_key, num_tokens, dim), rows(output_key, num_classes, dim)
    return _assemble(inputs, outputs, probs, exponent, "zipf", targets, target_key)


def _assemble(inputs, outputs, probs, exponent, default, targets, key) -> Problem:
    N, M = len(inputs), len(outputs)
    p = frequencies(probs, N, exponent, default)
    return Problem(inputs, outputs, p, _targets(targets, N, M, key))


def _targets(targets: ArrayLike | str, N: int, M: int, key: PRNGKeyArray | int | None) -> Any:
    """Read what a family was asked for: "identity", "mod", "random", or given targets."""
    if not isinstance(targets, str):
        return targets
    if targets == "mod":
        return np.arange(N) % M
    if targets == "identity":
        if N > M:
            raise InputError(
                f"`targets` = 'identity' needs a class for each token, got N = {N} > M = {M}. "
                "Raise the number of classes, or use 'mod'."
            )
        return np.arange(N)
    if targets == "random":
        if key is None:
            raise InputError("`targets` = 'random' draws: pass `key`, a JAX key or a seed.")
        return jax.random.randint(as_key(key), (N,), 0, M)
    raise InputError(
        f"`targets` must be 'identity', 'mod', 'random' or integers, got {targets!r}. Pick one."
    )


def _check_sizes(num_tokens: int, num_classes: int, dim: int | None) -> int:
    """The dimension, by default the larger of N and M, if embeddings of these sizes can be made."""
    N, M = check_count("num_tokens", num_tokens), check_count("num_classes", num_classes, least=2)
    d = max(N, M) if dim is None else check_count("dim", dim)
    # In double precision, four times: what is drawn, what is made of it, and copies.
    check_fits(4 * 8 * (N + M) * d, num_tokens=N, num_classes=M, dim=d)
    return d
