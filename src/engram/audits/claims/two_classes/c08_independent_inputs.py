"""C08: whether independent inputs ensure perfect accuracy."""

import numpy as np
from flint import arb, fmpq

from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, true
from engram.audits._parameters import random_problem, rng_for
from engram.audits.claims._checks import Checks
from engram.capacity import is_separable
from engram.problem import Problem


class C08(Checks):
    def _problems(self, seed: int) -> list[Problem]:
        rng = rng_for(seed, "C08")
        inside = Problem([[1.0, 0.0]], [[1.0, 0], [-1, 0], [0, 0]], [1.0], [2])
        return [*(random_problem(rng, 2, 5, 2) for _ in range(60)), inside]

    def printed(self, seed: int) -> Evidence:
        stored = [is_separable(problem) for problem in self._problems(seed)]
        return true(stored, draw=np.arange(61))

    def corrected(self, seed: int) -> Evidence:
        """Stored exactly where every target is an exposed vertex of the outputs' hull."""
        same = []
        for problem in self._problems(seed):
            token, targets = np.eye(1, 2), set(problem.targets.tolist())
            alone = [Problem(token, problem.outputs, [1.0], [y]) for y in targets]
            same.append(is_separable(problem) == all(map(is_separable, alone)))
        return true(same, draw=np.arange(61))

    def certificates(self) -> list[Certificate]:
        statement = "inf L = 0 for u = (1,0), (−1,0), (0,0), target 3, where L = log(1 + 2 cosh a) is least at a = 0"
        return [Certificate(statement, (1 + 2 * arb(0).cosh()).log(), "==", fmpq(0))]
