"""C57: how the half-gap oscillates under descent."""

from collections.abc import Iterator

import numpy as np

from engram.audits._evidence import MANY_STEPS, Evidence, all_of, at_most, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import ALPHAS, descents, late_descents
from engram.theory import interference


class C57(Checks):
    def _away(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The distances to γ̄ at η = 1 for a few correlations, at each step."""
        at, half_gap, _ = late_descents()
        chosen = [1, 3, 4]
        return ALPHAS[chosen], at, np.abs(half_gap[chosen, 7] - np.log(3) / 2)

    def printed(self, seed: int) -> Evidence:
        """For O(1/t) at all late times, t |γ_1 − γ̄| must stay bounded."""
        alpha, at, away = self._away()
        early = np.argmin(np.abs(at - 10_000))
        growth = away[:, -1] * at[-1] / (away[:, early] * at[early])
        return at_most(growth, 1.1, correlation=alpha)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = descents(seed)
        away = (run.half_gap - np.log(run.p1 / (1 - run.p1)) / 2)[:, :257]
        crosses = away[:, 1:] * away[:, :-1] < 0
        least = run.half_sum[:, :256] - np.abs(run.half_gap[:, :256])
        reach = (
            run.eta * run.c / 2 * (1 + run.alpha) * run.p1 / (1 + np.exp(np.minimum(least, 700)))
        )
        at = {"correlation": np.broadcast_to(run.alpha, crosses.shape)[crosses]}
        yield at_most(np.abs(away[:, 1:])[crosses], reach[crosses], tolerance=MANY_STEPS, **at)
        alpha, at, away = self._away()
        early = np.argmin(np.abs(at - 100_000))
        slope = np.log(away[0, -1] / away[0, early]) / np.log(at[-1] / at[early])
        yield equal(slope, -interference.half_gap_exponent(-0.5), tolerance=0.02, correlation=-0.5)
        rate = interference.half_gap_deviation_asymptote(at[-1], alpha[1:], 0.75)
        yield equal(away[1:, -1] / rate, 1.0, tolerance=0.02, correlation=alpha[1:])
