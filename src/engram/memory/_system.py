"""MemorySystem: the matrix W as a system that dynamics can move."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from engram._precision import traceable
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
    layer_norm: bool = eqx.field(static=True)

    def __init__(self, problem: Problem, *, layer_norm: bool = False):
        self.problem = problem
        self.law = problem.law
        self.layer_norm = layer_norm

    @traceable
    def loss(self, state: Weights, law: Array | None = None) -> Float[Array, ""]:
        law = jnp.asarray(self.law if law is None else law)
        return loss_given_law(self.problem, state, law, self.layer_norm, None)

    @traceable
    def grad(self, state: Weights, law: Array | None = None) -> Weights:
        law = jnp.asarray(self.law if law is None else law)
        return grad_given_law(self.problem, state, law, self.layer_norm, None)

    @property
    def dim(self) -> int:
        return self.problem.dim

    def norm(self, direction: Weights) -> Float[Array, ""]:
        return jnp.sqrt(jnp.sum(direction * direction))

    def speed(self, direction: Weights) -> Float[Array, ""]:
        return self.norm(direction)

    def lift(self, change: Weights) -> Weights:
        return change
