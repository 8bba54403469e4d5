"""C38 to C40: two tokens under gradient descent (Theorem 4)."""

from collections.abc import Iterator
from functools import partialmethod
from typing import Any

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import first_step, inverse_g, isolate, pair_descent, sigma
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import (
    MANY_STEPS,
    Evidence,
    all_of,
    at_least,
    at_most,
    between,
    equal,
    true,
)
from engram.audits._parameters import Pairs, pairs, rng_for
from engram.audits._runs import descend_pairs, steps_to
from engram.audits.claims._checks import Checks
from engram.audits.claims._pair_runs import ALPHAS, RATES, RUNS, PairRuns, descents, late_descents
from engram.theory import interference, printed


def _cases(run: PairRuns) -> dict[str, Any]:
    """How evidence names the cases of descents over many steps."""
    at = {"correlation": run.alpha, "p1": run.p1, "learning_rate": run.eta, "step": run.at}
    return at | {"tolerance": MANY_STEPS}


class C38(Checks):
    def printed(self, seed: int) -> Evidence:
        run = descents(seed)
        s = 1 + run.eta * (1 - run.p1) * (1 - run.alpha) * run.c * run.at
        # The printed remainder O(log t/t), with its sharp constant.
        bound = np.log(s) - 1.0238 * np.log(s) / s
        return at_least(run.half_sum, bound, **_cases(run))

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = descents(seed)
        bound = interference.descent_half_sum_bound(run.at, run.eta, run.alpha, run.p1, run.c)
        yield at_least(run.half_sum, bound, **_cases(run))
        # At equal frequencies and small steps descent is the flow, and the bound is it.
        calm = ((run.p1 == 0.5) & (run.eta <= 1))[:, 0]
        yield equal(run.half_sum[calm, -1], bound[calm, -1], tolerance=1e-3)

    def certificates(self) -> list[Certificate]:
        half_sum = sum(pair_descent(0, fmpq(1, 2), 2, 1, 5)[5], arb(0)) / 2
        return [
            proof("α = 0, p_1 = 1/2, c = 2, η = 1, t = 5: γ_2 ≥ G⁻¹(1 + ηp_2c_0t)", half_sum, ">=", inverse_g(1 + 5)),
            proof("the appendix's later line γ_2 ≥ log(ηct + 1) is false there: γ_2 is below log 11", half_sum, "<", arb(11).log()),
        ]  # fmt: skip

    def curves(self) -> Curves:
        at, half_sum = descents(0).at[0, 1:], descents(0).half_sum[1, 1:]
        bound = interference.descent_half_sum_bound(at, 10.0, 0.95, 0.75)
        line = printed.descent_half_sum_bound(at, 10.0)
        series = {"true": half_sum, "corrected": bound, "printed, last line": line}
        title = "γ_2 under descent, α = 0.95, p_1 = 3/4, c = 2, η = 10"
        return Curves(title, ("step", at), series, "γ_2", log_x=True)


class C39(Checks):
    def _box(self, seed: int, form) -> Evidence:
        run = descents(seed)
        low, high = form(run.eta, run.alpha, run.p1, run.c)
        return between(low, run.half_gap, high, **_cases(run))

    def printed(self, seed: int) -> Evidence:
        return self._box(seed, printed.descent_half_gap_bounds)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._box(seed, interference.descent_half_gap_bounds)
        # Of the allowed reach the worst of a fine grid uses nearly all.
        alpha, used = np.linspace(-0.9, 0.999, 96), []
        for p1 in (0.51, 0.9):
            m = descend_pairs(alpha, p1, 2.0, 1e4, np.arange(257))
            half_gap, reach = (m[..., 0] - m[..., 1]) / 2, 1e4 * (1 + alpha)
            used += [half_gap.max(1) / (reach * p1), half_gap.min(1) / (-reach * (1 - p1))]
        yield at_least(np.max(used), 0.9)

    def certificates(self) -> list[Certificate]:
        alpha, p1, middle = fmpq(19, 20), fmpq(3, 4), arb(3).log() / 2
        margins = lambda eta, t: pair_descent(alpha, p1, 2, eta, t)[t]
        gap = lambda eta, t: (margins(eta, t)[0] - margins(eta, t)[1]) / 2
        high = lambda eta: middle + fmpq(3, 2) + eta * 2 * (1 - alpha) * p1
        low = middle - 100 * 2 * (1 - alpha) * (1 - p1)
        return [
            Certificate("α = .95, p_1 = 3/4, c = 2, η = 10, t = 1: γ_1 ≤ γ_max", gap(10, 1), "<=", high(10)),
            Certificate("η = 100, t = 5: γ_1 ≤ γ_max", gap(100, 5), "<=", high(100)),
            Certificate("η = 100, t = 4: γ_1 ≥ γ_min", gap(100, 4), ">=", low),
        ]  # fmt: skip

    def curves(self) -> Curves:
        at = np.arange(41)
        m = descend_pairs(np.array([0.95]), 0.75, 2.0, 10.0, at)[0]
        series = {"true": (m[:, 0] - m[:, 1]) / 2}
        for name, account in (("printed", printed), ("corrected", interference)):
            low, high = account.descent_half_gap_bounds(10.0, 0.95, 0.75)
            series |= {name: np.full(41, high), f"{name}, below": np.full(41, low)}
        title = "γ_1 under descent, α = 0.95, p_1 = 3/4, c = 2, η = 10"
        return Curves(title, ("step", at), series, "γ_1")


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


def _steps_to_perfect(drawn: Pairs) -> np.ndarray:
    """The first recorded step with both margins positive; NaN if there is none in a million."""
    at = steps_to(1_000_000, dense=256, sparse=48)
    right = (descend_pairs(*drawn, at) > 0).all(2)
    return np.where(right.any(1), at[right.argmax(1)], np.nan)


class C40(Checks):
    def printed(self, seed: int) -> Evidence:
        """As printed: every learning rate η ≥ 0 and every correlation up to 1."""
        eta, alpha = np.repeat([1.0, 0.0, 10.0], 32), np.tile([0.5, 0.9, 1.0, -1.0], 24)
        reached = _steps_to_perfect(Pairs(alpha, np.array(0.75), np.array(2.0), eta))
        return true(np.isfinite(reached), correlation=alpha, learning_rate=eta)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C40")
        drawn = pairs(rng, RUNS, nearest=0.05, rates=(0.1, 100.0), contrasts=(1.0, 4.0))
        drawn = drawn._replace(p1=np.minimum(drawn.p1, 0.95))
        yield true(np.isfinite(_steps_to_perfect(drawn)), **drawn._asdict())
        c, eta = np.array(2.0), np.array([1.0, 2, 3, 5, 10, 30, 100, 300, 1000])
        steps = _steps_to_perfect(Pairs(np.array(0.9), np.array(0.6), c, eta))
        yield true(steps[3] < steps[0] and steps[-1] > steps[3])
        alpha = np.array([0.1, 0.5, 0.8, 0.9, 0.95, 0.98])
        harder = _steps_to_perfect(Pairs(alpha, np.array(0.75), c, np.array(1.0)))
        yield at_least(np.diff(harder), 0.0, correlation=alpha[1:])
        # At 1e7 descent is a perceptron, short of ties; five percent may be those.
        giant = _steps_to_perfect(drawn._replace(learning_rate=np.array(1e7), contrast=c))
        each = zip(drawn.correlation, drawn.p1, strict=True)
        limit = np.array([float(interference.perceptron_steps(*pair)) for pair in each])
        alike = np.isfinite(giant) & (limit <= 256)
        yield at_least(np.mean(giant[alike] == limit[alike]), 0.95)

    def certificates(self) -> list[Certificate]:
        _, second = first_step(fmpq(1, 2), fmpq(3, 4), 2, 0)
        statement = "η = 0, α = 1/2, p_1 = 3/4: the second margin is still 0 after a step"
        return [proof(statement, second, "==", fmpq(0))]
