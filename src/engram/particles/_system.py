"""ParticleSystem: the scores as a system that dynamics can move."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from engram._checks import is_traced
from engram._precision import traceable
from engram._types import Array, PyTree, Scalar, Scores, Weights
from engram.particles._curvature import sharpness
from engram.particles._force import pull
from engram.particles._readout import AbstractReadout
from engram.particles._recall import recall_probs
from engram.problem import Problem
from engram.system import Look


class ScoreSystem(AbstractReadout):
    """What particles and margins have in common: states that stand for weights, from scores alone."""

    def sharpness(self, state: PyTree) -> Scalar:
        return sharpness(self.problem, self.scores(state))

    @traceable
    def grad_norm(self, state: PyTree) -> Float[Array, ""]:
        # W is formed: the scores' own norm is exact only to the root of the rounding.
        return jnp.linalg.norm(self.weights(self.grad(state)))

    def norm(self, direction: PyTree) -> Float[Array, ""]:
        # Below zero it is rounding.
        return jnp.sqrt(jnp.maximum(self.inner(direction, direction), 0.0))

    def size(self, state: PyTree) -> int:
        return self.problem.size

    def kept(self, state: PyTree) -> dict[str, Any]:
        return {"weights": self.weights(state)}


class ParticleState(eqx.Module):
    """Scores, and how they came about.

    `coefficients` and `kept` put W within reach without inverting anything: as long as updates are
    gradients, W = kept W_0 + sum C[x, y] u_y e_x^T (`kept` falls below 1 only by weight decay).
    Noise on W itself leaves that form and is added up in `shaken`, which is absent otherwise.
    """

    scores: Scores
    coefficients: Scores
    kept: Float[Array, ""]
    shaken: Weights | None = None


class ParticleSystem(ScoreSystem):
    """A memory whose state are its N x M particles; the Gram matrices are formed once.

    Args:
        problem: What is to be remembered.
        origin: The weights that a run starts from, which particles alone do not determine; zero by default.
        shaken: Whether noise on W itself is added up, too.

    Paper: thm:inter.
    """

    problem: Problem
    law: Float[Array, "..."]
    origin: Weights
    input_gram: Float[Array, "N N"]
    output_gram: Float[Array, "M M"]
    shaken: bool = eqx.field(static=True)

    def __init__(self, problem: Problem, origin: Weights | None = None, *, shaken: bool = False):
        self.problem = problem
        self.law = problem.law
        self.origin = problem.zero_weights if origin is None else origin
        self.shaken = shaken
        self.input_gram = problem.inputs @ problem.inputs.T
        self.output_gram = problem.outputs @ problem.outputs.T

    @traceable
    def start(self, W: Weights | None = None) -> ParticleState:
        """The particles of given weights, by default the origin, before any update."""
        W = self.origin if W is None else W
        xp: Any = jnp if is_traced(self, W) else np  # compiles nothing
        E, U, W = map(xp.asarray, (self.problem.inputs, self.problem.outputs, W))
        w = E @ (U @ W).T
        zero = xp.zeros_like(W) if self.shaken else None
        return ParticleState(w, xp.zeros_like(w), xp.ones((), w.dtype), zero)

    @traceable
    def weights(self, state: ParticleState) -> Weights:
        """The weights that a state stands for, when it began at the origin."""
        E, U = jnp.asarray(self.problem.inputs), jnp.asarray(self.problem.outputs)
        W = state.kept * jnp.asarray(self.origin) + U.T @ state.coefficients.T @ E
        return W if state.shaken is None else W + state.shaken

    def scores(self, state: ParticleState) -> Scores:
        return state.scores

    def recall_probs(self, state: ParticleState) -> Scores:
        return recall_probs(self.problem, state.scores)

    @traceable
    def grad(
        self, state: ParticleState, law: Array | None = None, look: Look | None = None
    ) -> ParticleState:
        del look
        law = jnp.asarray(self.law if law is None else law)
        c = pull(self.problem, state.scores, law)
        w = jnp.asarray(self.input_gram) @ c @ jnp.asarray(self.output_gram)
        still = None if state.shaken is None else jnp.zeros_like(state.shaken)
        return ParticleState(w, c, jnp.zeros_like(state.kept), still)

    def inner(self, a: ParticleState, b: ParticleState) -> Float[Array, ""]:
        # <sum c u e^T, sum c' u e^T> = <c, alpha c' Gamma>
        return (a.scores * b.coefficients).sum()

    def speed(self, direction: ParticleState) -> Float[Array, ""]:
        # Not the coefficients: with more tokens than dimensions they never come to rest.
        return jnp.sqrt(jnp.square(direction.scores).sum())

    def noise(self, state: ParticleState, key: PRNGKeyArray) -> ParticleState:
        """Noise on the entries of W, as the particles feel it."""
        shape = (self.problem.output_dim, self.problem.dim)
        change = jax.random.normal(key, shape, state.scores.dtype)
        zero = jnp.zeros_like(state.coefficients)
        return ParticleState(self.start(change).scores, zero, jnp.zeros_like(state.kept), change)
