"""C15: the margin under descent, bounded from below."""

import functools
from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import descent_margins, isolate
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal, true
from engram.audits._runs import descend_token, steps_to
from engram.audits.claims._checks import Checks
from engram.audits.claims.two_classes._runs import descents, encloses, started
from engram.theory import binary, printed


def behind_by(x: fmpq, amount: fmpq, T: int = 200) -> arb:
    """A step by which y_t < x t - amount, for x < 2, y = e^m.

    With D = y_T - x T ahead at step T, the deficit (1 - x/2) log((1 + D + x t)/(1 + D + x T)) must make
    up D and the amount.
    """
    D = descent_margins(x, T)[-1].exp() - arb(x) * T
    return (1 + D + arb(x) * T) * ((D + amount) / (1 - arb(x) / 2)).exp() / arb(x)


def margin_after_two(x: np.ndarray) -> np.ndarray:
    """The margin after two steps from zero."""
    return x / 2 + x / (1 + np.exp(x / 2))


def margin(x: float, t: np.ndarray) -> np.ndarray:
    """The margin of one token under descent, at steps after the start."""
    return descend_token(np.array([x]), np.ones(1), np.concatenate([[0], t]))[0, 1:]


def margin_curves(x: float) -> Curves:
    t = steps_to(2000, dense=200, sparse=60)[1:]
    ahead = lambda margin: margin - np.log1p(x * t)
    return Curves(
        f"margin of one token under descent (ηc = {x:g}), less log(1 + ηct)", ("step", t),
        {"true": ahead(margin(x, t)), "printed": np.zeros(len(t)), "corrected": ahead(binary.descent_margin_bound(t, x, 1.0))},
        "margin − log(1 + ηct)", log_x=True)  # fmt: skip


class C15(Checks):
    def printed(self, seed: int) -> Evidence:
        run = descents(seed).part(slice(None), first=1)
        bound = printed.descent_margin_bound(run.steps, run.x, 1.0, np.zeros_like(run.x))
        return at_least(run.margins, bound, **run.cases)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        for run in (started(seed), descents(seed)):
            bound = binary.descent_margin_bound(run.steps, run.x, 1.0, run.start)
            yield at_least(run.margins, bound, start=run.start, **run.cases)
        late = descents(seed).part(slice(None), first=1)
        bound = binary.descent_margin_upper_bound(late.steps, late.x, 1.0)
        yield at_most(late.margins, bound, **late.cases)
        # For small steps both bounds are the flow, and so is descent: neither constant can be improved.
        calm = descents(seed).part(descents(seed).x[:, 0] <= 1e-3, first=1)
        for form in (binary.descent_margin_bound, binary.descent_margin_upper_bound):
            yield equal(calm.margins, form(calm.steps, calm.x, 1.0), tolerance=1e-3, x=calm.x)
        # After one step the upper bound is met, and after two G exceeds that of the margin by e^δ − 1 − δ.
        x = late.x[(late.x > 0.1) & (late.x < 40)]
        first, m, G = x / 2, margin_after_two(x), lambda m: m + np.exp(m)
        yield equal(binary.descent_margin_upper_bound(1, x, 1.0), first, x=x)
        above = G(binary.descent_margin_upper_bound(2, x, 1.0)) - G(m)
        yield equal(above / G(m), (np.expm1(m - first) - (m - first)) / G(m), x=x)
        yield from self._thresholds(seed)
        yield from self._expansion(seed)

    def _thresholds(self, seed: int) -> Iterator[Evidence]:
        """The printed forms hold where they are said to, and fail just below."""
        run = descents(seed)
        x, last = run.x[:, 0], run.steps[0, -1]
        large = run.part(x >= binary.LOG_THRESHOLD, first=1)
        yield at_least(large.margins, binary.log_bound(large.steps, large.x, 1.0), **large.cases)
        larger = run.part(x >= binary.LOG1P_THRESHOLD, first=1)
        bound = binary.log1p_bound(larger.steps, larger.x, 1.0)
        yield at_least(larger.margins, bound, x=larger.x, step=larger.steps)
        # In the end the first is met, and the second after one step at its threshold.
        far = run.part((x >= binary.LOG_THRESHOLD) & (x < 10))
        yield equal(far.margins[:, -1], binary.log_bound(last, far.x[:, 0], 1.0), tolerance=1e-4)
        x0 = binary.LOG1P_THRESHOLD
        yield equal(binary.log1p_bound(1, x0, 1.0), x0 / 2)
        fails_by = binary.log_bound_failure(np.minimum(x, 1.95), 1.0)
        # The step at which the deficit (1 − x/2) log((2 + x(t − 1))/2) is the head start of 1.
        deficit = np.log1p(np.minimum(x, 1.95) * (fails_by - 1) / 2)
        yield equal((1 - np.minimum(x, 1.95) / 2) * deficit, 1.0, x=x)
        small = run.part((x < 1.95) & (fails_by < last), first=1)
        yield true((small.margins < np.log(small.x * small.steps)).any(1), x=small.x[:, 0])
        near, two = binary.LOG1P_THRESHOLD - 1e-3, np.arange(1, 3)
        yield true((margin(near, two) < np.log1p(near * two)).any(), x=near)

    def _expansion(self, seed: int) -> Iterator[Evidence]:
        """e^m = x t + (x/2 - 1) log t + C(x): where violations come too late to wait for (x < 2)."""
        run = descents(seed)
        t = run.steps[0, -1]
        for index in (3, 4, 6, 7, 8):
            x = run.x[index, 0]
            rest = x * t + (x / 2 - 1) * np.log(t) + binary.expansion_constant(x, 1.0) - x * t
            yield equal(np.exp(run.margins[index, -1]) - x * t, rest, tolerance=1e-3, x=x)
        # Near 2 the bound fails only at t = e^(C / (1 - x/2)): 57,439 at x = 1.9, about 1e50 at 1.99.
        late = binary.expansion_constant(1.9, 1.0) / 0.05
        yield equal(late, np.log(57_439), tolerance=0.01, x=1.9)

    def certificates(self) -> list[Certificate]:
        path = descent_margins(fmpq(1, 10), 400)
        when = behind_by(fmpq(199, 100), fmpq(0))
        root = lambda x: (arb(x) / 2).exp() - 1 - arb(x)
        ahead = [self._ahead_of(fmpq(4000 + k, 2000), fmpq(4001 + k, 2000)) for k in range(1040)]
        least = functools.reduce(lambda a, b: a if a < b else b, ahead)
        return [
            Certificate("t_0 = −1/c_x (η = 10, c = 1, t = 0): m_0 ≥ log 10", fmpq(0), ">=", arb(10).log()),
            Certificate("t_0 = −1/(ηc) (ηc = 1/10, t = 400): m_t ≥ log(1 + ηct)", path[400], ">=", arb(41).log()),
            Certificate("t_0 = 0 (ηc = 1/10, t = 100): m_t ≥ log(ηct)", path[100], ">=", arb(10).log()),
            proof("x = 1.99: m_t ≥ log(xt) has failed before t = 10^50 (y_t ≤ xt + D, and the deficit diverges)", when, "<", arb(10) ** 50),
            proof("e^(x/2) = 1 + x has its root above 2.5128624172", root(fmpq(25128624172, 10**10)), "<", fmpq(0)),
            proof("and below 2.5128624173", root(fmpq(25128624173, 10**10)), ">", fmpq(0)),
            *encloses(binary.LOG1P_THRESHOLD, isolate(root, 2, 3)),
            proof("the first threshold that `theory` uses is 2", arb(binary.LOG_THRESHOLD), "==", arb(2)),
            proof("2 ≤ x ≤ 2.52: y_30 − 30x exceeds all later deficits, 1/59, so m_t ≥ log(xt) for ever", least, ">", fmpq(1, 59)),
        ]  # fmt: skip

    def _ahead_of(self, low: fmpq, high: fmpq) -> arb:
        """A lower bound of y_t - x t over t <= 30 and x in [low, high]."""
        x, m, least = arb(low).union(arb(high)), arb(0), arb(1)
        for t in range(1, 31):
            m = m + x / (1 + m.exp())
            ahead = (m.exp() - x * t).lower()
            least = ahead if ahead < least else least
        return least

    def curves(self) -> Curves:
        return margin_curves(0.1)
