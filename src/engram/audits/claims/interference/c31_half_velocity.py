"""C31: the flow of the half-gap and the half-sum of the margins."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import pair_descent, sigma
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import random_pairs
from engram.theory import interference, printed


class C31(Checks):
    @all_of
    def _half_velocity(self, seed: int, form) -> Iterator[Evidence]:
        for problem, W, at in random_pairs(seed, "C31"):
            del at["learning_rate"]
            rise = interference.halves(*memory.margins(problem, -memory.grad(problem, W)))
            velocity = form(*interference.halves(*memory.margins(problem, W)), **at)
            del at["contrast"]
            yield equal(rise, np.array(velocity), tolerance=1e-12, **at)

    def printed(self, seed: int) -> Evidence:
        return self._half_velocity(seed, printed.half_velocity)

    def corrected(self, seed: int) -> Evidence:
        return self._half_velocity(seed, interference.flow_velocity)

    def certificates(self) -> list[Certificate]:
        half_sum = sum(pair_descent(fmpq(1, 2), fmpq(3, 4), 2, 1, 1)[1], arb(0)) / 2
        statement = "α = 1/2, c = 2, p_1 = 3/4, W = 0: dγ_2/dt, from the margins' first step, is c(1−α)(p_1 + p_2)/2"
        return [Certificate(statement, half_sum, "==", 2 * (1 - fmpq(1, 2)) * sigma(arb(0)))]
