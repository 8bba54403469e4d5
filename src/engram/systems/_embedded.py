"""EmbeddedSystem: embeddings that are learnt along with W."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from engram._checks import check_choice
from engram._precision import traceable
from engram._types import Array, Scores
from engram.particles import AbstractReadout
from engram.problem import Problem

State = dict[str, jax.Array]
_LEARNT = {"inputs": ("inputs",), "outputs": ("outputs",), "both": ("inputs", "outputs")}


class EmbeddedSystem(AbstractReadout):
    r"""A memory whose embeddings move, too: $w_{xy} = \langle u_y, W e_x \rangle$, all of it learnt.

    Embeddings start as those of the problem, and W from zero.

    Args:
        problem: What is to be remembered.
        learn: "inputs", "outputs" or "both", besides W.

    Paper: Section 2 keeps embeddings fixed; Section 6 leaves interactions of layers open.
    """

    problem: Problem
    law: Float[Array, "..."]
    learn: str = eqx.field(static=True)

    def __init__(self, problem: Problem, *, learn: Literal["inputs", "outputs", "both"] = "both"):
        check_choice("learn", learn, tuple(_LEARNT))
        self.problem, self.law, self.learn = problem, problem.law, learn

    def scores(self, state: State) -> Scores:
        E = jnp.asarray(state.get("inputs", self.problem.inputs))
        U = jnp.asarray(state.get("outputs", self.problem.outputs))
        return E @ (U @ state["W"]).T

    @traceable
    def start(self) -> State:
        learnt = {name: jnp.asarray(getattr(self.problem, name)) for name in _LEARNT[self.learn]}
        return {"W": jnp.asarray(self.problem.zero_weights)} | learnt
