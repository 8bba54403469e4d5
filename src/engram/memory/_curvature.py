"""The Hessian: dense, as products with a direction, and its largest eigenvalues."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from engram._checks import InputError, check_count
from engram._precision import in_input_precision
from engram._types import Array, Scalar, Scores, Weights, WeightsLike
from engram.memory._blocks import choose_block, map_blocks, sum_blocks, transposed_dot
from engram.memory._entry import entry
from engram.memory._loss import grad_given_law
from engram.memory._scores import likeliest, outputs_first, readout
from engram.memory._span import update_bases
from engram.problem import Problem
from engram.special import largest_eigenpairs, normals


class Eigenpairs(NamedTuple):
    r"""The largest eigenvalues of the Hessian, in falling order, with unit eigenvectors.

    `residuals` holds $\|H V - \lambda V\|$ for each: some eigenvalue of H lies within that distance
    of the value given, so a pair that has not converged shows it.
    """

    values: Float[Array, " n"]
    vectors: Float[Array, "n k d"]
    residuals: Float[Array, " n"]


def _recall(w: Scores) -> tuple[Scores, Int[Array, "N 1"]]:
    return jax.nn.softmax(w, axis=1), likeliest(w)[:, None]


def _push(q: Scores, likeliest: Int[Array, "N 1"], dw: Scores) -> Scores:
    r"""$(\mathrm{diag}(q) - q q^\top)\, dw$ for each row, without cancellation as q saturates."""
    # Measured from the likeliest class, the change of a learnt row is a sum of small terms only.
    dw = dw - jnp.take_along_axis(dw, likeliest, axis=1)
    return q * (dw - (q * dw).sum(axis=1, keepdims=True))


def _hessian_at(
    problem: Problem, W: WeightsLike, layer_norm: bool, block_size: int | None
) -> Callable[[Weights], Weights]:
    """The Hessian at W as an operator; what does not depend on the direction is computed once."""
    E, U, p, W = map(jnp.asarray, (problem.inputs, problem.outputs, problem.probs, W))
    if layer_norm:
        law = jnp.asarray(problem.law)
        g = lambda W: grad_given_law(problem, W, law, layer_norm, block_size)
        return lambda V: jax.jvp(g, (W,), (V,))[1]
    left, right = readout(problem, W, layer_norm)
    block = choose_block(problem.num_tokens, problem.num_classes, block_size)
    here = _recall(left @ right.T) if block >= problem.num_tokens else None

    def product(V: Weights) -> Weights:
        d_left, d_right = readout(problem, V, layer_norm)
        rows = (left, d_left, p, E, here)

        def weighted(r):
            q, likeliest = r[4] or _recall(r[0] @ right.T)
            return r[2][:, None] * _push(q, likeliest, r[1] @ d_right.T)

        if outputs_first(problem):
            return U.T @ sum_blocks(lambda r: transposed_dot(weighted(r), r[3]), rows, block)
        return transposed_dot(map_blocks(lambda r: weighted(r) @ U, rows, block), E)

    return product


@entry("layer_norm", "block_size")
def hvp(
    problem: Problem,
    W: WeightsLike,
    V: WeightsLike,
    *,
    layer_norm: bool = False,
    block_size: int | None = None,
) -> Weights:
    r"""The Hessian-vector product $\nabla^2 L(W)[V]$, in closed form.

    Paper: eq:hess, contracted with V.
    """
    return _hessian_at(problem, W, layer_norm, block_size)(jnp.asarray(V))


@entry("layer_norm")
def hessian(
    problem: Problem, W: WeightsLike, *, layer_norm: bool = False
) -> Float[Array, "k d k d"]:
    r"""The dense Hessian, indexed like $\partial^2 L / \partial W_{ij} \partial W_{kl}$.

    It depends on the targets only with layer norm; without it, on frequencies and scores alone.

    Paper: eq:hess (which is written for the transpose of W), averaged over p(x).
    """
    if layer_norm:
        law = jnp.asarray(problem.law)
        return jax.jacfwd(lambda W: grad_given_law(problem, W, law, layer_norm, None))(
            jnp.asarray(W)
        )
    E, U, p = map(jnp.asarray, (problem.inputs, problem.outputs, problem.probs))
    left, right = readout(problem, W, layer_norm)
    w = left @ right.T
    # _push, applied to each direction that moves one entry of W, one row of W at a time.
    push = jax.vmap(lambda u: _push(*_recall(w), jnp.broadcast_to(u[None, :], w.shape)), in_axes=1)
    covariance = jnp.einsum("kxz,zi->xik", push(U), U)
    return jnp.einsum("x,xik,xj,xl->ijkl", p, covariance, E, E)


def _largest(problem: Problem, W: WeightsLike, num: int, layer_norm: bool) -> Eigenpairs:
    W = jnp.asarray(W)
    start = normals(0, W.shape, W.dtype)
    pairs = largest_eigenpairs(_hessian_at(problem, W, layer_norm, None), start, num)
    return Eigenpairs(pairs.value, pairs.vector, pairs.residual)


@entry("num", "layer_norm")
def _top_eigenpairs(problem: Problem, W: WeightsLike, *, num: int, layer_norm: bool) -> Eigenpairs:
    return _largest(problem, W, num, layer_norm)


def top_eigenpairs(
    problem: Problem, W: WeightsLike, num: int = 1, *, layer_norm: bool = False
) -> Eigenpairs:
    """The largest eigenvalues of the Hessian with eigenvectors and residuals, matrix-free.

    Args:
        problem: What is stored.
        W: The weights.
        num: How many, at most k d; repeated eigenvalues count as often as they occur.
        layer_norm: Whether scores are taken from W e_x / ||W e_x||.

    Paper: eq:hess, fig:sharpness.
    """
    most = problem.output_dim * problem.dim
    if check_count("num", num) > most:
        raise InputError(f"`num` must be at most k d = {most}, got {num}. Ask for fewer.")
    return _top_eigenpairs(problem, W, num=num, layer_norm=layer_norm)


@entry("layer_norm")
def sharpness(problem: Problem, W: WeightsLike, *, layer_norm: bool = False) -> Scalar:
    """The largest eigenvalue of the Hessian: its operator norm, since the loss is convex.

    With layer norm the loss is not convex, and the operator norm may be that of a negative one.
    `top_eigenpairs` gives the same number with its residual.

    Paper: fig:sharpness.
    """
    return _largest(problem, W, 1, layer_norm).values[0]


def spectrum(
    problem: Problem, W: WeightsLike, *, restricted: bool = False, layer_norm: bool = False
) -> Float[Array, "*T n"]:
    """All eigenvalues of the Hessian in falling order, by dense linear algebra.

    Args:
        problem: What is stored; small, since the Hessian has (k d)^2 entries.
        W: The weights.
        restricted: Only on the span of the updates, where W moves; elsewhere the Hessian is zero,
            and its smallest eigenvalue there says nothing. Not with layer norm.
        layer_norm: Whether scores are taken from W e_x / ||W e_x||.

    Paper: eq:hess.
    """
    if restricted and layer_norm:
        raise InputError(
            "`restricted` must be False with layer norm, got True. Updates then leave the span of "
            "the embeddings; ask for the whole spectrum."
        )
    H = hessian(problem, W, layer_norm=layer_norm)
    if restricted:
        B, A = update_bases(problem)
        return in_input_precision(_restricted_eigenvalues)(H, B, A)
    return in_input_precision(_eigenvalues)(H)


@jax.jit
def _eigenvalues(H: Float[Array, "*T i j i j"]) -> Float[Array, "*T n"]:
    *T, i, j, _, _ = H.shape
    return jnp.linalg.eigvalsh(H.reshape(*T, i * j, i * j))[..., ::-1]


@jax.jit
def _restricted_eigenvalues(
    H: Float[Array, "*T k d k d"], B: Float[Array, "k r"], A: Float[Array, "d s"]
) -> Float[Array, "*T n"]:
    B, A = jnp.asarray(B, H.dtype), jnp.asarray(A, H.dtype)
    return _eigenvalues(jnp.einsum("...ijkl,ia,jb,kc,le->...abce", H, B, A, B, A))
