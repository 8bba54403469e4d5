"""Largest eigenvalues of a symmetric operator from its products with vectors, with their residuals."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from engram._precision import in_input_precision
from engram._types import Array

Operator = Callable[[Array], Array]
_BASIS = 48  # vectors kept between restarts
_ROUNDS = 40


class EigenPair(NamedTuple):
    r"""`value` and unit `vector`, with `residual` $= \|A v - \lambda v\|$: an eigenvalue lies that near."""

    value: Float[Array, "..."]
    vector: Float[Array, "..."]
    residual: Float[Array, "..."]


@in_input_precision
def largest_eigenpairs(
    operator: Operator, start: Float[Array, "..."], num: int = 1, *, tolerance: float | None = None
) -> EigenPair:
    r"""The largest eigenvalues of a symmetric operator, by restarted Lanczos iteration.

    They come in falling order, repeated ones as often as they occur: each is sought orthogonal to
    those before, since a Krylov space alone would show a repeated eigenvalue once. The basis never
    exceeds the dimension, is reorthogonalised twice at each step, and ends when the Krylov space
    does; then the Ritz vector starts the next round, until the residual is below `tolerance` times
    the operator's size or 40 rounds are spent. The residual is measured, so that a value which has
    not converged shows it.

    Args:
        operator: Maps arrays of the shape of `start` to arrays of that shape; linear, symmetric.
        start: Any vector that is not orthogonal to the wanted ones; a random one will do.
        num: How many; every field of the result has a leading axis of this length.
        tolerance: Relative size of the residual; by default the two-thirds power of the machine
            precision, which gives the values themselves nearly all of their digits.
    """
    shape, dtype, n = start.shape, start.dtype, start.size
    m = min(_BASIS, n)
    eps = float(jnp.finfo(dtype).eps)
    tol = eps ** (2 / 3) if tolerance is None else tolerance
    # In units of its own size, so that squares of tiny (or huge) entries neither vanish nor overflow.
    unit_size = jnp.abs(operator(start)).max()
    scale = jnp.where(unit_size > 0, unit_size, 1.0)
    apply = lambda v: operator(v.reshape(shape)).reshape(n) / scale

    def clear(v, *bases):
        # Twice is enough: one pass leaves rounding errors along the basis, the second removes them.
        for Q in (*bases, *bases):
            v = v - Q.T @ (Q @ v)
        return v

    def unit(v):
        norm = jnp.linalg.norm(v)
        return jnp.where(norm > 0, v / jnp.where(norm > 0, norm, 1.0), v), norm

    def extend(found, carry, j):
        Q, v, alive, size = carry
        Q = Q.at[j].set(v)
        Av = apply(v)
        rest = clear(Av, Q, found)
        size = jnp.maximum(size, jnp.linalg.norm(Av))
        b = jnp.linalg.norm(rest)
        goes_on = alive & (b > 8 * n * eps * size)  # else what is left is rounding: the space ended
        v = jnp.where(goes_on, rest / jnp.where(b > 0, b, 1.0), 0.0)
        return (Q, v, goes_on, size), (Q[j] @ Av, jnp.where(goes_on, b, 0.0), alive)

    def improve(found, carry):
        v, _, _, size, rounds, _ = carry
        v, norm = unit(clear(v, found))
        first = (jnp.zeros((m, n), dtype), v, norm > 0, size)
        (Q, _, _, size), (a, b, made) = jax.lax.scan(
            lambda carry, j: extend(found, carry, j), first, jnp.arange(m)
        )
        # Vectors that were never made must not win: put them below every other value.
        a = jnp.where(made, a, -2 * (jnp.abs(a).sum() + b.sum()) - 1)
        T = jnp.diag(a) + jnp.diag(b[:-1], 1) + jnp.diag(b[:-1], -1)
        v, _ = unit(clear(Q.T @ jnp.linalg.eigh(T)[1][:, -1], found))
        Av = apply(v)
        value = v @ Av
        residual = jnp.linalg.norm(Av - value * v)
        return v, value, residual, size, rounds + 1, residual > tol * size

    def find(found, index):
        zero = jnp.zeros((), dtype)
        # A new start each time: the old one may be spent on the vectors already found.
        v = jnp.roll(start.reshape(n), index)
        carry = jax.lax.while_loop(
            lambda carry: carry[-1] & (carry[-2] < _ROUNDS),
            lambda carry: improve(found, carry),
            (v, zero, zero, zero, jnp.zeros((), int), jnp.array(True)),
        )
        v, value, residual = carry[:3]
        return found.at[index].set(v), EigenPair(scale * value, v.reshape(shape), scale * residual)

    return jax.lax.scan(find, jnp.zeros((num, n), dtype), jnp.arange(num))[1]
