"""C13: where the expansion of the closed form is valid."""

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import inverse_g
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, between, both
from engram.audits.claims._checks import Checks
from engram.audits.claims.two_classes.c12_correction import C12, GRID, SMALL, ratio
from engram.theory import printed


class C13(Checks):
    def printed(self, seed: int) -> Evidence:
        s = np.concatenate([SMALL, GRID])
        low, high = printed.flow_correction_bounds(s)
        scale = s / np.log(s)  # negative below 1, where it turns both inequalities round
        return between(low * scale, ratio(s), high * scale, s=s)

    def corrected(self, seed: int) -> Evidence:
        return both(between(0.0, ratio(SMALL), 0.5, s=SMALL), C12().corrected(seed))

    def certificates(self) -> list[Certificate]:
        s = arb(fmpq(1, 2))
        ratio = (s.log() - inverse_g(s)) * s / s.log()
        return [Certificate("h̃(1/2) ≥ 1/2, where s = 1/2 ≥ 0", ratio, ">=", fmpq(1, 2))]

    def curves(self) -> Curves:
        s = np.concatenate([SMALL, 1 + np.geomspace(0.02, 40, 200)])
        series = {"true": ratio(s), "printed": np.full(len(s), 0.5)}
        return Curves("h̃(s)", ("s", s), series, "h̃", log_x=True)
