"""Noise in particle form: what random batches, or a shaken W, do to the scores."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from engram._precision import compiled, in_double
from engram._types import Array, ArrayLike, Scalar, Scores
from engram.particles._entry import read_brownian, read_particles
from engram.particles._force import pull, spread
from engram.problem import Problem, as_key


def gradient_noise(problem: Problem, w: ArrayLike, brownian: ArrayLike) -> Scores:
    r"""The fluctuation of a one-sample gradient, driven by one Brownian increment per sample.

    The law of the data shakes by $\sqrt{p}\, dB - p \sum \sqrt{p}\, dB$, which has the covariance of
    one draw, $\mathrm{diag}(p) - p p^\top$; the gradient is linear in the law, so this shakes it with
    exactly the covariance of one-sample gradients. Divide by $\sqrt{|B|}$ for a batch.

    Args:
        problem: What is stored.
        w: The scores, shape (N, M).
        brownian: Independent increments of the shape of `problem.law`.

    Paper: eq:SGF. There $\sigma_t$ is called a variance; it must be a square root of one.
    """
    return _noise(problem, read_particles(problem, "w", w), read_brownian(problem, brownian))


@compiled()
def _noise(problem: Problem, w: Scores, brownian: Array) -> Scores:
    root = jnp.sqrt(problem.law)
    shaken = root * brownian - problem.law * (root * brownian).sum()
    return spread(problem, pull(problem, w, shaken))


@in_double
def isotropic_noise(problem: Problem, key: PRNGKeyArray | int, scale: Scalar = 1.0) -> Scores:
    r"""Scores of a matrix with independent normal entries, drawn without the matrix.

    Their covariance is $\sigma^2\, \alpha_{ii'} \langle u_j, u_{j'} \rangle$.

    Paper: eq:SGF.
    """
    E, U = np.asarray(problem.inputs), np.asarray(problem.outputs)
    left, right = _square_root(E @ E.T), _square_root(U @ U.T)
    z = jax.random.normal(as_key(key), (len(E), len(U)), E.dtype)
    return scale * (left @ z @ right.T)


def _square_root(gram: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(gram)
    return vectors * np.sqrt(np.maximum(values, 0.0))  # a Gram matrix: below zero is rounding
