"""C45: where the sharpness is high."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, at_most, equal
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits.claims._checks import Checks
from engram.problem import orthonormal, two_tokens
from engram.theory import interference


class C45(Checks):
    def printed(self, seed: int) -> Evidence:
        rng, problem = rng_for(seed, "C45"), orthonormal(1, 3)
        at_zero = memory.sharpness(problem, np.zeros((3, 3)))
        tie = np.outer([50.0, 50.0, -50.0], np.eye(3)[0])
        drawn = [tie, *(random_weights(rng, 3) for _ in range(20))]
        sharp = [memory.sharpness(problem, W) for W in drawn]
        return at_most(sharp, at_zero, tolerance=1e-8, model=np.arange(21))

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C45")
        for index in range(12):
            problem, W = random_problem(rng, 3, 2, 3), random_weights(rng, 3)
            at_zero = memory.sharpness(problem, np.zeros((3, 3)))
            share = memory.sharpness(problem, W) / at_zero
            u, lengths = problem.outputs[0] - problem.outputs[1], (problem.inputs**2).sum(1)
            bound = (u @ u) * lengths.max() * memory.loss(problem, W)
            yield at_most(share, 1.0, tolerance=1e-8, model=index)
            yield at_most(share, bound / at_zero, tolerance=1e-8, model=index)
        for alpha, p1 in ((0.95, 0.75), (-0.5, 0.6), (0.3, 0.99)):
            sharp = memory.sharpness(two_tokens(alpha, p1), np.zeros((2, 2)))
            bound_at_zero = interference.smoothness(alpha, p1)
            yield equal(sharp, bound_at_zero, tolerance=1e-8, correlation=alpha, p1=p1)

    def certificates(self) -> list[Certificate]:
        e = arb(-100).exp()
        q = [1 / (2 + e), 1 / (2 + e), e / (2 + e)]
        # Along (1, −1, 0)/√2 the Hessian of one orthonormal token is this; the sharpness is at least it.
        gap = q[0] - q[1]
        along = (q[0] + q[1]) / 2 - gap * gap / 2
        statement = "M = 3, one token, orthonormal, w = (50, 50, −50): the sharpness is at most 1/3, that at W = 0"
        return [Certificate(statement, along, "<=", fmpq(1, 3))]
