"""C23: the constant of Theorem 3."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import dot, isolate, precision
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._runs import flow_classes
from engram.audits.claims._checks import Checks
from engram.audits.claims.many_classes._runs import CLASSES, TIMES
from engram.theory import printed


def _coefficient(times: np.ndarray, M: int) -> np.ndarray:
    """<W_t, D>/|D|^2 for one token from zero: the margin itself, since W_t = m_t D."""
    w = flow_classes(np.ones(1), np.zeros((1, M)), times)[0]
    return w[:, 0] - w[:, 1]


class C23(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for M in (3, 4):
            slope = _coefficient(TIMES, M)[-1:] / np.log(TIMES[-1:])
            yield equal(slope, printed.direction_constant(M), tolerance=0.05, classes=M)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        for M in (3, 4):
            slope = _coefficient(TIMES, M)[-1:] / np.log(M * TIMES[-1:])
            yield equal(slope, 1.0, tolerance=1e-9, classes=M)
        for M in CLASSES:
            U = np.eye(M)
            yield equal(np.linalg.norm(U[0] - U.mean(0)) ** 2, 1 - 1 / M, classes=M)

    def certificates(self) -> list[Certificate]:
        centred = [fmpq(2, 3), -fmpq(1, 3), -fmpq(1, 3)]  # u_1 less the mean of three
        with precision(130):
            t = arb(10) ** 100
            m = isolate(lambda m: m.exp() + 2 * m - 1 - 3 * t, (3 * t).log() - 1, (3 * t).log() + 1)
            return [
                Certificate("M = 3, p‖e‖² = 1, t = 10^100: ⟨W_t, D⟩/(‖D‖² log t) is within 0.01 of 2/(3√2)",
                            m / t.log(), "<=", 2 / (3 * arb(2).sqrt()) + fmpq(1, 100)),
                Certificate("‖Π(u_1)‖² = 1/2 for M = 3", dot(centred, centred), "==", fmpq(1, 2)),
                proof("the same coefficient against log(3t) is within 10^−90 of 1", abs(m / (3 * t).log() - 1), "<", arb(10) ** -90),
            ]  # fmt: skip

    def curves(self) -> Curves:
        t = TIMES[8:]
        constant = np.full(len(t), printed.direction_constant(3))
        series = {"true": _coefficient(TIMES, 3)[8:] / np.log(t), "printed": constant, "corrected": np.log(3 * t) / np.log(t)}  # fmt: skip
        title = "coefficient of W_t along Π(u_1) ⊗ e, over log t (M = 3)"
        return Curves(title, ("time", t), series, "⟨W_t, D⟩/(‖D‖² log t)", log_x=True)
