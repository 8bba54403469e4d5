"""C12: the correction h of the closed form."""

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import maximum
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, at_least, at_most, between, both, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.two_classes._runs import encloses
from engram.theory import binary

GRID = 1 + np.geomspace(1e-5, 1e300, 4000)
SMALL = np.linspace(0.02, 0.98, 97)


def ratio(s: np.ndarray) -> np.ndarray:
    return binary.flow_correction(s) * s / np.log(s)


class C12(Checks):
    def printed(self, seed: int) -> Evidence:
        positive = at_least(binary.flow_correction(GRID), 0.0, s=GRID)
        return both(positive, at_most(ratio(GRID), 2.0, s=GRID))

    def corrected(self, seed: int) -> Evidence:
        bounds = lambda s: [part * s / np.log(s) for part in binary.flow_correction_bounds(s)]
        peak, near = np.array(23.1526), 1 + np.geomspace(1e-7, 1e-4, 50)
        low, high = bounds(GRID)
        return both(
            # (s - 1) of 1e-5 is known to 1e-11 of itself.
            between(low, ratio(GRID), high, tolerance=1e-10, s=GRID),
            equal(ratio(peak), bounds(peak)[1], tolerance=1e-9),
            equal(ratio(near), bounds(near)[0], tolerance=1e-3, s=near),
        )

    def certificates(self) -> list[Certificate]:
        ratio = lambda m: (m + m.exp()) * (1 + m * (-m).exp()).log() / (m + m.exp()).log()
        top = maximum(ratio, fmpq(1, 20), fmpq(40), (fmpq(29, 10), fmpq(31, 10)))
        start, end = arb(fmpq(1, 20)), arb(40)
        return [
            proof("max of h s/log s over m in [1/20, 40], by subdivision: below 1.0237150810", top, "<", fmpq(10237150810, 10**10)),
            proof("the same maximum is above 1.0237150809", top, ">", fmpq(10237150809, 10**10)),
            *encloses(binary.CORRECTION_CONSTANT, top),
            proof("m < 1/20: the ratio is at most m(1 + m)/log(1 + 2m) < 0.56", start * (1 + start) / (2 * start).log1p(), "<", fmpq(56, 100)),
            proof("m > 40: the ratio is at most 1 + m e^(−m) < 1.0001", 1 + end * (-end).exp(), "<", fmpq(10001, 10000)),
        ]  # fmt: skip

    def curves(self) -> Curves:
        s = GRID[GRID < 1e4]
        flat = np.ones(len(s))
        series = {"true": ratio(s), "printed": 2 * flat, "corrected": binary.CORRECTION_CONSTANT * flat}  # fmt: skip
        return Curves("h(s) s / log(s)", ("s", s), series, "ratio", log_x=True)
