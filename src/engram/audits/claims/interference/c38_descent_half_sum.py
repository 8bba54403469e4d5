"""C38: the half-sum under descent, bounded from below."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import inverse_g, pair_descent
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import cases, descents
from engram.theory import interference, printed


class C38(Checks):
    def printed(self, seed: int) -> Evidence:
        run = descents(seed)
        s = 1 + run.eta * (1 - run.p1) * (1 - run.alpha) * run.c * run.at
        # The printed remainder O(log t/t), with its sharp constant.
        bound = np.log(s) - 1.0238 * np.log(s) / s
        return at_least(run.half_sum, bound, **cases(run))

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = descents(seed)
        bound = interference.descent_half_sum_bound(run.at, run.eta, run.alpha, run.p1, run.c)
        yield at_least(run.half_sum, bound, **cases(run))
        yield equal(bound[:, 0], 0.0)
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
