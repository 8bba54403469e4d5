"""C39b: the half-gap under descent, late."""

from collections.abc import Iterator
from functools import partialmethod

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import isolate, sigma
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, all_of, at_most
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import ALPHAS, RATES, late_descents


class C39b(Checks):
    @all_of
    def _late(self, seed: int, count: int) -> Iterator[Evidence]:
        """The distance to γ̄ after a million steps, for the first correlations of those below and at 1."""
        _, half_gap, _ = late_descents()
        alpha, away = ALPHAS[:count, None], np.abs(half_gap[:count] - np.log(3) / 2)
        at = {"correlation": alpha, "learning_rate": RATES}
        yield at_most(away[..., -1], RATES * (1 - alpha) * 0.75 + 0.75 / 0.5, **at)
        yield at_most(away[:5, :, -1], away[:5, :, -12], tolerance=1e-9)

    printed = partialmethod(_late, count=6)
    corrected = partialmethod(_late, count=5)

    def certificates(self) -> list[Certificate]:
        step = lambda g: g + 12 * (fmpq(3, 4) * sigma(g) - fmpq(1, 4) * sigma(-g))
        slope = lambda g: 1 - 12 * sigma(g) * sigma(-g)
        low = isolate(lambda g: step(step(g)) - g, fmpq(39, 100), fmpq(40, 100))
        high, setting = step(low), "α = 1, p_1 = 3/4, c = 2, η = 6"
        return [
            proof(f"{setting}: γ_1 has a 2-cycle, whose lower point is below 0.3954", low, "<", fmpq(3954, 10**4)),
            proof("and whose upper point is farther than p_1/(2p_2) = 3/2 from γ̄ = ½ log 3", high - arb(3).log() / 2, ">", fmpq(3, 2)),
            proof("it attracts: the multiplier is below 1", abs(slope(low) * slope(high)), "<", fmpq(1)),
        ]  # fmt: skip
