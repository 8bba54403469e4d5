"""MemorySystem: the matrix W as a system that dynamics can move."""

import jax.numpy as jnp
from jaxtyping import Float

from engram._types import Array, Weights
from engram.memory._loss import grad_given_law, loss_given_law
from engram.problem import Problem
from engram.system import AbstractSystem


class MemorySystem(AbstractSystem):
    """A memory whose state is its weights `W`.

    Paper: eq:obj, eq:grad.
    """

    problem: Problem
    law: Float[Array, "..."]
    layer_norm: bool

    def __init__(self, problem: Problem, *, layer_norm: bool = False):
        self.problem = problem
        self.law = problem.law
        self.layer_norm = layer_norm

    def loss(self, state: Weights, law: Array | None = None) -> Float[Array, ""]:
        law = jnp.asarray(self.law if law is None else law)
        return loss_given_law(self.problem, state, law, self.layer_norm, None)

    def grad(self, state: Weights, law: Array | None = None) -> Weights:
        law = jnp.asarray(self.law if law is None else law)
        return grad_given_law(self.problem, state, law, self.layer_norm, None)
