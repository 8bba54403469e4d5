"""C32: the half-sum always grows, along the max-margin direction."""

from collections.abc import Iterator

import numpy as np
from flint import fmpq

from engram import memory
from engram.audits._balls import first_step
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, all_of, at_least, equal, true
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import RUNS, descents
from engram.capacity import max_margin
from engram.problem import two_tokens
from engram.theory import interference


class C32(Checks):
    @all_of
    def _sum_grows(self, seed: int) -> Iterator[Evidence]:
        run = descents(seed)
        # Large steps may leave later ones below rounding, so that "increases" is seen as "does not fall".
        yield at_least(np.diff(run.half_sum, axis=1), 0.0, correlation=run.alpha)
        yield true(run.half_sum[:, 1] > 0, correlation=run.alpha[:, 0])

    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        yield self._sum_grows(seed)
        m = descend_pairs(np.ones(RUNS), 0.75, 2.0, 1.0, np.arange(257))
        rises = np.diff(m.mean(2)[:, :64], axis=1) > 1e-12  # rounding of a constant
        yield true(rises, correlation=1.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._sum_grows(seed)
        for alpha in (-0.9, -0.3, 0.5, 0.95):
            problem = two_tokens(alpha, 0.75)
            W = interference.max_margin(problem)
            yield equal(max_margin(problem), W, tolerance=1e-6, correlation=alpha)
            yield equal(np.linalg.norm(W), interference.max_margin_norm(alpha), correlation=alpha)
            yield equal(memory.margins(problem, W), 1.0, correlation=alpha)

    def certificates(self) -> list[Certificate]:
        half_sum = sum(first_step(fmpq(1), fmpq(3, 4), 2, 1), fmpq(0)) / 2
        statement = "α = 1, p_1 = 3/4, c = 2, η = 1: γ_2 is still 0 after one step"
        return [proof(statement, half_sum, "==", fmpq(0))]
