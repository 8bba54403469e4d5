"""C30: the cone in which the dynamics advance."""

from collections.abc import Iterator
from functools import partialmethod

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import sigma
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, at_least
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import random_pairs


class C30(Checks):
    @all_of
    def _cone(self, seed: int, sign: float) -> Iterator[Evidence]:
        """The coefficients of the update of Wᵀ(u_1 − u_2) along e_1 and e_2."""
        for problem, W, at in random_pairs(seed, "C30"):
            push = -memory.grad(problem, W).T @ (problem.outputs[0] - problem.outputs[1])
            first, second = np.linalg.lstsq(problem.inputs.T, push, rcond=None)[0]
            yield at_least(first, 0.0, tolerance=1e-9, correlation=at["correlation"])
            yield at_least(sign * second, 0.0, tolerance=1e-9, correlation=at["correlation"])

    printed = partialmethod(_cone, sign=1.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._cone(seed, sign=-1.0)
        for problem, W, at in random_pairs(seed, "C30"):
            rise = memory.margins(problem, -memory.grad(problem, W))
            if at["correlation"] <= 0:
                yield at_least(rise, 0.0, correlation=at["correlation"])

    def certificates(self) -> list[Certificate]:
        statement = "α = 0, p = (1/2, 1/2), W = 0, c = 1: the e_2-coefficient is at least 0"
        return [Certificate(statement, -arb(fmpq(1, 2)) * sigma(arb(0)), ">=", fmpq(0))]
