"""C35: how far the half-gap is from its limit under flow."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import inverse_g
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_most, equal, true
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import BAR, SOLVER, TIMES, flow_halves, flows, middle
from engram.theory import interference, printed


def orthogonal_halves(t: arb, p1: fmpq) -> tuple[arb, arb]:
    """The closed form at alpha = 0, c = 2: G(m_i) = 1 + 2 p_i t."""
    m1, m2 = inverse_g(1 + 2 * p1 * t), inverse_g(1 + 2 * (1 - p1) * t)
    return (m1 - m2) / 2, (m1 + m2) / 2


class C35(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        run = flows(seed)
        at = {"correlation": run.alpha, "p1": run.p1, "time": run.at, "tolerance": SOLVER}
        bound = printed.half_gap_turning_bound(run.half_sum, run.p1)
        yield at_most(np.sinh(run.half_gap - middle(run.p1)), bound, **at)
        bound = printed.half_gap_upper_bound(run.at, run.alpha, run.p1, run.c)
        yield at_most(run.half_gap, bound, **at)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = flows(seed)
        # At time zero both sides are sinh of the whole way; solver errors below zero are not margins.
        half_sum = np.maximum(run.half_sum, 0.0)
        bound = interference.half_gap_deviation_bound(half_sum, run.alpha, run.p1)
        away = np.abs(np.sinh(run.half_gap - middle(run.p1)))
        yield equal(away[:, 0], bound[:, 0], tolerance=1e-12, correlation=run.alpha[:, 0])
        at = {"correlation": run.alpha, "p1": run.p1, "time": run.at}
        yield at_most(away, bound, tolerance=SOLVER, **at)
        # It is sinh(γ̄) Φ_κ(ℓ) as stated.
        alpha, half_sum = np.array([-0.6, 0.3, 0.8]), np.array([0.5, 3.0, 9.0])
        kappa, q = (1 + alpha) / (1 - alpha), np.sqrt(3) / 4
        l = np.log((1 + 2 * q * np.exp(half_sum)) / (1 + 2 * q))
        phi = (kappa * np.exp(-l) - np.exp(-kappa * l)) / (kappa - 1)
        bound = interference.half_gap_deviation_bound(half_sum, alpha, 0.75)
        yield equal(bound / (np.sinh(BAR) * phi), 1.0, tolerance=1e-9, correlation=alpha)
        # Below zero it falls with the half-gap's own exponent.
        slow = np.array([-0.8, -0.5, -0.3])
        half_gap, half_sum = (half[:, [-9, -1]] for half in flow_halves(slow, 0.75))
        ends = interference.half_gap_deviation_bound(half_sum, slow[:, None], 0.75)
        falls = lambda values: (
            -np.diff(np.log(values), axis=1)[:, 0] / np.log(TIMES[-1] / TIMES[-9])
        )
        yield equal(
            falls(ends) / falls(np.abs(np.sinh(half_gap - BAR))),
            1.0,
            tolerance=0.02,
            correlation=slow,
        )
        # The printed final bound holds eventually exactly for α > s/(4.2 − s): from 0.159 on at p_1 = 3/4.
        alpha, s = np.array([0.05, 0.13, 0.19, 0.3, 0.6]), np.sqrt(1 / 3)
        half_gap, late = flow_halves(alpha, 0.75)[0], np.argmin(np.abs(TIMES - 1e6))
        bound = printed.half_gap_upper_bound(TIMES[late], alpha, 0.75, 2.0)
        yield true((half_gap[:, late] <= bound) == (alpha > s / (4.2 - s)), correlation=alpha)

    def certificates(self) -> list[Certificate]:
        t = 10**4
        half_gap, half_sum = orthogonal_halves(arb(t), fmpq(3, 4))
        away, q = half_gap - arb(3).log() / 2, arb(3).sqrt() / 4
        bound = fmpq(1, 2) / q * arb(fmpq(105, 100)) / (fmpq(2, 4) * t + 1)
        twice = orthogonal_halves(arb(2 * t), fmpq(3, 4))[0] - arb(3).log() / 2
        return [
            Certificate("α = 0, c = 2, p_1 = 3/4, t = 10⁴: sinh(γ_1 − γ̄) ≤ C(γ_2)", away.sinh(), "<=", fmpq(1, 2) / (2 * q) * (-half_sum).exp()),
            Certificate("the same: γ_1 − γ̄ ≤ 1.05 (p_1−p_2)/(√(p_1p_2)(c_1t + 1))", away, "<=", bound),
            Certificate("the same under the flow as printed, which is twice as fast (C31)", twice, "<=", bound),
        ]  # fmt: skip

    def curves(self) -> Curves:
        late = TIMES > 1
        half_gap, half_sum = (half[0, late] for half in flow_halves([0.0], 0.75))
        return Curves("|sinh(γ_1 − γ̄)|, α = 0, p_1 = 3/4, c = 2", ("time", TIMES[late]), {
            "true": np.abs(np.sinh(half_gap - BAR)), "printed": printed.half_gap_turning_bound(half_sum, 0.75),
            "corrected": interference.half_gap_deviation_bound(half_sum, 0.0, 0.75)}, log_x=True, log_y=True)  # fmt: skip
