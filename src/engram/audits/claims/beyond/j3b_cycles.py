"""J3b: for every learning rate between half of the edge and the edge some data have an attracting cycle."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.audits.claims.beyond._line import Line, enclose_cycle
from engram.problem import Problem
from engram.theory import cycles

SHARES = (1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1.05, 1.02, 1.01, 1.001)


def _exact(value: float) -> fmpq:
    """A number rounded to twelve digits, as a fraction."""
    return fmpq(*Fraction(f"{value:.11e}").as_integer_ratio())


def _descend(z: np.ndarray, p: np.ndarray, eta: float, start: float, steps: int) -> np.ndarray:
    """The last two positions, by engram's own gradient of a memory in one dimension."""
    problem = Problem(z[:, None], np.array([[0.5], [-0.5]]), p, np.zeros(len(z), int))
    W, path = np.array([[start]]), []
    for _ in range(steps):
        W = W - eta * np.asarray(memory.grad(problem, W))
        path.append(float(W[0, 0]))
    return np.array(path[-2:])


class J3b(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        shares = 1 + 10 ** rng_for(seed, "J3b").uniform(-3, np.log10(0.99), 60)
        for index, share in enumerate([*SHARES, *shares]):
            z, p, eta, found = cycles.tokens_with_cycle(share)
            g = cycles.minimiser(z, p)
            yield equal(eta * cycles.curvature(g, z, p), share, tolerance=1e-9, share=share)
            yield equal(g / ((share - 1) ** 1.5 / 4), 1.0, tolerance=1e-9, share=share)
            yield at_most(abs(found.multiplier), 0.9, share=share)
            # A step of a factor -(share - 1) on one side, and the way back over the push.
            yield at_least(np.ptp(found.points), np.sqrt(share - 1), share=share)
            if index % 12 == 0:
                ends = _descend(z, p, eta, found.points[0] * 1.01, 61)
                yield equal(np.sort(ends), np.sort(found.points), tolerance=1e-7, share=share)
                spread = (share - 1) * g * 1e-2  # the minimiser attracts, too
                home = _descend(z, p, eta, g + spread, 400 if share < 1.95 else 2)
                yield at_most(np.abs(home - g), spread, share=share)

    def certificates(self) -> list[Certificate]:
        found, multipliers, widths = [], [], []
        for share in SHARES:
            z, p, eta, approximate = cycles.tokens_with_cycle(share)
            first, _, rare = map(_exact, p)
            line, exact_eta = Line([_exact(value) for value in z], [first, 1 - first - rare, rare]), arb(_exact(eta))  # fmt: skip
            g = line.minimiser()
            around = enclose_cycle(line, float(approximate.points[0]), exact_eta, 2)
            high, low = (point.str(8, radius=False) for point in around.points)
            statement = (
                f"three tokens with the 2-cycle {{{low}, {high}}}: ηH_* is {share} to nine digits"
            )
            found.append(proof(statement, abs(exact_eta * line.curvature(g) - arb(str(share))), "<", arb("1e-9")))  # fmt: skip
            multipliers.append(abs(around.by_g))
            widths.append(around.points[0] - around.points[1])
        top, least = multipliers[0], widths[0]
        for multiplier, width in zip(multipliers, widths, strict=True):
            top, least = top.max(multiplier), least.min(width)
        return [
            *found,
            proof("the largest multiplier of these cycles, in absolute value", top, "<", 1),
            proof("the least distance between the two points of one", least, ">", 0),
        ]

    def curves(self) -> Curves:
        shares = np.linspace(1.01, 1.95, 60)
        data = [cycles.tokens_with_cycle(share) for share in shares]
        series = {
            "multiplier": np.array([found.multiplier for *_, found in data]),
            "3ε²/4, ε = ηH − 1": 0.75 * (shares - 1) ** 2,
        }
        return Curves("the attracting cycle of three tokens", ("η H", shares), series)
