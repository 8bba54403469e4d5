"""BiasedSystem: a bias for each class, and a temperature."""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from engram._checks import check_positive
from engram._precision import traceable
from engram._types import Array, Scalar, Scores
from engram.particles import AbstractReadout
from engram.problem import Problem

State = dict[str, jax.Array]


class BiasedSystem(AbstractReadout):
    r"""A memory with a learnt bias for each class: $w_{xy} = (\langle u_y, W e_x \rangle + b_y) / \tau$.

    Args:
        problem: What is to be remembered.
        temperature: $\tau$, by which scores are divided; a small one makes the same weights surer.

    Paper: eq:model has neither.
    """

    problem: Problem
    law: Float[Array, "..."]
    temperature: Scalar

    def __init__(self, problem: Problem, *, temperature: Scalar = 1.0):
        self.problem, self.law = problem, problem.law
        check_positive("temperature", temperature)
        self.temperature = temperature

    def scores(self, state: State) -> Scores:
        E, U = jnp.asarray(self.problem.inputs), jnp.asarray(self.problem.outputs)
        return (E @ (U @ state["W"]).T + state["bias"][None, :]) / self.temperature

    @traceable
    def start(self) -> State:
        bias = jnp.zeros(self.problem.num_classes, self.problem.inputs.dtype)
        return {"W": jnp.asarray(self.problem.zero_weights), "bias": bias}
