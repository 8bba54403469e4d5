"""FactoredSystem: W as a product of two thin matrices."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from engram._checks import InputError, check_count, check_positive
from engram._precision import traceable
from engram._types import Array, Scalar, Scores, Weights
from engram.particles import AbstractReadout
from engram.problem import Problem, as_key, orthonormal_rows

State = dict[str, jax.Array]


class FactoredSystem(AbstractReadout):
    r"""A memory $W = A B^\top$ of bounded rank; the state has both factors.

    Gradient flow keeps $A^\top A - B^\top B$, and descent up to $O(\eta^2)$. At A = B = 0 nothing moves; runs
    start from two random frames, $A_0 = s\, c\, Q$ and $B_0 = (s / c)\, R$ with orthonormal columns, so that
    c = 1 is balanced: $A^\top A = B^\top B$.

    Args:
        problem: What is to be remembered.
        rank: The number of columns of A and of B.
        start_size: s, the size of both factors at the start.
        imbalance: c, by how much A is larger and B smaller.
        start_seed: Seed of the two frames.

    Paper: Section 6 leaves factorised parameterisations open.
    """

    problem: Problem
    law: Float[Array, "..."]
    rank: int = eqx.field(static=True)
    start_size: Scalar
    imbalance: Scalar
    start_seed: int = eqx.field(static=True)

    def __init__(
        self,
        problem: Problem,
        rank: int,
        *,
        start_size: Scalar = 0.1,
        imbalance: Scalar = 1.0,
        start_seed: int = 0,
    ):
        most = min(problem.dim, problem.output_dim)
        if check_count("rank", rank) > most:
            raise InputError(
                f"`rank` must be at most {most}, the least dimension of W, got {rank}. "
                "A larger one adds nothing."
            )
        self.problem, self.law, self.rank = problem, problem.law, int(rank)
        check_positive("start_size", start_size)
        check_positive("imbalance", imbalance)
        self.start_size, self.imbalance = start_size, imbalance
        self.start_seed = check_count("start_seed", start_seed, least=0)

    def scores(self, state: State) -> Scores:
        E, U = jnp.asarray(self.problem.inputs), jnp.asarray(self.problem.outputs)
        return (E @ state["B"]) @ (U @ state["A"]).T

    def weights(self, state: State) -> Weights:
        return state["A"] @ state["B"].T

    @traceable
    def start(self) -> State:
        one, other = jax.random.split(as_key(self.start_seed))
        A = orthonormal_rows(one, self.rank, self.problem.output_dim).T
        B = orthonormal_rows(other, self.rank, self.problem.dim).T
        return {
            "A": jnp.asarray(A) * self.start_size * self.imbalance,
            "B": jnp.asarray(B) * self.start_size / self.imbalance,
        }
