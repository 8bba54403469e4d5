"""C34: the range of the half-gap under flow."""

from collections.abc import Iterator

import numpy as np

from engram.audits._evidence import Evidence, all_of, at_least, at_most, between, equal, true
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import SOLVER, TIMES, flow_halves, flows
from engram.theory import interference


class C34(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        run = flows(seed)
        at = {"correlation": run.alpha, "p1": run.p1, "time": run.at}
        yield at_least(run.half_gap, 0.0, tolerance=SOLVER, **at)
        yield at_most(run.half_gap, np.log(4 * (run.p1 / (1 - run.p1)) ** 2), **at)
        rise, growth = interference.flow_velocity(
            run.half_gap, run.half_sum, run.alpha, run.p1, run.c
        )
        slope = interference.phase_slope(run.half_gap, run.half_sum, run.alpha, run.p1)
        yield equal(slope, rise / growth, tolerance=1e-9, **at)
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
        _, highest = interference.half_gap_bounds(0.75)
        yield equal(half_gap.max(), highest, tolerance=0.005, correlation=0.9999)
