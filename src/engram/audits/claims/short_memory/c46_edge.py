"""C46: convergence and cycles at the edge of stability."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import isolate, sigma
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, equal, true
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.problem import Problem, two_tokens

# Three parallel tokens z_x e of the same class: one coordinate g, m_x = z_x g; c = 2.
_Z = (fmpq(1), fmpq(-8), fmpq(-1, 2))
_P = (fmpq(679, 1000), fmpq(21, 1000), fmpq(3, 10))
_STEP = fmpq(976, 100)  # η c
_MINIMISER = 0.5355734453


def _path(g: float, steps: int) -> np.ndarray:
    """Descent on the three parallel tokens, by `memory`."""
    z, p = ([int(x.p) / int(x.q) for x in numbers] for numbers in (_Z, _P))
    problem = Problem([[x, 0.0] for x in z], np.eye(2), p, [0, 0, 0])
    W, path = np.array([[g / 2, 0.0], [-g / 2, 0.0]]), []
    for _ in range(steps):
        path.append(W[0, 0] - W[1, 0])
        W = W - 4.88 * memory.grad(problem, W)
    return np.array(path)


def _pull(g: arb) -> arb:
    return sum((p * z * sigma(z * g) for z, p in zip(_Z, _P, strict=True)), arb(0))


def _curve(g: arb) -> arb:
    each = zip(_Z, _P, strict=True)
    return sum((p * z * z * sigma(z * g) * sigma(-z * g) for z, p in each), arb(0))


class C46(Checks):
    """Two parallel tokens (α = 1, p_1 = 0.6), whose margin has its minimum at log 1.5; and the three."""

    def _away(self, eta: np.ndarray) -> np.ndarray:
        """How far the pair's margin is from the minimiser, 4000 steps after a start near it."""
        end = np.log(0.6 / (1 - 0.6))
        start = np.tile([end + 1e-3, -end - 1e-3], (96, 1))
        m = descend_pairs(np.ones(96), 0.6, 2.0, np.resize(eta, 96), np.arange(4001), start)
        return np.abs(m[: len(eta), -1, 0] - end)

    def _sharpness(self) -> float:
        half = np.log(0.6 / (1 - 0.6)) / 2
        W = np.array([[half, 0.0], [-half, 0.0]])
        return float(memory.sharpness(two_tokens(1.0, 0.6), W))

    def printed(self, seed: int) -> Evidence:
        """As printed: where descent converges to a minimum, H_* > 2/η."""
        eta = np.array([0.5, 1.0, 2.0, 3.0])
        met = eta[self._away(eta) < 1e-9]
        return at_least(self._sharpness(), 2 / met, learning_rate=met)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        """Converges just below ηH_* = 2, leaves just above; and a 2-cycle below 2 that zero falls on."""
        sharp = self._sharpness()
        yield equal(sharp, 2 * 0.6 * (1 - 0.6), tolerance=1e-8)
        below, above = self._away(np.array([1.9, 2.1]) / sharp)
        yield true(below < 1e-9 and above > 1e-3)
        g = _path(0.0, 600)
        yield at_least(abs(g[-1] - g[-2]), 1.2)
        yield equal(g[-1], g[-3], tolerance=1e-9)
        # The minimiser itself: at H_* the multiplier is below 1, so near starts stay.
        yield equal(_path(0.5355734, 400)[-1], _MINIMISER, tolerance=1e-6)

    def certificates(self) -> list[Certificate]:
        # One pair at α = 1, p_1 = 3/5, c = 2, η = 1: m ← m + 2(p_1 σ(−m) − p_2 σ(m)), minimiser log(3/2).
        m, end = arb(0), arb(fmpq(3, 2)).log()
        for _ in range(100):
            m = m + 2 * (fmpq(3, 5) * sigma(m) - fmpq(2, 5) * sigma(-m))
        step, slope = lambda g: g + _STEP * _pull(g), lambda g: 1 - _STEP * _curve(g)
        best = isolate(_pull, fmpq(1, 2), fmpq(6, 10))
        centre, radius = arb("1.34755994372525").mid(), arb(10) ** -9
        disc = centre + arb(0, radius)
        multiplier = slope(disc) * slope(step(disc))
        image = abs(step(step(centre)) - centre) + abs(multiplier) * radius
        orbit = arb(0)
        for _ in range(501):
            # The mean value theorem keeps the ball as narrow as the map does.
            orbit = step(orbit.mid()) + slope(orbit) * (orbit - orbit.mid())
        return [
            proof("α = 1, p_1 = 3/5, c = 2, η = 1: after 100 steps from zero descent is within 10^−25 of the minimiser", abs(m - end), "<", arb(10) ** -25),
            Certificate("the same pair: at its minimiser H_* = c σ′(m_*) ≥ 2/η", 2 * sigma(end) * sigma(-end), ">=", fmpq(2)),
            proof("three parallel tokens z_x e, z = (1, −8, −½), p = (.679, .021, .3), ηc = 9.76, g = (u_1−u_2)ᵀW e: ηH_* at the minimiser is below 1.9", _STEP * _curve(best), "<", fmpq(19, 10)),
            proof("two steps map a disc of radius 10^−9 around 1.34755994372525 into itself", image, "<", radius),
            proof("and contract it: the multiplier is below 0.8954", abs(multiplier), "<", fmpq(8954, 10000)),
            proof("descent from zero enters the disc within 501 steps", abs(orbit - centre), "<", radius),
            Certificate("the same tokens: η < 2/H_*, so descent converges and its two limit points coincide", abs(step(disc) - disc), "==", fmpq(0)),
        ]  # fmt: skip

    def curves(self) -> Curves:
        series = {"true, from zero": _path(0.0, 60), "minimiser": np.full(60, _MINIMISER)}
        title = "descent on three parallel tokens, ηH_* = 1.899 < 2"
        return Curves(title, ("step", np.arange(60)), series, "g")
