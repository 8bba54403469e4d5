"""The span of the updates: where W can move, and the rest of it, which never does."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from engram._checks import InputError, is_traced
from engram._precision import compiled
from engram._types import Array, ArrayLike
from engram.memory._entry import read_matrix
from engram.problem import Problem


def update_bases(problem: Problem) -> tuple[Float[Array, "k r"], Float[Array, "d s"]]:
    r"""Orthonormal bases of $\mathrm{span}\{u_j - u_k\}$ and of the inputs that occur.

    Every gradient lies in the product of the two; for $p(x) = 0$, $e_x$ exerts no force.

    Paper: eq:grad, the remark below it.
    """
    if is_traced(problem):
        raise InputError(
            "`problem` must be concrete here: the rank of its span sets a shape. Call it outside of jit."
        )
    E, U = np.asarray(problem.inputs), np.asarray(problem.outputs)
    return _basis(U[1:] - U[:1]), _basis(E[np.asarray(problem.probs) > 0])


def _basis(rows: np.ndarray) -> np.ndarray:
    _, values, vectors = np.linalg.svd(np.asarray(rows, dtype=np.float64), full_matrices=False)
    largest = values.max(initial=0.0)
    kept = values > max(rows.shape) * np.finfo(rows.dtype).eps * largest
    return vectors[kept].T.astype(rows.dtype)


def project_on_updates(problem: Problem, W: ArrayLike) -> Float[Array, "*T k d"]:
    r"""The part of W that training can change; `W` less this is $\Pi_\perp W$, which never moves.

    Paper: thm:ortho-bin.
    """
    B, A = update_bases(problem)
    return _project(read_matrix(problem, "W", W), B @ B.T, A @ A.T)


def update_projections(problem: Problem) -> tuple[Float[Array, "k k"], Float[Array, "d d"]]:
    """The projections on the two spans of `update_bases`; of a traced problem as well."""
    E, U = jnp.asarray(problem.inputs), jnp.asarray(problem.outputs)
    seen = jnp.where(jnp.asarray(problem.probs)[:, None] > 0, E, 0.0)
    return _projection(U[1:] - U[:1]), _projection(seen)


def _projection(rows: Float[Array, "n d"]) -> Float[Array, "d d"]:
    _, values, vectors = jnp.linalg.svd(rows, full_matrices=False)
    kept = values > max(rows.shape) * jnp.finfo(rows.dtype).eps * values.max(initial=0.0)
    return (vectors * kept[:, None]).T @ vectors


@compiled()
def _project(
    W: Float[Array, "*T k d"], left: Float[Array, "k k"], right: Float[Array, "d d"]
) -> Float[Array, "*T k d"]:
    return jnp.einsum("ij,...jk,kl->...il", left, W, right)
