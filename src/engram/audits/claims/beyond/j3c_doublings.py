"""J3c: birth and period doublings of a cycle below the edge."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_most, equal, true
from engram.audits.claims._checks import Checks
from engram.audits.claims.beyond._line import Line, enclose_bifurcation, enclose_cycle, turn
from engram.theory import cycles

TOKENS, PROBS = np.array([1.0, -8.0, -0.5]), np.array([0.679, 0.021, 0.3])
LINE = Line([fmpq(1), fmpq(-8), fmpq(-1, 2)], [fmpq(679, 1000), fmpq(21, 1000), fmpq(300, 1000)])
# η/edge at the birth of the 2-cycle and where the periods 2, 4, 8, 16 and 32 double.
BIRTH = 0.948936405732
DOUBLINGS = (1.044905726973, 1.106828468308, 1.127044586129, 1.131747633892, 1.132774790402)
START = 1.34756  # on the 2-cycle at η = 9.76


class J3c(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        edge = cycles.edge(TOKENS, PROBS)
        birth = cycles.bifurcation(1.3, 9.75, TOKENS, PROBS, 2, 1.0)
        yield equal(birth.learning_rate / edge, BIRTH, tolerance=1e-10)
        found = cycles.doublings(START, 9.76, TOKENS, PROBS, count=5)
        rates = np.array([each.learning_rate for each in found])
        yield equal(rates / edge, np.array(DOUBLINGS), tolerance=1e-10)
        # Descent itself: the period between two marks, and a fixed point before the birth.
        between = np.sqrt(np.concatenate([[birth.learning_rate], rates[:-1]]) * rates)
        path = cycles.descend(START, between[:4], TOKENS, PROBS, skip=6000, keep=33)
        for index, period in enumerate((2, 4, 8, 16)):
            column = path[:, index]
            yield at_most(np.abs(column[period] - column[0]), 1e-9, period=period)
            yield true(np.abs(column[period // 2] - column[0]) > 1e-4, period=period)
        starts = np.linspace(-10, 15, 26)
        calm = cycles.descend(starts, 0.999 * birth.learning_rate, TOKENS, PROBS, skip=3000, keep=1)
        yield at_most(np.abs(calm - cycles.minimiser(TOKENS, PROBS)), 1e-8)
        # Far from a proof of a limit: the ratios of the gaps are 3.06, 4.30, 4.58.
        gaps = np.diff(rates)
        yield equal(gaps[:-1] / gaps[1:], np.array([3.063038, 4.298514, 4.578706]), tolerance=1e-6)

    def certificates(self) -> list[Certificate]:
        g = LINE.minimiser()
        half_edge = 1 / LINE.curvature(g)
        edge, tenth = 2 * half_edge, arb("1e-10")
        known = enclose_cycle(LINE, START, arb(fmpq(976, 100)), 2)
        flip = turn(LINE, g, edge, 1)
        guess = cycles.bifurcation(1.3, 9.75, TOKENS, PROBS, 2, 1.0)
        birth, fold = enclose_bifurcation(LINE, guess.point, guess.learning_rate, 2, 1)
        proofs = [
            proof("z = (1, −8, −1/2), p = (.679, .021, .3), η = 9.76: the multiplier of the 2-cycle", abs(known.by_g), "<", 1),
            proof("there, η over the edge 2/H_*", fmpq(976, 100) / edge, "<", 1),
            proof("at the edge itself (F''/2)² + F'''/6: the fixed point doubles backwards", (flip.by_gg / 2) ** 2 + flip.by_ggg / 6, "<", 0),
            proof("the 2-cycle is born (multiplier 1) at η over the edge, to ten digits", abs(birth / edge - arb(str(BIRTH))), "<", tenth),
            proof("there the fold is simple: ∂F²/∂η · ∂²F²/∂g²", fold.by_eta * fold.by_gg, "<", 0),
        ]  # fmt: skip
        guesses = cycles.doublings(START, 9.76, TOKENS, PROBS, count=5)
        rates, crossing, bending = [], [], []
        for expected, each in zip(DOUBLINGS, guesses, strict=True):
            rate, at = enclose_bifurcation(LINE, each.point, each.learning_rate, each.period, -1)
            statement = (
                f"period {each.period} doubles (multiplier −1) at η over the edge, to ten digits"
            )
            proofs.append(proof(statement, abs(rate / edge - arb(str(expected))), "<", tenth))
            rates.append(rate)
            crossing.append(at.by_both + at.by_gg * at.by_eta / 2)
            bending.append((at.by_gg / 2) ** 2 + at.by_ggg / 6)
        ratio = (rates[3] - rates[2]) / (rates[4] - rates[3])
        worst, least = crossing[0], bending[0]
        for speed, bend in zip(crossing, bending, strict=True):
            worst, least = worst.max(speed), least.min(bend)
        return [
            *proofs,
            proof("at all five the multiplier falls through −1: its derivative by η, at most", worst, "<", 0),
            proof("at all five the cycle of twice the period attracts: (f''/2)² + f'''/6, at least", least, ">", 0),
            proof("the third ratio of gaps, which tends to 4.6692 if this is Feigenbaum's cascade", ratio, "<", fmpq(458, 100)),
        ]  # fmt: skip

    def curves(self) -> Curves:
        edge = cycles.edge(TOKENS, PROBS)
        rates = np.linspace(BIRTH * edge, 1.15 * edge, 240)
        kept = cycles.descend(START, rates, TOKENS, PROBS, skip=3000, keep=16)
        series = {"highest point": kept.max(0), "lowest point": kept.min(0), "minimiser": np.full(240, cycles.minimiser(TOKENS, PROBS))}  # fmt: skip
        return Curves("where descent ends", ("η over the edge", rates / edge), series, "g")
