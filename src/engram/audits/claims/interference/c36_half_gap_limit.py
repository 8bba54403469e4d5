"""C36: the limit of the half-gap under flow."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import first_step, isolate, sigma
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import BAR, SOLVER, TIMES, flow_halves
from engram.audits.claims.interference.c35_half_gap_bound import C35
from engram.theory import interference


class C36(Checks):
    _alpha = np.array([-1.0, -0.3, 0.0, 0.3, 0.6, 0.9, 1.0])

    def printed(self, seed: int) -> Evidence:
        """The distance to γ̄ at t = 1e9, for correlations between and at the ends."""
        half_gap, _ = flow_halves(self._alpha, 0.75)
        return equal(half_gap[:, -1], BAR, tolerance=1e-3, correlation=self._alpha)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        halves = flow_halves(self._alpha, 0.75)
        limit = interference.half_gap_limit(self._alpha, 0.75)
        yield equal(halves[0][:, -1], limit, tolerance=1e-3, correlation=self._alpha)
        for index in (0, 2, 6):
            solution = interference.flow_solution(TIMES, alpha := self._alpha[index], 0.75)
            ran = [half[index] for half in halves]
            yield equal(ran, np.array(solution), tolerance=SOLVER, correlation=alpha, time=TIMES)
        yield C35().corrected(seed)

    def certificates(self) -> list[Certificate]:
        rest = isolate(lambda g: fmpq(3, 4) * sigma(g) - fmpq(1, 4) * sigma(-g), 0, 3)
        m1, m2 = first_step(fmpq(-1), fmpq(3, 4), 2, 1)
        return [
            proof("α = 1, p_1 = 3/4: the one rest point of γ_1 (γ_2 = 0) is above ½ log 3", rest, ">", arb(3).log() / 2),
            proof("α = −1, p_1 = 3/4: γ_1 is still 0 after one step", (m1 - m2) / 2, "==", fmpq(0)),
        ]  # fmt: skip
