"""C33: the half-sum under flow, between two bounds."""

from collections.abc import Iterator

import numpy as np
from flint import fmpq

from engram.audits._balls import inverse_g
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, between, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import SOLVER, TIMES, flow_halves, flows
from engram.theory import interference, printed


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
        alpha, p1, times = 0.9999, 0.75, np.geomspace(10.0, 1e5, 50)
        _, half_sum = flow_halves([alpha], p1, times=times)
        lowest, _ = interference.half_sum_bounds(times, alpha, p1)
        risen = lambda half_sum: half_sum + np.expm1(half_sum)  # by how much G has grown
        closest = (risen(half_sum) / risen(lowest)).min()
        yield equal(closest, 1.0, tolerance=0.005, correlation=alpha, p1=p1)

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
