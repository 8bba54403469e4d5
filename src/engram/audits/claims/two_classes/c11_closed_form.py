"""C11: the closed form of the margin under flow."""

import numpy as np

from engram.audits._evidence import Evidence, both, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.two_classes._runs import SOLVER, flows
from engram.theory import binary


class C11(Checks):
    def printed(self, seed: int) -> Evidence:
        rate, start, times, m = flows(seed)
        margin = binary.flow_margin(times, rate, start)
        s = rate * (times - binary.flow_origin(rate, start))
        ahead = s > 1e-3
        s = s[ahead]
        return both(
            equal(m, margin, tolerance=SOLVER, rate=rate, start=start, time=times),
            # log s - h cancels where s is small.
            equal(np.log(s) - binary.flow_correction(s), margin[ahead], tolerance=1e-10, s=s),
        )
