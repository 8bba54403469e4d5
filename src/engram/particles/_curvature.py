"""Curvature without W: the nonzero spectrum of the Hessian, from N x M particles."""

import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Float

from engram._checks import InputError, check_count
from engram._types import Array, Scalar, Scores, ScoresLike
from engram.particles._entry import entry
from engram.particles._force import spread
from engram.particles._recall import centred
from engram.problem import Problem
from engram.special import largest_eigenpairs, normals


def _curve(problem: Problem, w: ScoresLike, v: ScoresLike) -> Scores:
    r"""$p(x)\,(\mathrm{diag}(q) - q q^\top)\, v$ for each token, as a sum over pairs of classes."""
    w, v = centred(w), jnp.asarray(v)
    q = jnp.exp(w - logsumexp(w, axis=1, keepdims=True))
    # sum_z q_y q_z (v_y - v_z): the term z = y drops out, so a saturated q costs no digits.
    differences = v[:, :, None] - v[:, None, :]
    return problem.probs[:, None] * q * jnp.einsum("xz,xyz->xy", q, differences)


def _root(problem: Problem, w: ScoresLike) -> Float[Array, "N M M"]:
    r"""L with $L L^\top = p\,(\mathrm{diag}(q) - q q^\top)$: columns $\sqrt{p q_z}\,(1_z - q)$."""
    w = centred(w)
    q = jnp.exp(w - logsumexp(w, axis=1, keepdims=True))
    miss = jnp.where(jnp.eye(w.shape[1], dtype=bool)[None], 0.0, q[:, None, :]).sum(axis=2)
    identity = jnp.eye(w.shape[1], dtype=w.dtype)[None]
    # On the diagonal 1 - q_z is the sum of the other classes, not a difference.
    columns = jnp.where(identity > 0, miss[:, :, None], -q[:, :, None])
    return jnp.sqrt(problem.probs)[:, None, None] * jnp.sqrt(q)[:, None, :] * columns


@entry()
def hvp(problem: Problem, w: ScoresLike, v: ScoresLike) -> Scores:
    """The Hessian applied to a direction, both seen through the particles.

    If `v` are the scores of a direction V, the result are the scores of the Hessian times V.

    Paper: eq:hess in the coordinates of thm:inter.
    """
    return spread(problem, _curve(problem, w, v))


@entry("num")
def _top(problem: Problem, w: ScoresLike, *, num: int) -> tuple[Array, Array]:
    # The Hessian is J^T B J with B = L L^T; L^T (J J^T) L has the same nonzero eigenvalues.
    L = _root(problem, w)

    def operator(v):
        return jnp.einsum("xyz,xy->xz", L, spread(problem, jnp.einsum("xyz,xz->xy", L, v)))

    start = normals(0, L.shape[:2], L.dtype)
    pairs = largest_eigenpairs(operator, start, num)
    return pairs.value, pairs.residual


def top_eigenvalues(
    problem: Problem, w: ScoresLike, num: int = 1
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """The largest eigenvalues of the Hessian in W and their residuals, matrix-free.

    Paper: eq:hess.
    """
    most = problem.num_tokens * problem.num_classes
    if check_count("num", num) > most:
        raise InputError(f"`num` must be at most N M = {most}, got {num}. Ask for fewer.")
    return _top(problem, w, num=num)


def sharpness(problem: Problem, w: ScoresLike) -> Scalar:
    """The largest eigenvalue of the Hessian in W.

    Paper: fig:sharpness.
    """
    return _top(problem, w, num=1)[0][0]


@entry()
def spectrum(problem: Problem, w: ScoresLike) -> Float[Array, " n"]:
    """The N M eigenvalues of the Hessian seen by the particles, in falling order.

    Its nonzero ones are those of the Hessian in W; the number of zeros differs.

    Paper: eq:hess.
    """
    L = _root(problem, w)
    E, U = problem.inputs, problem.outputs
    between = jnp.einsum("xyz,yw,vwk->xzvk", L, U @ U.T, L) * (E @ E.T)[:, None, :, None]
    return jnp.linalg.eigvalsh(between.reshape(len(E) * len(U), -1))[::-1]
