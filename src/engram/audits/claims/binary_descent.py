"""C15 to C18: orthogonal inputs, two classes, gradient descent (Theorem 2)."""

import functools
from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import descent_margins, isolate, maximum, softplus
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal, true
from engram.audits._parameters import random_problem, rng_for
from engram.audits._runs import descend_token, steps_to
from engram.audits.claims._binary_runs import descents, encloses, started
from engram.audits.claims._checks import Checks
from engram.theory import binary, printed


def _behind_by(x: fmpq, amount: fmpq, T: int = 200) -> arb:
    """A step by which y_t < x t - amount, for x < 2, y = e^m.

    With D = y_T - x T ahead at step T, the deficit (1 - x/2) log((1 + D + x t)/(1 + D + x T)) must make
    up D and the amount.
    """
    D = descent_margins(x, T)[-1].exp() - arb(x) * T
    return (1 + D + arb(x) * T) * ((D + amount) / (1 - arb(x) / 2)).exp() / arb(x)


def _margin(x: float, t: np.ndarray) -> np.ndarray:
    """The margin of one token under descent, at steps after the start."""
    return descend_token(np.array([x]), np.ones(1), np.concatenate([[0], t]))[0, 1:]


def _margin_curves(x: float) -> Curves:
    t = steps_to(2000, dense=200, sparse=60)[1:]
    ahead = lambda margin: margin - np.log1p(x * t)
    return Curves(
        f"margin of one token under descent (ηc = {x:g}), less log(1 + ηct)", ("step", t),
        {"true": ahead(_margin(x, t)), "printed": np.zeros(len(t)), "corrected": ahead(binary.descent_margin_bound(t, x, 1.0))},
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
        fails_by = binary.log_bound_failure(np.minimum(x, 1.95), 1.0)
        small = run.part((x < 1.95) & (fails_by < last), first=1)
        yield true((small.margins < np.log(small.x * small.steps)).any(1), x=small.x[:, 0])
        near, two = binary.LOG1P_THRESHOLD - 1e-3, np.arange(1, 3)
        yield true((_margin(near, two) < np.log1p(near * two)).any(), x=near)

    def _expansion(self, seed: int) -> Iterator[Evidence]:
        """e^m = x t + (x/2 - 1) log t + C(x): where violations come too late to wait for (x < 2)."""
        run = descents(seed)
        t = run.steps[0, -1]
        for index in (3, 4, 6, 7, 8):
            x = run.x[index, 0]
            rest = x * t + (x / 2 - 1) * np.log(t) + binary.expansion_constant(x, 1.0) - x * t
            yield equal(np.exp(run.margins[index, -1]) - x * t, rest, tolerance=1e-3, x=x)
        # Near 2 the bound fails only at t = e^(C / (1 - x/2)): 57,439 at x = 1.9, about 1e49 at 1.99.
        late = binary.expansion_constant(1.9, 1.0) / 0.05
        yield equal(late, np.log(57_439), tolerance=0.01, x=1.9)

    def certificates(self) -> list[Certificate]:
        path = descent_margins(fmpq(1, 10), 400)
        when = _behind_by(fmpq(199, 100), fmpq(0))
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
        return _margin_curves(0.1)


class C16(Checks):
    def printed(self, seed: int) -> Evidence:
        run = descents(seed).part(slice(None), first=1)
        bound = printed.descent_margin_bound(run.steps, run.x, 1.0, -1 / run.x)
        return at_least(run.margins, bound, **run.cases)

    def corrected(self, seed: int) -> Evidence:
        run = descents(seed)
        return at_least(run.margins, binary.weak_log_bound(run.steps, run.x, 1.0), **run.cases)

    def certificates(self) -> list[Certificate]:
        first = descent_margins(fmpq(1, 10), 1)[1]
        return [Certificate("m_1 ≥ log(1 + ηc) at ηc = 1/10", first, ">=", arb(fmpq(11, 10)).log())]

    def curves(self) -> Curves:
        return _margin_curves(0.5)


def _loss_bound(seed: int, constant: float, least: float = 0.0) -> Evidence:
    """Token by token, where L(W_t) = sum p(x) ell_x and the bound are both sums over tokens."""
    run = descents(seed)
    run = run.part(run.x[:, 0] >= least, first=1)
    scaled = np.logaddexp(0.0, -run.margins) * run.x * run.steps
    return at_most(scaled, constant, **run.cases)


class C17(Checks):
    def printed(self, seed: int) -> Evidence:
        return _loss_bound(seed, 1.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield _loss_bound(seed, binary.LOSS_CONSTANT)
        # Small steps come near the constant, and from x = 2 on the printed 1 is right.
        small = descents(seed).part(descents(seed).x[:, 0] <= 0.01, first=1)
        scaled = np.logaddexp(0.0, -small.margins) * small.x * small.steps
        yield at_least(scaled.max(), binary.LOSS_CONSTANT - 1e-3)
        yield _loss_bound(seed, 1.0, least=2.0)
        # The same for whole problems, by `memory` and by the theory's own formulas.
        rng = rng_for(seed, "C17")
        for index in range(4):
            problem = random_problem(rng, 4, 2, 6, orthogonal=True)
            eta, steps = 10 ** rng.uniform(-1, 1), np.array([1, 3, 10, 30, 100])
            W, losses = np.zeros((6, 6)), []
            for step in range(1, 101):
                W = W - eta * memory.grad(problem, W)
                if step in steps:
                    losses.append(memory.loss(problem, W))
            bound = binary.descent_loss_bound(steps, problem, eta)
            yield at_most(losses, bound, step=steps, model=index)
            yield at_most(losses, binary.flow_loss(eta * steps, problem), step=steps, model=index)

    def certificates(self) -> list[Certificate]:
        m = descent_margins(fmpq(1), 13)[13]
        small = descent_margins(fmpq(1, 100), 1450)[1450]
        scaled = lambda m: (m + m.exp() - 1) * (1 + (-m).exp()).log()
        top = maximum(scaled, fmpq(0), fmpq(40), (fmpq(24, 10), fmpq(27, 10)))
        # L x t > 1 once y < x t - 1/2, since 1/(e^z - 1) > 1/z - 1/2.
        when = _behind_by(fmpq(199, 100), fmpq(1, 2))
        return [
            Certificate("N = 2, p = (1/2, 1/2), c_x = 1, η = 1, t = 13: L(W_t) ≤ 1/t", softplus(-m), "<=", fmpq(1, 13)),
            Certificate("ηc = 1/100, t = 1450: L ηct ≤ 1", softplus(-small) * fmpq(1450, 100), "<=", fmpq(1)),
            proof("C* = max of (m + e^m − 1) log(1 + e^(−m)) over [0, 40], by subdivision: below 1.0794346856", top, "<", fmpq(10794346856, 10**10)),
            proof("and above 1.0794346855", top, ">", fmpq(10794346855, 10**10)),
            *encloses(binary.LOSS_CONSTANT, top),
            proof("m > 40: at most 1 + m e^(−m) < 1.0001", 1 + 40 * arb(-40).exp(), "<", fmpq(10001, 10000)),
            proof("ηc = 1.99: the constant 1 has failed before t = 10^100, by the same deficit", when, "<", arb(10) ** 100),
        ]  # fmt: skip

    def curves(self) -> Curves:
        t = np.unique(np.geomspace(1, 20000, 200).astype(int))
        loss, flat = np.logaddexp(0, -_margin(0.1, t)), np.ones(len(t))
        series = {"true": loss * 0.1 * t, "printed": flat, "corrected": binary.LOSS_CONSTANT * flat}
        title = "ηct · loss of one token (ηc = 1/10)"
        return Curves(title, ("step", t), series, "ηct · loss", log_x=True)


class C18(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        run = descents(seed)
        cases = run.part(slice(None), first=1).cases
        yield at_most(np.diff(np.logaddexp(0.0, -run.margins), axis=1), 0.0, **cases)
        yield at_least(np.diff(run.margins, axis=1), 0.0, **cases)
        yield _loss_bound(seed, binary.LOSS_CONSTANT)
