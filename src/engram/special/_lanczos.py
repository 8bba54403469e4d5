"""Largest eigenvalues of a symmetric operator from its products with vectors, with their residuals."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from engram._precision import in_input_precision
from engram._types import Array, PyTree

Operator = Callable[[Any], Any]
_BASIS = 22  # vectors in the basis
_KEPT = 6  # Ritz vectors that start the next round
_ROUNDS = 100


class EigenPair(NamedTuple):
    r"""`value` and unit `vector`, with `residual` $= \|A v - \lambda v\|$: an eigenvalue lies that near."""

    value: Float[Array, "..."]
    vector: PyTree
    residual: Float[Array, "..."]


@in_input_precision
def largest_eigenpairs(
    operator: Operator,
    start: PyTree,
    num: int = 1,
    *,
    tolerance: float | None = None,
    inner: Callable[[Any, Any], Array] | None = None,
) -> EigenPair:
    r"""The largest eigenvalues of a symmetric operator, by thick-restarted Lanczos iteration.

    They come in falling order, repeated ones as often as they occur: each is sought orthogonal to
    those before, since a Krylov space alone would show a repeated eigenvalue once. The basis never
    exceeds the dimension, is reorthogonalised at each step, and ends when the Krylov space does;
    when it is full, its best Ritz vectors start the next round, until the residual is below
    `tolerance` times the operator's size or 100 rounds are spent. The residual is measured, so that
    a value which has not converged shows it.

    Args:
        operator: Maps arrays, or pytrees of them, of the shape of `start` to the like; linear, symmetric.
        start: Any vector that is not orthogonal to the wanted ones; a random one will do.
        num: How many; every field of the result has a leading axis of this length.
        tolerance: Relative size of the residual; by default the two-thirds power of the machine
            precision, which gives the values themselves nearly all of their digits.
        inner: The inner product in which the operator is symmetric; by default that of the entries.
    """
    first_vector, unravel = ravel_pytree(start)
    dtype, n = first_vector.dtype, first_vector.size
    if inner is None:
        dot = lambda u, v: u @ v
        along = lambda Q, v: Q @ v
        length = jnp.linalg.norm
    else:
        dot = lambda u, v: inner(unravel(u), unravel(v))
        along = lambda Q, v: jax.vmap(lambda q: dot(q, v))(Q)
        length = lambda v: jnp.sqrt(jnp.maximum(dot(v, v), 0.0))
    m = min(_BASIS, n)
    kept = max(1, min(_KEPT, m // 2))
    eps = float(jnp.finfo(dtype).eps)
    tol = eps ** (2 / 3) if tolerance is None else tolerance
    # In units of its own size, so that squares of tiny (or huge) entries neither vanish nor overflow.
    flat = lambda v: ravel_pytree(operator(unravel(v)))[0]
    unit_size = jnp.abs(flat(first_vector)).max()
    scale = jnp.where(unit_size > 0, unit_size, 1.0)
    apply = lambda v: flat(v) / scale

    clear = lambda v, Q: v - along(Q, v) @ Q
    apart = clear if num > 1 else (lambda v, _: v)  # of the eigenvectors known already

    def unit(v):
        norm = length(v)
        return jnp.where(norm > 0, v / jnp.where(norm > 0, norm, 1.0), v), norm

    def extend(known, j, carry):
        Q, T, v, b, alive, size, count = carry
        Av = apply(v)
        a = dot(v, Av)
        # The three-term recurrence, then one pass over the basis for the rounding errors it leaves. (In the
        # first step after a restart that pass also takes off what couples to the vectors kept.)
        rest = Av - a * v - b * Q[j - 1]
        Q = Q.at[j].set(v)
        rest = apart(clear(rest, Q), known)
        before, b = b, length(rest)
        size = jnp.maximum(size, jnp.sqrt(a * a + before * before + b * b))  # the length of Av
        goes_on = alive & (b > 8 * n * eps * size)  # else what is left is rounding: the space ended
        b = jnp.where(goes_on, b, 0.0)
        T = T.at[j, j].set(a).at[j, j + 1].set(b).at[j + 1, j].set(b)  # beyond the edge: dropped
        v = jnp.where(goes_on, rest / jnp.where(b > 0, b, 1.0), 0.0)
        return Q, T, v, b, goes_on, size, count + alive

    def improve(known, carry):
        _, _, (Q, T, v, alive, size), begin, rounds = carry
        first = (Q, T, v, jnp.zeros((), dtype), alive, size, begin)
        Q, T, v, b, alive, size, count = jax.lax.fori_loop(
            begin, m, lambda j, carry: extend(known, j, carry), first
        )
        # Vectors that were never made must not win: put them below every other value.
        never = jnp.arange(m) >= count
        T = T - jnp.diag(jnp.where(never, 2 * jnp.abs(T).sum() + 1, 0.0))
        values, S = jnp.linalg.eigh(T)
        best = S[:, -kept:].T @ Q
        top, _ = unit(apart(best[-1], known))
        Atop = apply(top)
        value = dot(top, Atop)
        residual = length(Atop - value * top)
        # The vectors kept are coupled to the next one only, by what each lacks to be an eigenvector.
        Q = jnp.zeros_like(Q).at[:kept].set(best)
        lacks = b * S[-1, -kept:]
        T = jnp.diag(jnp.zeros(m, dtype).at[:kept].set(values[-kept:]))
        T = T.at[:kept, kept].set(lacks).at[kept, :kept].set(lacks)
        state = (Q, T, v, alive, size)
        goes_on = alive & (residual > tol * size)
        return EigenPair(value, top, residual), goes_on, state, jnp.asarray(kept), rounds + 1

    def find(before, index):
        known, size = before
        zero = jnp.zeros((), dtype)
        # A new start each time: the old one may be spent on the vectors already known.
        v = jnp.roll(first_vector, index)
        v, norm = unit(apart(apart(v, known), known))
        state = (jnp.zeros((m, n), dtype), jnp.zeros((m, m), dtype), v, norm > 0, size)
        nothing = EigenPair(zero, jnp.zeros_like(v), zero)
        none = jnp.zeros((), int)
        ended = jax.lax.while_loop(
            lambda carry: carry[1] & (carry[4] < _ROUNDS),
            lambda carry: improve(known, carry),
            (nothing, jnp.array(True), state, none, none),
        )
        (value, v, residual), size = ended[0], ended[2][-1]
        pair = EigenPair(scale * value, unravel(v), scale * residual)
        return (known.at[index].set(v), size), pair  # what is rounding is measured by the largest

    none_yet = (jnp.zeros((num, n), dtype), jnp.zeros((), dtype))
    return jax.lax.scan(find, none_yet, jnp.arange(num))[1]
