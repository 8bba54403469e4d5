"""C33 to C37: two tokens under gradient flow (Theorem 4)."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import first_step, inverse_g, isolate, precision, sigma
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, between, equal, true
from engram.audits.claims._checks import Checks
from engram.audits.claims._pair_runs import SOLVER, TIMES, flow_halves, flows, middle
from engram.theory import interference, printed

_BAR = np.log(3) / 2  # γ̄ at p_1 = 3/4


class C33(Checks):
    def printed(self, seed: int) -> Evidence:
        """c_t/c_0 between 2 p_2 and 8 p_1^3/p_2^2, at times where the remainder has vanished."""
        run = flows(seed)
        c0 = (1 - run.alpha) * run.c
        late = (c0 * (1 - run.p1) * TIMES > 1e5) & (TIMES > 0)
        ratio = (np.exp(run.half_sum) - 1) / np.where(late, c0 * TIMES, 1.0)
        low, high = printed.half_sum_constants(run.p1)
        pick = lambda values: np.broadcast_to(values, late.shape)[late]
        at = {"correlation": pick(run.alpha), "p1": pick(run.p1), "time": pick(TIMES)}
        return between(pick(low), ratio[late], pick(high), tolerance=1e-2, **at)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = flows(seed)
        low, high = interference.half_sum_bounds(run.at, run.alpha, run.p1, run.c)
        at = {"correlation": run.alpha, "p1": run.p1, "time": TIMES}
        yield between(low, run.half_sum, high, tolerance=SOLVER, **at)
        # Below zero the half-gap is slow to settle (C37), and the half-sum waits for it; else the remainder
        # is log(t)/(2 q k t), far below the tolerance.
        last = interference.half_sum_asymptote(TIMES[-1], run.alpha, run.p1, run.c)
        settled = (run.alpha > -0.1) & (run.alpha < 0.9)
        settled &= (1 - run.alpha) * run.c * (1 - run.p1) ** 2 * TIMES[-1] > 1e6
        yield equal(run.half_sum[:, -1:][settled], last[settled], tolerance=1e-3)
        # At equal frequencies the upper bound is the flow itself.
        even = run.p1[:, 0] == 0.5
        yield equal(run.half_sum[even], high[even], tolerance=SOLVER)
        # Nearly parallel tokens come near the lower constant.
        alpha, p1, times = 0.9999, 0.9, np.geomspace(10.0, 1e5, 50)
        _, half_sum = flow_halves([alpha], p1, times=times)
        ratio = (half_sum + np.expm1(half_sum)) / ((1 - alpha) * 2.0 * times)
        yield equal(ratio.min(), 2 * p1 * (1 - p1), tolerance=0.01, correlation=alpha, p1=p1)

    def certificates(self) -> list[Certificate]:
        t = 10**6
        ratio = (inverse_g(1 + fmpq(t, 2)).exp() - 1) / t
        statement = "p_1 = 1/2, α = 1/2, c = 2, t = 10⁶: (e^{γ_2} − 1)/(c_0 t) ≥ 2 p_2 = 1"
        return [Certificate(statement, ratio, ">=", fmpq(1))]

    def curves(self) -> Curves:
        t, half_sum = TIMES[8:], flow_halves([0.5], 0.6)[1][0, 8:]
        low, high = interference.half_sum_bounds(t, 0.5, 0.6)
        ratio = lambda g: np.expm1(g) / t
        return Curves("(e^{γ_2} − 1)/(c_0 t), α = 1/2, p_1 = 0.6, c = 2", ("time", t), {
            "true": ratio(half_sum), "printed": np.full(len(t), 0.8), "corrected": ratio(low), "corrected, above": ratio(high)},
            "c_t/c_0", log_x=True)  # fmt: skip


class C34(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        run = flows(seed)
        at = {"correlation": run.alpha, "p1": run.p1, "time": run.at}
        yield at_least(run.half_gap, 0.0, tolerance=SOLVER, **at)
        yield at_most(run.half_gap, np.log(4 * (run.p1 / (1 - run.p1)) ** 2), **at)
        rise, _ = interference.flow_velocity(run.half_gap, run.half_sum, run.alpha, run.p1, run.c)
        turned = run.half_gap >= interference.turning_half_gap(run.half_sum, run.p1)
        clear = np.abs(rise) > 1e-12
        yield true(turned[clear] == (rise[clear] <= 0))

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = flows(seed)
        low, high = interference.half_gap_bounds(run.p1)
        at = {"correlation": run.alpha, "p1": run.p1, "time": TIMES}
        yield between(low, run.half_gap, high, tolerance=SOLVER, **at)
        half_gap, _ = flow_halves([0.9999], 0.75, times=np.geomspace(10.0, 1e5, 50))
        yield at_least(half_gap.max(), 0.99 * np.log(3), correlation=0.9999)


def _orthogonal_halves(t: arb, p1: fmpq) -> tuple[arb, arb]:
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
        # The printed final bound holds eventually exactly for α > s/(4.2 − s): from 0.159 on at p_1 = 3/4.
        alpha, s = np.array([0.05, 0.13, 0.19, 0.3, 0.6]), np.sqrt(1 / 3)
        half_gap, late = flow_halves(alpha, 0.75)[0], np.argmin(np.abs(TIMES - 1e6))
        bound = printed.half_gap_upper_bound(TIMES[late], alpha, 0.75, 2.0)
        yield true((half_gap[:, late] <= bound) == (alpha > s / (4.2 - s)), correlation=alpha)

    def certificates(self) -> list[Certificate]:
        t = 10**4
        half_gap, half_sum = _orthogonal_halves(arb(t), fmpq(3, 4))
        away, q = half_gap - arb(3).log() / 2, arb(3).sqrt() / 4
        bound = fmpq(1, 2) / q * arb(fmpq(105, 100)) / (fmpq(2, 4) * t + 1)
        return [
            Certificate("α = 0, c = 2, p_1 = 3/4, t = 10⁴: sinh(γ_1 − γ̄) ≤ C(γ_2)", away.sinh(), "<=", fmpq(1, 2) / (2 * q) * (-half_sum).exp()),
            Certificate("the same: γ_1 − γ̄ ≤ 1.05 (p_1−p_2)/(√(p_1p_2)(c_1t + 1))", away, "<=", bound),
        ]  # fmt: skip

    def curves(self) -> Curves:
        late = TIMES > 1
        half_gap, half_sum = (half[0, late] for half in flow_halves([0.0], 0.75))
        return Curves("|sinh(γ_1 − γ̄)|, α = 0, p_1 = 3/4, c = 2", ("time", TIMES[late]), {
            "true": np.abs(np.sinh(half_gap - _BAR)), "printed": printed.half_gap_turning_bound(half_sum, 0.75),
            "corrected": interference.half_gap_deviation_bound(half_sum, 0.0, 0.75)}, log_x=True, log_y=True)  # fmt: skip


class C36(Checks):
    _alpha = np.array([-1.0, -0.3, 0.0, 0.3, 0.6, 0.9, 1.0])

    def printed(self, seed: int) -> Evidence:
        """The distance to γ̄ at t = 1e9, for correlations between and at the ends."""
        half_gap, _ = flow_halves(self._alpha, 0.75)
        return equal(half_gap[:, -1], _BAR, tolerance=1e-3, correlation=self._alpha)

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


@precision()
def _exact_orthogonal_deviation(decades: int) -> arb:
    return _orthogonal_halves(arb(10) ** decades, fmpq(3, 4))[0] - arb(3).log() / 2


class C37(Checks):
    _alpha = np.array([-0.8, -0.5, -0.3, -0.1, 0.0, 0.2, 0.5, 0.9])

    def printed(self, seed: int) -> Evidence:
        """For O(1/t), t |γ_1 − γ̄| must stay bounded: compare it at 1e6 and at 1e4."""
        away = np.abs(flow_halves(self._alpha, 0.75)[0] - _BAR) * TIMES
        late, early = np.argmin(np.abs(TIMES - 1e6)), np.argmin(np.abs(TIMES - 1e4))
        return at_most(away[:, late] / away[:, early], 1.05, correlation=self._alpha)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        away = flow_halves(self._alpha, 0.75)[0] - _BAR
        late, above, slow = np.argmin(np.abs(TIMES - 1e6)), self._alpha > 0, self._alpha[:3]
        rate = interference.half_gap_deviation_asymptote(TIMES[late], self._alpha[above], 0.75)
        yield equal(away[above, late] / rate, 1.0, tolerance=5e-3, correlation=self._alpha[above])
        bound = interference.half_gap_deviation_lower_bound(TIMES[None, :], slow[:, None], 0.75)
        at = {"correlation": slow[:, None], "time": TIMES[None, :]}
        yield at_least(-away[:3], bound, tolerance=SOLVER, **at)
        slopes = np.log(np.abs(away[:3, -1] / away[:3, -9])) / np.log(TIMES[-1] / TIMES[-9])
        yield equal(slopes, -interference.half_gap_exponent(slow), tolerance=0.01, correlation=slow)
        # The next term is a constant over log t.
        orthogonal = interference.half_gap_deviation_asymptote(1e30, 0.0, 0.75)
        ratio = float(_exact_orthogonal_deviation(30)) / orthogonal
        yield equal(ratio, 1.0, tolerance=3 / np.log(1e30))
        # For nearly equal frequencies the lower bound is what happens: 1 - I(κ).
        alpha, p1 = np.array([-0.5, -0.25]), 0.5 + 1e-4
        away = middle(p1) - flow_halves(alpha, p1)[0][:, -1]
        bound = interference.half_gap_deviation_lower_bound(TIMES[-1], alpha, p1)
        yield equal(away / bound, 1.0, tolerance=0.05, correlation=alpha)
        # At p_1 = 3/4 the half-gap ends below its limit for α = −0.25 and above it for α = −0.2.
        alpha = np.array([-0.25, -0.2])
        away = flow_halves(alpha, 0.75)[0][:, -1] - _BAR
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
        away = np.abs(flow_halves([-0.5, 0.0, 0.5], 0.75)[0] - _BAR)[:, 20:40]
        return Curves("t |γ_1 − γ̄| (p_1 = 3/4, c = 2): bounded if the rate were 1/t", ("time", t), {
            "true, α = −1/2": away[0] * t, "true, α = 0": away[1] * t, "true, α = 1/2": away[2] * t,
            "corrected, α = −1/2": interference.half_gap_deviation_lower_bound(t, -0.5, 0.75) * t},
            log_x=True, log_y=True)  # fmt: skip
