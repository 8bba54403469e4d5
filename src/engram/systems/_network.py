"""NetworkSystem: a hidden layer between inputs and outputs."""

import functools
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from engram._checks import check_choice, check_count, check_positive
from engram._precision import traceable
from engram._types import Array, Scalar, Scores
from engram.particles import AbstractReadout
from engram.problem import Problem, as_key, gaussian_rows

State = dict[str, jax.Array]
_ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "linear": lambda h: h,
}


class NetworkSystem(AbstractReadout):
    r"""A memory with a hidden layer: $w_{xy} = \langle u_y, V \sigma(K e_x) \rangle$, both matrices learnt.

    The keys K start from normal numbers of variance $s^2 / d$, the values V from zero: V learns first.

    Args:
        problem: What is to be remembered.
        width: The number of hidden units.
        activation: $\sigma$: "relu", "gelu", "tanh" or "linear".
        start_size: s, the size of the keys at the start.
        start_seed: Seed of the keys.

    Paper: Section 6 leaves interactions of layers open.
    """

    problem: Problem
    law: Float[Array, "..."]
    width: int = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    start_size: Scalar
    start_seed: int = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        width: int,
        *,
        activation: Literal["relu", "gelu", "tanh", "linear"] = "relu",
        start_size: Scalar = 1.0,
        start_seed: int = 0,
    ):
        check_choice("activation", activation, tuple(_ACTIVATIONS))
        self.problem, self.law, self.activation = problem, problem.law, activation
        self.width = check_count("width", width)
        check_positive("start_size", start_size)
        self.start_size = start_size
        self.start_seed = check_count("start_seed", start_seed, least=0)

    def scores(self, state: State) -> Scores:
        E, U = jnp.asarray(self.problem.inputs), jnp.asarray(self.problem.outputs)
        hidden = _ACTIVATIONS[self.activation](E @ state["K"].T)
        return hidden @ (U @ state["V"]).T

    @traceable
    def start(self) -> State:
        keys = gaussian_rows(as_key(self.start_seed), self.width, self.problem.dim)
        values = jnp.zeros((self.problem.output_dim, self.width), self.problem.inputs.dtype)
        return {"K": jnp.asarray(keys) * self.start_size, "V": values}
