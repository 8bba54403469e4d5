"""C33 to C37: two tokens under gradient flow (Theorem 4)."""

from typing import Any

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import first_step, inverse_g, isolate, precisely, sigma
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, at_least, at_most, between, both, equal, true
from engram.audits._runs import flow_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims._pair_runs import SOLVER, TIMES, columns, flows, middle
from engram.theory import interference, printed


def _sum_as_printed(seed: int) -> Evidence:
    """c_t/c_0 between 2 p_2 and 8 p_1^3/p_2^2, at times where the remainder has vanished."""
    drawn, _, half_sum = flows(seed)
    alpha, p1, c, _ = columns(drawn)
    c0 = (1 - alpha) * c
    late = (c0 * (1 - p1) * TIMES > 1e5) & (TIMES > 0)
    ratio = (np.exp(half_sum) - 1) / np.where(late, c0 * TIMES, 1.0)
    low, high = printed.half_sum_constants(p1)
    low, high, alpha, p1, time = (_pick(value, late) for value in (low, high, alpha, p1, TIMES))
    return between(low, ratio[late], high, tolerance=1e-2, correlation=alpha, p1=p1, time=time)


def _pick(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values, mask.shape)[mask]


def _sum_bounds(seed: int) -> Evidence:
    drawn, _, half_sum = flows(seed)
    alpha, p1, c, _ = columns(drawn)
    low, high = interference.half_sum_bounds(TIMES[None, :], alpha, p1, c)
    # Below zero the half-gap is slow to settle (C37), and the half-sum waits for it.
    inner = (drawn.correlation > -0.1) & (drawn.correlation < 0.9)
    limit = interference.half_sum_asymptote(TIMES[None, 1:], alpha[inner], p1[inner], c[inner])
    settled = (1 - alpha[inner]) * c[inner] * (1 - p1[inner]) ** 2 * TIMES[-1] > 1e6
    return both(
        between(low, half_sum, high, tolerance=SOLVER, correlation=alpha, p1=p1, time=TIMES),
        # The remainder is log(t)/(2 q k t), far below this.
        equal(half_sum[inner][:, -1:][settled], limit[:, -1:][settled], tolerance=1e-3),
        # At equal frequencies the upper bound is the flow itself.
        equal(half_sum[drawn.p1 == 0.5], np.asarray(high)[drawn.p1 == 0.5], tolerance=SOLVER),
        _lower_constant_is_sharp(),
    )


def _lower_constant_is_sharp() -> Evidence:
    """Nearly parallel tokens come near the lower constant."""
    alpha, p1, c = np.array([0.9999]), 0.9, 2.0
    times = np.geomspace(10.0, 1e5, 50)
    half_sum = flow_pairs(alpha, p1, c, times)[0].mean(1)
    ratio = (half_sum + np.expm1(half_sum)) / ((1 - alpha) * c * times)
    return equal(ratio.min(), 2 * p1 * (1 - p1), tolerance=0.01, correlation=alpha, p1=p1)


@precisely
def _sum_proof() -> list[Certificate]:
    t = 10**6
    half_sum = inverse_g(1 + fmpq(t, 2))
    statement = "p_1 = 1/2, α = 1/2, c = 2, t = 10⁶: (e^{γ_2} − 1)/(c_0 t) ≥ 2 p_2 = 1"
    return [Certificate(statement, (half_sum.exp() - 1) / t, ">=", fmpq(1))]


def _flow_curves(alpha: float, p1: float) -> tuple[np.ndarray, np.ndarray]:
    m = flow_pairs(np.array([alpha]), p1, 2.0, TIMES)[0]
    return interference.halves(m[:, 0], m[:, 1])


def _sum_curves() -> Curves:
    _, half_sum = _flow_curves(0.5, 0.6)
    t = TIMES[8:]
    low, high = interference.half_sum_bounds(t, 0.5, 0.6)
    told = lambda g: np.expm1(np.asarray(g)) / t
    return Curves("(e^{γ_2} − 1)/(c_0 t), α = 1/2, p_1 = 0.6, c = 2", ("time", t), {
        "true": told(half_sum[8:]), "printed": np.full(len(t), 0.8), "corrected": told(low), "corrected, above": told(high)},
        "c_t/c_0", log_x=True)  # fmt: skip


C33 = Checks(_sum_as_printed, corrected=_sum_bounds, certificates=_sum_proof, curves=_sum_curves)


def _gap_as_printed(seed: int) -> Evidence:
    drawn, half_gap, half_sum = flows(seed)
    alpha, p1, c, _ = columns(drawn)
    where: dict[str, Any] = {"correlation": alpha, "p1": p1, "time": TIMES[None, :]}
    rise, _ = interference.flow_velocity(half_gap, half_sum, alpha, p1, c)
    rise = np.asarray(rise)
    turned = half_gap >= np.asarray(interference.turning_half_gap(half_sum, p1))
    clear = np.abs(rise) > 1e-12
    return both(
        at_least(half_gap, 0.0, tolerance=SOLVER, **where),
        at_most(half_gap, np.log(4 * (p1 / (1 - p1)) ** 2), **where),
        true(turned[clear] == (rise[clear] <= 0)),
    )


def _gap_bounds(seed: int) -> Evidence:
    drawn, half_gap, _ = flows(seed)
    alpha, p1, _, _ = columns(drawn)
    low, high = interference.half_gap_bounds(p1)
    sharp = flow_pairs(np.array([0.9999]), 0.75, 2.0, np.geomspace(10.0, 1e5, 50))[0]
    return both(
        between(low, half_gap, high, tolerance=SOLVER, correlation=alpha, p1=p1, time=TIMES),
        at_least((sharp[:, 0] - sharp[:, 1]).max() / 2, 0.99 * np.log(3), correlation=0.9999),
    )


C34 = Checks(_gap_as_printed, corrected=_gap_bounds)


def _turn_as_printed(seed: int) -> Evidence:
    drawn, half_gap, half_sum = flows(seed)
    alpha, p1, c, _ = columns(drawn)
    where: dict[str, Any] = {"correlation": alpha, "p1": p1, "time": TIMES[None, :]}
    turned = at_most(
        np.sinh(half_gap - middle(p1)),
        printed.half_gap_turning_bound(half_sum, p1),
        tolerance=SOLVER,
        **where,
    )
    told = printed.half_gap_upper_bound(TIMES[None, :], alpha, p1, c)
    return both(turned, at_most(half_gap, told, tolerance=SOLVER, **where))


def _turn_corrected(seed: int) -> Evidence:
    drawn, half_gap, half_sum = flows(seed)
    alpha, p1, _, _ = columns(drawn)
    # At time zero both sides are sinh of the whole way; solver errors below zero are not margins.
    told = np.asarray(interference.half_gap_deviation_bound(np.maximum(half_sum, 0.0), alpha, p1))
    away = np.abs(np.sinh(half_gap - middle(p1)))
    begins = equal(away[:, 0], told[:, 0], tolerance=1e-12, correlation=alpha[:, 0])
    bounded = at_most(away, told, tolerance=SOLVER, correlation=alpha, p1=p1, time=TIMES[None, :])
    return both(begins, bounded)


def _orthogonal_halves(t: arb, p1: fmpq) -> tuple[arb, arb]:
    """The closed form at alpha = 0, c = 2: G(m_i) = 1 + 2 p_i t."""
    m1, m2 = inverse_g(1 + 2 * p1 * t), inverse_g(1 + 2 * (1 - p1) * t)
    return (m1 - m2) / 2, (m1 + m2) / 2


@precisely
def _turn_proof() -> list[Certificate]:
    p1, t = fmpq(3, 4), 10**4
    half_gap, half_sum = _orthogonal_halves(arb(t), p1)
    away = half_gap - arb(3).log() / 2
    q = arb(3).sqrt() / 4
    bound = fmpq(1, 2) / q * arb(fmpq(105, 100)) / (fmpq(2, 4) * t + 1)
    return [
        Certificate("α = 0, c = 2, p_1 = 3/4, t = 10⁴: sinh(γ_1 − γ̄) ≤ C(γ_2)", away.sinh(), "<=", fmpq(1, 2) / (2 * q) * (-half_sum).exp()),
        Certificate("the same: γ_1 − γ̄ ≤ 1.05 (p_1−p_2)/(√(p_1p_2)(c_1t + 1))", away, "<=", bound),
    ]  # fmt: skip


def _turn_curves() -> Curves:
    half_gap, half_sum = _flow_curves(0.0, 0.75)
    t, keep = TIMES, np.abs(half_gap - np.log(3) / 2) > 0
    keep &= t > 1
    told = np.asarray(printed.half_gap_turning_bound(half_sum, 0.75))
    true_bound = np.asarray(interference.half_gap_deviation_bound(half_sum, 0.0, 0.75))
    return Curves("|sinh(γ_1 − γ̄)|, α = 0, p_1 = 3/4, c = 2", ("time", t[keep]), {
        "true": np.abs(np.sinh(half_gap - np.log(3) / 2))[keep], "printed": told[keep], "corrected": true_bound[keep]},
        log_x=True, log_y=True)  # fmt: skip


C35 = Checks(
    _turn_as_printed, corrected=_turn_corrected, certificates=_turn_proof, curves=_turn_curves
)


def _limit_as_printed(seed: int) -> Evidence:
    """The distance to γ̄ at t = 1e9, for correlations between and at the ends."""
    alpha = np.array([-1.0, -0.3, 0.0, 0.3, 0.6, 0.9, 1.0])
    m = flow_pairs(alpha, 0.75, 2.0, TIMES)
    half_gap = (m[:, -1, 0] - m[:, -1, 1]) / 2
    return equal(half_gap, np.log(3) / 2, tolerance=1e-3, correlation=alpha)


def _limit_corrected(seed: int) -> Evidence:
    alpha = np.array([-1.0, -0.3, 0.0, 0.3, 0.6, 0.9, 1.0])
    m = flow_pairs(alpha, 0.75, 2.0, TIMES)
    half_gap = (m[:, -1, 0] - m[:, -1, 1]) / 2
    told = np.asarray(interference.half_gap_limit(alpha, 0.75))
    ends = [
        equal(interference.halves(*np.moveaxis(m[index], 1, 0)), np.array(interference.flow_solution(TIMES, alpha[index], 0.75)), tolerance=SOLVER, correlation=alpha[index], time=TIMES)
        for index in (0, 2, 6)
    ]  # fmt: skip
    return both(
        equal(half_gap, told, tolerance=1e-3, correlation=alpha), *ends, _turn_corrected(seed)
    )


C36 = Checks(
    _limit_as_printed,
    corrected=_limit_corrected,
    certificates=precisely(lambda: [
        Certificate("α = 1, p_1 = 3/4: the one rest point of γ_1 (γ_2 = 0) is ½ log 3",
                    isolate(lambda g: fmpq(3, 4) * sigma(g) - fmpq(1, 4) * sigma(-g), 0, 3), "==", arb(3).log() / 2),
        Certificate("α = −1, p_1 = 3/4: γ_1, which no step moves, tends to ½ log 3",
                    (lambda m: (m[0] - m[1]) / 2)(first_step(fmpq(-1), fmpq(3, 4), 2, 1)), "==", arb(3).log() / 2)]),
)  # fmt: skip

_SLOW = np.array([-0.8, -0.5, -0.3, -0.1, 0.0, 0.2, 0.5, 0.9])


def _rate_as_printed(seed: int) -> Evidence:
    """For O(1/t), t |γ_1 − γ̄| must stay bounded: compare it at 1e6 and at 1e4."""
    m = flow_pairs(_SLOW, 0.75, 2.0, TIMES)
    away = np.abs((m[..., 0] - m[..., 1]) / 2 - np.log(3) / 2) * TIMES
    late, early = np.argmin(np.abs(TIMES - 1e6)), np.argmin(np.abs(TIMES - 1e4))
    return at_most(away[:, late] / away[:, early], 1.05, correlation=_SLOW)


def _rate_corrected(seed: int) -> Evidence:
    m = flow_pairs(_SLOW, 0.75, 2.0, TIMES)
    away = (m[..., 0] - m[..., 1]) / 2 - np.log(3) / 2
    index = np.argmin(np.abs(TIMES - 1e6))
    t = TIMES[index]
    above = _SLOW > 0
    told = np.asarray(interference.half_gap_deviation_asymptote(t, _SLOW[above], 0.75))
    slow = np.array([-0.8, -0.5, -0.3])
    bound = np.asarray(
        interference.half_gap_deviation_lower_bound(TIMES[None, :], slow[:, None], 0.75)
    )
    rows = [0, 1, 2]
    slopes = np.log(np.abs(away[:3, -1] / away[:3, -9])) / np.log(TIMES[-1] / TIMES[-9])
    orthogonal = interference.half_gap_deviation_asymptote(1e30, 0.0, 0.75)
    exact = float(_exact_orthogonal_deviation(30))
    return both(
        equal(away[above, index] / told, 1.0, tolerance=5e-3, correlation=_SLOW[above]),
        at_least(
            -away[rows], bound, tolerance=SOLVER, correlation=slow[:, None], time=TIMES[None, :]
        ),
        equal(
            slopes,
            -np.asarray(interference.half_gap_exponent(slow)),
            tolerance=0.01,
            correlation=slow,
        ),
        # The next term is a constant over log t.
        equal(exact / orthogonal, 1.0, tolerance=3 / np.log(1e30)),
        _lower_bound_is_sharp(),
        _slow_term_changes_sign(),
    )


@precisely
def _exact_orthogonal_deviation(decades: int) -> arb:
    return _orthogonal_halves(arb(10) ** decades, fmpq(3, 4))[0] - arb(3).log() / 2


def _slow_term_changes_sign() -> Evidence:
    """At p_1 = 3/4 the half-gap ends below its limit for α = −0.25 and above it for α = −0.2."""
    m = flow_pairs(np.array([-0.25, -0.2]), 0.75, 2.0, TIMES)
    away = (m[:, -1, 0] - m[:, -1, 1]) / 2 - np.log(3) / 2
    return true(np.array([away[0] < 0, away[1] > 0]), correlation=np.array([-0.25, -0.2]))


def _lower_bound_is_sharp() -> Evidence:
    """For nearly equal frequencies the lower bound is what happens: 1 - I(κ), at α = −1/2 and −0.25."""
    alpha, p1 = np.array([-0.5, -0.25]), 0.5 + 1e-4
    m = flow_pairs(alpha, p1, 2.0, TIMES)
    away = middle(np.asarray(p1)) - (m[:, -1, 0] - m[:, -1, 1]) / 2
    told = interference.half_gap_deviation_lower_bound(TIMES[-1], alpha, p1)
    return equal(away / np.asarray(told), 1.0, tolerance=0.05, correlation=alpha)


@precisely
def _rate_proof() -> list[Certificate]:
    found = []
    for decades, bound in ((8, 10), (16, 20), (32, 40)):
        away = arb(10) ** decades * _exact_orthogonal_deviation(decades)
        found.append(
            Certificate(
                f"α = 0, c = 2, p_1 = 3/4, t = 10^{decades}: t|γ_1 − γ̄| ≤ {bound}",
                away,
                "<=",
                bound,
            )
        )
    # alpha = -1/2: kappa = 1/3; I(kappa) = sum kappa 2^-n/(n - kappa), its tail below 2^-60.
    kappa, t = fmpq(1, 3), arb(10) ** 12
    share = sum((arb(kappa / (2**n * (n - kappa))) for n in range(1, 61)), arb(0)) + arb(
        0, arb(2) ** -60
    )
    sinh = (arb(3).sqrt() - 1 / arb(3).sqrt()) / 2
    least = (sinh * (1 - share) * (-arb(kappa) * (fmpq(3, 4) * t + 1).log()).exp()).asinh()
    found.append(
        Certificate(
            "α = −1/2, c = 2, p_1 = 3/4, t = 10¹²: t|γ_1 − γ̄| ≤ 10⁶ (by the lower bound)",
            t * least,
            "<=",
            10**6,
        )
    )
    return found


def _rate_curves() -> Curves:
    m = flow_pairs(np.array([-0.5, 0.0, 0.5]), 0.75, 2.0, TIMES)
    away = np.abs((m[..., 0] - m[..., 1]) / 2 - np.log(3) / 2)[:, 20:40]
    t = TIMES[20:40]
    return Curves("t |γ_1 − γ̄| (p_1 = 3/4, c = 2): bounded if the rate were 1/t", ("time", t), {
        "true, α = −1/2": away[0] * t, "true, α = 0": away[1] * t, "true, α = 1/2": away[2] * t,
        "corrected, α = −1/2": np.asarray(interference.half_gap_deviation_lower_bound(t, -0.5, 0.75)) * t},
        log_x=True, log_y=True)  # fmt: skip


C37 = Checks(
    _rate_as_printed, corrected=_rate_corrected, certificates=_rate_proof, curves=_rate_curves
)
