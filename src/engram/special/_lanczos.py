"""Largest eigenvalues of a symmetric operator from its products with vectors, with their residuals."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from engram._types import Array

Operator = Callable[[jax.Array], jax.Array]
_BASIS = 48  # vectors kept between restarts
_RESTARTS = 40


class EigenPair(NamedTuple):
    r"""`value` and unit `vector`, with `residual` $= \|A v - \lambda v\|$: an eigenvalue lies that near."""

    value: Float[Array, ""]
    vector: Float[Array, "..."]
    residual: Float[Array, ""]
    products: Int[Array, ""]


def largest_eigenpair(
    operator: Operator,
    start: Float[Array, "..."],
    *,
    tolerance: float | None = None,
    avoid: Float[Array, "k ..."] | None = None,
) -> EigenPair:
    r"""The largest eigenvalue of a symmetric operator, by restarted Lanczos iteration.

    The basis never exceeds the dimension, is reorthogonalised twice at each step, and ends when
    the Krylov space does; then the Ritz vector starts the next round, until the residual is below
    `tolerance` times the operator's size or 40 rounds are spent. The residual is measured, so a
    value that has not converged shows it.

    Args:
        operator: Maps arrays of the shape of `start` to arrays of that shape, linear, symmetric.
        start: Any vector that is not orthogonal to the wanted one; a random one will do.
        tolerance: Relative size of the residual; by default near the two-thirds power of the
            machine precision, which gives the value itself nearly all of its digits.
        avoid: Orthonormal vectors to stay orthogonal to: eigenvectors already found.
    """
    shape, dtype = start.shape, start.dtype
    n = start.size
    # Beyond this many, every vector orthogonal to `avoid` is in the basis.
    m = max(1, min(_BASIS, n - (0 if avoid is None else len(avoid))))
    eps = jnp.finfo(dtype).eps
    tol = eps ** (2 / 3) if tolerance is None else tolerance
    avoided = None if avoid is None else avoid.reshape(len(avoid), n)
    apply = lambda v: operator(v.reshape(shape)).reshape(n)

    def clear(v, Q):
        # Twice is enough: one pass leaves rounding errors along Q, the second removes them.
        for _ in range(2):
            v = v - Q.T @ (Q @ v)
            if avoided is not None:
                v = v - avoided.T @ (avoided @ v)
        return v

    def unit(v):
        norm = jnp.linalg.norm(v)
        return jnp.where(norm > 0, v / jnp.where(norm > 0, norm, 1.0), v), norm

    def expand(j, carry):
        Q, diagonal, off, v, alive, size = carry
        Q = Q.at[j].set(jnp.where(alive, v, 0.0))
        Av = apply(Q[j])
        a = Q[j] @ Av
        size = jnp.maximum(size, jnp.linalg.norm(Av))
        rest = clear(Av, Q)
        b = jnp.linalg.norm(rest)
        diagonal = diagonal.at[j].set(jnp.where(alive, a, -jnp.inf))
        # The Krylov space has ended when what is left is rounding.
        alive = alive & (b > 8 * n * eps * size)
        off = off.at[j].set(jnp.where(alive, b, 0.0))
        return Q, diagonal, off, jnp.where(alive, rest / jnp.where(b > 0, b, 1.0), 0.0), alive, size

    def round_(carry):
        v, _, _, size, count, _ = carry
        v, norm = unit(clear(v, jnp.zeros((1, n), dtype)))
        empty = (jnp.zeros((m, n), dtype), jnp.zeros(m, dtype), jnp.zeros(m, dtype))
        Q, diagonal, off, _, _, size = jax.lax.fori_loop(0, m, expand, (*empty, v, norm > 0, size))
        # Vectors that were never made must not win: put them below every other value.
        floor = -2 * (jnp.abs(jnp.where(jnp.isfinite(diagonal), diagonal, 0)).sum() + off.sum()) - 1
        diagonal = jnp.where(jnp.isfinite(diagonal), diagonal, floor)
        T = jnp.diag(diagonal) + jnp.diag(off[:-1], 1) + jnp.diag(off[:-1], -1)
        _, vectors = jnp.linalg.eigh(T)
        v, _ = unit(clear(Q.T @ vectors[:, -1], jnp.zeros((1, n), dtype)))
        Av = apply(v)
        value = v @ Av
        residual = jnp.linalg.norm(Av - value * v)
        return v, value, residual, size, count + m + 1, residual > tol * size

    def unfinished(carry):
        return carry[-1] & (carry[-2] < _RESTARTS * (m + 1))

    zero = jnp.zeros((), dtype)
    first = (start.reshape(n), zero, zero, zero, jnp.zeros((), int), jnp.array(True))
    v, value, residual, _, count, _ = jax.lax.while_loop(unfinished, round_, first)
    return EigenPair(value, v.reshape(shape), residual, count)


def largest_eigenpairs(
    operator: Operator,
    start: Float[Array, "..."],
    num: int,
    *,
    tolerance: float | None = None,
) -> EigenPair:
    """The `num` largest eigenvalues in falling order, repeated ones as often as they occur.

    One at a time, each orthogonal to those before: a Krylov space alone would show every repeated
    eigenvalue once. The fields of the result have a leading axis of length `num`.
    """
    pairs: list[EigenPair] = []
    for index in range(num):
        avoid = jnp.stack([pair.vector for pair in pairs]) if pairs else None
        # A new start each time: the old one may be spent on the vectors already found.
        shifted = jnp.roll(start.reshape(-1), index).reshape(start.shape)
        pairs.append(largest_eigenpair(operator, shifted, tolerance=tolerance, avoid=avoid))
    return EigenPair(*(jnp.stack(field) for field in zip(*pairs, strict=True)))
