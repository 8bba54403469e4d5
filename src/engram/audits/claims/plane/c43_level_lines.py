"""C43: the dynamics in the plane, and level lines."""

from collections.abc import Iterator

import jax
import numpy as np

from engram import memory
from engram._precision import in_double
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits.claims._checks import Checks


@in_double
@jax.jit
def _slope_in_the_plane(g, E, sign, p):
    """The gradient of the loss as a function of γ = (u_2 − u_1)ᵀW, whose product with e_x is −s_x m_x."""
    return jax.grad(lambda g: (p * jax.nn.softplus(sign * (E @ g))).sum())(g)


class C43(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C43")
        for index in range(20):
            problem, W = random_problem(rng, 4, 2, 2), random_weights(rng, 2, 3.0)
            u = problem.outputs[1] - problem.outputs[0]
            sign = 1.0 - 2.0 * problem.targets
            slope = np.asarray(_slope_in_the_plane(u @ W, problem.inputs, sign, problem.probs))
            moved = -u @ memory.grad(problem, W)
            yield equal(moved, -(u @ u) * slope, tolerance=1e-12, model=index)
