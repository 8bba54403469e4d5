"""C58: a larger learning rate as a speed-up of time."""

from collections.abc import Iterator

import numpy as np

from engram.audits._evidence import Evidence, all_of, at_least, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import ALPHAS, RATES, late_descents
from engram.theory import interference


class C58(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        at, _, half_sum = late_descents()
        last, rates = half_sum[2:5, :15, -1], RATES[:15]
        yield at_least(np.diff(last, axis=1), 0.0, learning_rate=rates[1:])
        # One curve of ηt: at equal ηt the runs of all rates have the same half-sum.
        shift = last - np.log(rates * at[-1])
        yield equal(shift - shift[:, :1], 0.0, tolerance=1e-2, learning_rate=rates)

    def corrected(self, seed: int) -> Evidence:
        at, _, half_sum = late_descents()
        alpha, rates = ALPHAS[2:5, None], RATES[:15]
        limit = interference.half_sum_asymptote(rates * at[-1], alpha, 0.75)
        return equal(half_sum[2:5, :15, -1], limit, tolerance=1e-3, correlation=alpha)
