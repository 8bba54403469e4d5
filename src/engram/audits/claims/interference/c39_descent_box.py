"""C39: the half-gap under descent stays in a box."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import pair_descent
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, between, equal
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import cases, descents
from engram.theory import interference, printed


class C39(Checks):
    def _box(self, seed: int, form) -> Evidence:
        run = descents(seed)
        low, high = form(run.eta, run.alpha, run.p1, run.c)
        return between(low, run.half_gap, high, **cases(run))

    def printed(self, seed: int) -> Evidence:
        return self._box(seed, printed.descent_half_gap_bounds)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._box(seed, interference.descent_half_gap_bounds)
        # Small steps are the flow, whose range it is then.
        p1 = np.array([0.6, 0.9])
        box = np.array(interference.descent_half_gap_bounds(1e-15, 0.5, p1))
        yield equal(box, np.array(interference.half_gap_bounds(p1)), tolerance=1e-14)
        # Nearly parallel tokens use nearly all of it: of the upper side where token 1 is frequent, and of the lower
        # one where both are.
        alpha = np.linspace(-0.9, 0.9999, 96)
        for side, p1 in ((1, 0.99), (0, 0.55)):
            m = descend_pairs(alpha, p1, 2.0, 1e4, np.arange(257))
            reached = (m[..., 0] - m[..., 1])[-1] / 2
            box = interference.descent_half_gap_bounds(1e4, alpha[-1], p1)
            yield between(0.99, max(reached / box[side]), 1.0, correlation=alpha[-1], p1=p1)

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
