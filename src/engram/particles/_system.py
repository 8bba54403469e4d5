"""ParticleSystem: the scores as a system that dynamics can move."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from engram._precision import traceable
from engram._types import Array, Scores, Weights
from engram.particles._force import pull
from engram.particles._recall import centred, losses, pair_losses
from engram.problem import Problem
from engram.system import AbstractSystem


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


class ParticleSystem(AbstractSystem):
    """A memory whose state are its N x M particles; the Gram matrices are formed once.

    Paper: thm:inter.
    """

    problem: Problem
    law: Float[Array, "..."]
    input_gram: Float[Array, "N N"]
    output_gram: Float[Array, "M M"]

    def __init__(self, problem: Problem):
        self.problem = problem
        self.law = problem.law
        self.input_gram = problem.inputs @ problem.inputs.T
        self.output_gram = problem.outputs @ problem.outputs.T

    @traceable
    def start(self, W: Weights, *, shaken: bool = False) -> ParticleState:
        """The particles of given weights, before any update."""
        E, U = jnp.asarray(self.problem.inputs), jnp.asarray(self.problem.outputs)
        w = E @ (U @ W).T
        zero = jnp.zeros_like(W) if shaken else None
        return ParticleState(w, jnp.zeros_like(w), jnp.ones((), w.dtype), zero)

    @traceable
    def weights(self, state: ParticleState, W0: Weights) -> Weights:
        """The weights that a state stands for, when it began at `W0`."""
        E, U = jnp.asarray(self.problem.inputs), jnp.asarray(self.problem.outputs)
        W = state.kept * W0 + U.T @ state.coefficients.T @ E
        return W if state.shaken is None else W + state.shaken

    @traceable
    def loss(self, state: ParticleState, law: Array | None = None) -> Float[Array, ""]:
        law = jnp.asarray(self.law if law is None else law)
        if law.ndim == 2:
            return (law * pair_losses(centred(state.scores))).sum()
        return law @ losses(self.problem, state.scores)

    @traceable
    def grad(self, state: ParticleState, law: Array | None = None) -> ParticleState:
        law = jnp.asarray(self.law if law is None else law)
        c = pull(self.problem, state.scores, law)
        w = jnp.asarray(self.input_gram) @ c @ jnp.asarray(self.output_gram)
        still = None if state.shaken is None else jnp.zeros_like(state.shaken)
        return ParticleState(w, c, jnp.zeros_like(state.kept), still)

    @property
    def dim(self) -> int:
        return self.problem.dim

    def norm(self, direction: ParticleState) -> Float[Array, ""]:
        # |sum c u e^T|^2 = <c, alpha c Gamma>; below zero it is rounding.
        return jnp.sqrt(jnp.maximum((direction.scores * direction.coefficients).sum(), 0.0))

    def speed(self, direction: ParticleState) -> Float[Array, ""]:
        # Not the coefficients: with more tokens than dimensions they never come to rest.
        return jnp.sqrt(jnp.square(direction.scores).sum())

    def lift(self, change: Weights) -> ParticleState:
        moved = self.start(change)
        zero = jnp.zeros_like(moved.scores)
        return ParticleState(moved.scores, zero, jnp.zeros_like(moved.kept), change)
