"""C43 to C48: the plane, the Hessian, sharpness, calibration."""

import dataclasses
import functools
from collections.abc import Iterator

import jax
import numpy as np
from flint import arb, fmpq

from engram import memory
from engram._precision import in_double
from engram.audits import _independent as independent
from engram.audits._balls import isolate, sigma
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import (
    Evidence,
    all_of,
    at_least,
    at_most,
    both,
    equal,
    frequency,
    true,
)
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.problem import Problem, orthonormal, two_tokens
from engram.theory import interference


@in_double
@jax.jit
def _slope_in_the_plane(g, E, sign, p):
    """The gradient of the loss as a function of γ = (u_2 − u_1)ᵀW, whose product with e_x is −s_x m_x."""
    return jax.grad(lambda g: (p * jax.nn.softplus(sign * (E @ g))).sum())(g)


class C43(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C43")
        for index in range(20):
            problem, W = random_problem(rng, 4, 2, 2), random_weights(rng, 2, 3.0)
            u = problem.outputs[1] - problem.outputs[0]
            sign = 1.0 - 2.0 * problem.targets
            slope = np.asarray(_slope_in_the_plane(u @ W, problem.inputs, sign, problem.probs))
            moved = -u @ memory.grad(problem, W)
            yield equal(moved, -(u @ u) * slope, tolerance=1e-12, model=index)


class C44(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C44")
        for index in range(20):
            problem, W = random_problem(rng, 4, 3, 3), random_weights(rng, 3, 3.0)
            auto = independent.autohess(W, *independent.parts(problem))
            yield equal(memory.hessian(problem, W), auto, tolerance=1e-12, model=index)


class C45(Checks):
    def printed(self, seed: int) -> Evidence:
        rng, problem = rng_for(seed, "C45"), orthonormal(1, 3)
        at_zero = memory.sharpness(problem, np.zeros((3, 3)))
        tie = np.outer([50.0, 50.0, -50.0], np.eye(3)[0])
        drawn = [tie, *(random_weights(rng, 3) for _ in range(20))]
        sharp = [memory.sharpness(problem, W) for W in drawn]
        return at_most(sharp, at_zero, tolerance=1e-8, model=np.arange(21))

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C45")
        for index in range(12):
            problem, W = random_problem(rng, 3, 2, 3), random_weights(rng, 3)
            at_zero = memory.sharpness(problem, np.zeros((3, 3)))
            share = memory.sharpness(problem, W) / at_zero
            u, lengths = problem.outputs[0] - problem.outputs[1], (problem.inputs**2).sum(1)
            bound = (u @ u) * lengths.max() * memory.loss(problem, W)
            yield at_most(share, 1.0, tolerance=1e-8, model=index)
            yield at_most(share, bound / at_zero, tolerance=1e-8, model=index)
        for alpha, p1 in ((0.95, 0.75), (-0.5, 0.6), (0.3, 0.99)):
            sharp = memory.sharpness(two_tokens(alpha, p1), np.zeros((2, 2)))
            told = interference.smoothness(alpha, p1)
            yield equal(sharp, told, tolerance=1e-8, correlation=alpha, p1=p1)

    def certificates(self) -> list[Certificate]:
        e = arb(-100).exp()
        q = [1 / (2 + e), 1 / (2 + e), e / (2 + e)]
        # Along (1, −1, 0)/√2 the Hessian of one orthonormal token is this; the sharpness is at least it.
        gap = q[0] - q[1]
        along = (q[0] + q[1]) / 2 - gap * gap / 2
        statement = "M = 3, one token, orthonormal, w = (50, 50, −50): the sharpness is at most 1/3, that at W = 0"
        return [Certificate(statement, along, "<=", fmpq(1, 3))]


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


class C47(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """The exact example by engram's own descent, and the family's condition by Newton's method."""
        z, p = np.array([[1.0, 0.0], [-0.8, 0.6], [-0.8, -0.6]]), np.array([0.4, 0.3, 0.3])
        problem, W = Problem(z, np.eye(2), p, [0, 0, 0]), np.zeros((2, 2))
        for _ in range(300):
            W = W - memory.grad(problem, W)
        yield equal(W[0] - W[1], [-0.204667982367761, 0.0], tolerance=1e-9)
        excess = memory.error_rate(problem, W) - independent.least_plane_error(z[None], p)[0]
        yield equal(excess, 0.1, tolerance=1e-12)
        rng = rng_for(seed, "C47")
        theta, p1 = rng.uniform(0.1, 1.4, 200), rng.uniform(0.34, 0.6, 200)
        p = np.stack([p1, (1 - p1) / 2, (1 - p1) / 2], 1)
        across, up, zero = -np.cos(theta), np.sin(theta), np.zeros(200)
        z = np.stack([np.stack([zero + 1, across, across], 1), np.stack([zero, up, -up], 1)], 2)
        forgets = independent.plane_minimiser(z, p)[:, 0] < 0
        excess = (1 - p1) * np.cos(theta) - p1
        clear = np.abs(excess) > 1e-6
        yield true((forgets == (excess > 0))[clear], angle=theta[clear], p1=p1[clear])

    def certificates(self) -> list[Certificate]:
        pull = lambda g: fmpq(2, 5) * sigma(g) - fmpq(3, 5) * fmpq(4, 5) * sigma(-fmpq(4, 5) * g)
        best = isolate(pull, fmpq(-1, 2), fmpq(-1, 10))
        return [
            proof("z_1 = (1, 0), z_{2,3} = (−4/5, ±3/5), p = (2/5, 3/10, 3/10): the minimiser's first coordinate is negative, so token 1 is wrong", best, "<", fmpq(0)),
            proof("it is −0.204667982367761 up to 10^−15", abs(best + fmpq(204667982367761, 10**15)), "<", arb(10) ** -15),
            proof("its 0-1 loss is 2/5, that of the direction (1, 2) is 3/10", fmpq(2, 5), ">", fmpq(3, 10)),
        ]  # fmt: skip


_DRAWS = 400


@functools.lru_cache(maxsize=2)
def _random_planes(seed: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """For each N: whether the minimiser has excess risk, and whether it forgets the likeliest token."""
    rng, planes = rng_for(seed, "C48"), {}
    for N in (3, 5, 8, 12, 20, 40):
        angle = rng.uniform(0, 2 * np.pi, (_DRAWS, N))
        z = np.stack([np.cos(angle), np.sin(angle)], 2)
        p = np.broadcast_to(1 / np.arange(1, N + 1) / (1 / np.arange(1, N + 1)).sum(), (_DRAWS, N))
        least = independent.least_plane_error(z, p[:, None, :])
        g = independent.plane_minimiser(z, p)
        separable = least < 1e-12  # then the loss leads to a direction without error
        wrong = np.einsum("bni,bi->bn", z, g) <= 0
        excess = ~separable & ((p * wrong).sum(1) > least + 1e-9)
        forgot = ~separable & wrong[:, 0]
        planes[N] = excess, forgot
    return planes


class C48(Checks):
    def printed(self, seed: int) -> Evidence:
        return frequency(_random_planes(seed)[40][1], above=0.5)

    def corrected(self, seed: int) -> Evidence:
        planes = _random_planes(seed)
        share = {N: excess.mean() for N, (excess, _) in planes.items()}
        often = [frequency(planes[N][0], above=0.5) for N in (20, 40)]
        error = 3 * np.sqrt(0.5 / _DRAWS)
        rising = at_least(np.diff(list(share.values())), 0.0, tolerance=error)
        evidence = both(*often, frequency(planes[40][1], below=0.1), rising)
        note = ", ".join(f"{N}: {value:.2f}" for N, value in share.items())
        return dataclasses.replace(evidence, note=f"excess risk by N: {note}")
