"""C37: the rate of the half-gap under flow."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import precision
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal, true
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import BAR, SOLVER, TIMES, flow_halves, middle
from engram.audits.claims.interference.c35_half_gap_bound import orthogonal_halves
from engram.theory import interference


@precision()
def _exact_orthogonal_deviation(decades: int) -> arb:
    return orthogonal_halves(arb(10) ** decades, fmpq(3, 4))[0] - arb(3).log() / 2


class C37(Checks):
    _alpha = np.array([-0.8, -0.5, -0.3, -0.1, 0.0, 0.2, 0.5, 0.9])

    def printed(self, seed: int) -> Evidence:
        """For O(1/t), t |γ_1 − γ̄| must stay bounded: compare it at 1e6 and at 1e4."""
        away = np.abs(flow_halves(self._alpha, 0.75)[0] - BAR) * TIMES
        late, early = np.argmin(np.abs(TIMES - 1e6)), np.argmin(np.abs(TIMES - 1e4))
        return at_most(away[:, late] / away[:, early], 1.05, correlation=self._alpha)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        away = flow_halves(self._alpha, 0.75)[0] - BAR
        late, above, slow = np.argmin(np.abs(TIMES - 1e6)), self._alpha > 0, self._alpha[:3]
        rate = interference.half_gap_deviation_asymptote(TIMES[late], self._alpha[above], 0.75)
        yield equal(away[above, late] / rate, 1.0, tolerance=5e-3, correlation=self._alpha[above])
        bound = interference.half_gap_deviation_lower_bound(TIMES[None, :], slow[:, None], 0.75)
        at = {"correlation": slow[:, None], "time": TIMES[None, :]}
        yield at_least(-away[:3], bound, tolerance=SOLVER, **at)
        slopes = np.log(np.abs(away[:3, -1] / away[:3, -9])) / np.log(TIMES[-1] / TIMES[-9])
        yield equal(slopes, -interference.half_gap_exponent(slow), tolerance=0.01, correlation=slow)
        yield equal(interference.half_gap_exponent([-0.5, 0.0, 0.5]), np.array([1 / 3, 1.0, 1.0]))
        # The next term is a constant over log t.
        orthogonal = interference.half_gap_deviation_asymptote(1e30, 0.0, 0.75)
        ratio = float(_exact_orthogonal_deviation(30)) / orthogonal
        yield equal(ratio, 1.0, tolerance=3 / np.log(1e30))
        # For nearly equal frequencies the lower bound is what happens: 1 - I(κ).
        alpha, p1 = np.array([-0.5, -0.25]), 0.5 + 1e-4
        away = middle(p1) - flow_halves(alpha, p1)[0][:, -1]
        bound = interference.half_gap_deviation_lower_bound(TIMES[-1], alpha, p1)
        yield equal(away / bound, 1.0, tolerance=5e-3, correlation=alpha)
        # At p_1 = 3/4 the half-gap ends below its limit for α = −0.25 and above it for α = −0.2.
        alpha = np.array([-0.25, -0.2])
        away = flow_halves(alpha, 0.75)[0][:, -1] - BAR
        yield true(np.array([away[0] < 0, away[1] > 0]), correlation=alpha)

    def certificates(self) -> list[Certificate]:
        certificates = []
        for decades, bound in ((8, 10), (16, 20), (32, 40)):
            statement = f"α = 0, c = 2, p_1 = 3/4, t = 10^{decades}: t|γ_1 − γ̄| ≤ {bound}"
            away = arb(10) ** decades * _exact_orthogonal_deviation(decades)
            certificates.append(Certificate(statement, away, "<=", bound))
        # alpha = -1/2: kappa = 1/3; I(kappa) = sum kappa 2^-n/(n - kappa), its tail below 2^-60.
        kappa, t = fmpq(1, 3), arb(10) ** 12
        terms = (arb(kappa / (2**n * (n - kappa))) for n in range(1, 61))
        share = sum(terms, arb(0)) + arb(0, arb(2) ** -60)
        sinh = (arb(3).sqrt() - 1 / arb(3).sqrt()) / 2
        least = (sinh * (1 - share) * (-arb(kappa) * (fmpq(3, 4) * t + 1).log()).exp()).asinh()
        statement = "α = −1/2, c = 2, p_1 = 3/4, t = 10¹²: t|γ_1 − γ̄| ≤ 10⁶ (by the lower bound)"
        return [*certificates, Certificate(statement, t * least, "<=", 10**6)]

    def curves(self) -> Curves:
        t = TIMES[20:40]
        away = np.abs(flow_halves([-0.5, 0.0, 0.5], 0.75)[0] - BAR)[:, 20:40]
        return Curves("t |γ_1 − γ̄| (p_1 = 3/4, c = 2): bounded if the rate were 1/t", ("time", t), {
            "true, α = −1/2": away[0] * t, "true, α = 0": away[1] * t, "true, α = 1/2": away[2] * t,
            "corrected, α = −1/2": interference.half_gap_deviation_lower_bound(t, -0.5, 0.75) * t},
            log_x=True, log_y=True)  # fmt: skip
