"""ParticleSystem: the scores as a system that dynamics can move."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from engram._types import Array, Scores
from engram.particles._force import pull
from engram.particles._recall import losses, pair_losses
from engram.problem import Problem
from engram.system import AbstractSystem


class ParticleState(eqx.Module):
    """Scores, and the coefficients of the updates that led to them.

    The pair keeps W within reach without ever inverting anything: W = W_0 + sum C[x, y] u_y e_x^T.
    """

    scores: Scores
    coefficients: Scores


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

    def loss(self, state: ParticleState, law: Array | None = None) -> Float[Array, ""]:
        law = jnp.asarray(self.law if law is None else law)
        if law.ndim == 2:
            return (law * pair_losses(state.scores)).sum()
        return law @ losses(self.problem, state.scores)

    def grad(self, state: ParticleState, law: Array | None = None) -> ParticleState:
        law = jnp.asarray(self.law if law is None else law)
        c = pull(self.problem, state.scores, law)
        return ParticleState(jnp.asarray(self.input_gram) @ c @ self.output_gram, c)
