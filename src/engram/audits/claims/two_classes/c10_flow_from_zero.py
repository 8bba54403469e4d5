"""C10: the margin of a flow from zero."""

import numpy as np
from flint import arb, fmpq

from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, equal
from engram.audits._runs import flow_token
from engram.audits.claims._checks import Checks
from engram.audits.claims.two_classes._runs import SOLVER, flows
from engram.theory import binary, printed


class C10(Checks):
    def _from_zero(self, seed: int, form) -> Evidence:
        rate, start, times, m = (part[:16] for part in flows(seed))
        margin = form(times, rate)
        return equal(m, margin, tolerance=SOLVER, rate=rate, start=start, time=times)

    def printed(self, seed: int) -> Evidence:
        return self._from_zero(seed, printed.flow_margin)

    def corrected(self, seed: int) -> Evidence:
        return self._from_zero(seed, binary.flow_margin)

    def certificates(self) -> list[Certificate]:
        sum_at_zero = arb(0) + arb(0).exp()
        return [Certificate("m + e^m = c t at t = 0, m = 0", sum_at_zero, "==", fmpq(0))]

    def curves(self) -> Curves:
        t = np.linspace(0.05, 12, 200)
        series = {"true": flow_token(np.ones(1), t)[0], "printed": printed.flow_margin(t, 1.0)}
        series["corrected"] = binary.flow_margin(t, 1.0)
        title = "margin of one token under gradient flow (c = 1)"
        return Curves(title, ("time", t), series, "margin")
