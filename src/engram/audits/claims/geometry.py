"""C43 to C48: the plane, the Hessian, sharpness, calibration."""

import dataclasses
import functools
from collections.abc import Iterator

import jax
import numpy as np
from flint import arb, fmpq

from engram import memory
from engram._precision import in_double
from engram.audits._balls import isolate, precisely, sigma
from engram.audits._certificate import Certificate
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
from engram.audits._written_out import (
    autohess,
    least_plane_error,
    parts,
    plane_errors,
    plane_minimiser,
)
from engram.audits.claims._checks import Checks
from engram.problem import Problem, orthonormal, two_tokens
from engram.theory import interference

# --- C43, C44 ---


@in_double
@jax.jit
def _slope_in_the_plane(g, E, sign, p):
    """The gradient of the loss as a function of γ = (u_2 − u_1)ᵀW, whose product with e_x is −s_x m_x."""
    return jax.grad(lambda g: (p * jax.nn.softplus(sign * (E @ g))).sum())(g)


@all_of
def _plane(seed: int) -> Iterator[Evidence]:
    rng = rng_for(seed, "C43")
    for index in range(20):
        problem, W = random_problem(rng, 4, 2, 2), random_weights(rng, 2, 3.0)
        u = problem.outputs[1] - problem.outputs[0]
        moved = -u @ np.asarray(memory.grad(problem, W))
        sign = 1.0 - 2.0 * problem.targets
        told = -(u @ u) * np.asarray(
            _slope_in_the_plane(u @ W, problem.inputs, sign, problem.probs)
        )
        yield equal(moved, told, tolerance=1e-12, model=index)


C43 = Checks(_plane)


@all_of
def _hessian(seed: int) -> Iterator[Evidence]:
    rng = rng_for(seed, "C44")
    for index in range(20):
        problem, W = random_problem(rng, 4, 3, 3), random_weights(rng, 3, 3.0)
        yield equal(
            np.asarray(memory.hessian(problem, W)),
            np.asarray(autohess(W, *parts(problem))),
            tolerance=1e-12,
            model=index,
        )


C44 = Checks(_hessian)


# --- C45 ---


def _tie(problem: Problem, scores) -> np.ndarray:
    """Weights of a one-hot problem with given scores of its one token."""
    W = np.zeros((problem.dim, problem.dim))
    W[: len(scores), 0] = scores
    return W


def _sharpest_at_zero(seed: int) -> Evidence:
    rng = rng_for(seed, "C45")
    problem = orthonormal(1, 3)
    at_zero = float(memory.sharpness(problem, np.zeros((3, 3))))
    drawn = [_tie(problem, [50.0, 50.0, -50.0])] + [random_weights(rng, 3) for _ in range(20)]
    sharp = [float(memory.sharpness(problem, W)) for W in drawn]
    return at_most(sharp, at_zero, tolerance=1e-8, model=np.arange(21))


@all_of
def _sharpest_for_two(seed: int) -> Iterator[Evidence]:
    rng = rng_for(seed, "C45")
    for index in range(12):
        problem = random_problem(rng, 3, 2, 3)
        at_zero = float(memory.sharpness(problem, np.zeros((3, 3))))
        W = random_weights(rng, 3)
        sharp = float(memory.sharpness(problem, W))
        u = problem.outputs[0] - problem.outputs[1]
        lengths = (problem.inputs**2).sum(1)
        bound = (u @ u) * lengths.max() * float(memory.loss(problem, W))
        yield at_most(sharp / at_zero, 1.0, tolerance=1e-8, model=index)
        yield at_most(sharp / at_zero, bound / at_zero, tolerance=1e-8, model=index)
    for alpha, p1 in ((0.95, 0.75), (-0.5, 0.6), (0.3, 0.99)):
        told = interference.smoothness(alpha, p1)
        sharp = float(memory.sharpness(two_tokens(alpha, p1), np.zeros((2, 2))))
        yield equal(sharp, told, tolerance=1e-8, correlation=alpha, p1=p1)


@precisely
def _tie_proof() -> list[Certificate]:
    e = arb(-100).exp()
    q = [1 / (2 + e), 1 / (2 + e), e / (2 + e)]
    # Along (1, −1, 0)/√2 the Hessian of one orthonormal token is this; the sharpness is at least it.
    gap = q[0] - q[1]
    along = (q[0] + q[1]) / 2 - gap * gap / 2
    statement = "M = 3, one token, orthonormal, w = (50, 50, −50): the sharpness is at most 1/3, that at W = 0"
    return [Certificate(statement, along, "<=", fmpq(1, 3))]


C45 = Checks(_sharpest_at_zero, corrected=_sharpest_for_two, certificates=_tie_proof)


# --- C46 ---

_Z = (fmpq(1), fmpq(-8), fmpq(-1, 2))
_P = (fmpq(679, 1000), fmpq(21, 1000), fmpq(3, 10))
_STEP = fmpq(976, 100)  # η c


def _parallel() -> Problem:
    """Three parallel tokens of the same class: one coordinate g, m_x = z_x g; c = 2."""
    inputs = [[float(z.p) / float(z.q), 0.0] for z in _Z]
    return Problem(inputs, np.eye(2), [float(p.p) / float(p.q) for p in _P], [0, 0, 0])


def _path(problem: Problem, eta: float, steps: int, W: np.ndarray) -> np.ndarray:
    g = []
    for _ in range(steps):
        g.append(W[0, 0] - W[1, 0])
        W = W - eta * np.asarray(memory.grad(problem, W))
    return np.array(g)


def _settles(alpha: float, p1: float, eta: np.ndarray) -> np.ndarray:
    """The step-to-step change of parallel tokens' margin after 4000 steps from near the minimiser."""
    end = np.log(p1 / (1 - p1))
    start = np.tile([end + 1e-3, -end - 1e-3], (96, 1))
    rates = np.resize(eta, 96)
    m = descend_pairs(np.full(96, alpha), p1, 2.0, rates, np.arange(4001), start)[: len(eta), :, 0]
    return np.abs(m[:, -1] - end)


def _sharper_than_stable(seed: int) -> Evidence:
    """As printed: where descent converges to a minimum, H_* > 2/η."""
    p1, eta = 0.6, np.array([0.5, 1.0, 2.0, 3.0])
    away = _settles(1.0, p1, eta)
    sharp = float(memory.sharpness(two_tokens(1.0, p1), _pair_minimiser(p1)))
    met = away < 1e-9
    return at_least(sharp, 2 / eta[met], learning_rate=eta[met])


def _pair_minimiser(p1: float) -> np.ndarray:
    end = np.log(p1 / (1 - p1))
    return np.array([[end / 2, 0.0], [-end / 2, 0.0]])


def _stable_below(seed: int) -> Evidence:
    """Converges just below ηH_* = 2, leaves just above; and a 2-cycle below 2 that zero falls on."""
    p1 = 0.6
    sharp = float(memory.sharpness(two_tokens(1.0, p1), _pair_minimiser(p1)))
    told = 2 * p1 * (1 - p1)
    away = _settles(1.0, p1, np.array([1.9, 2.1]) / sharp)
    problem = _parallel()
    g = _path(problem, 4.88, 600, np.zeros((2, 2)))
    # The minimiser itself: at H_* the multiplier is below 1, so near starts stay.
    near = _path(problem, 4.88, 400, np.array([[0.5355734 / 2, 0.0], [-0.5355734 / 2, 0.0]]))
    return both(
        equal(sharp, told, tolerance=1e-8),
        true(away[0] < 1e-9 and away[1] > 1e-3),
        at_least(abs(g[-1] - g[-2]), 1.2),
        equal(g[-1], g[-3], tolerance=1e-9),
        equal(near[-1], 0.5355734453, tolerance=1e-6),
    )


def _map(g: arb) -> arb:
    """One step of the parallel tokens: g + ηc Σ p z σ(−z g)."""
    return g + _STEP * sum((p * z * sigma(z * g) for z, p in zip(_Z, _P, strict=True)), arb(0))


def _map_slope(g: arb) -> arb:
    return 1 - _STEP * _curve(g)


def _curve(g: arb) -> arb:
    return sum(
        (p * z * z * sigma(z * g) * sigma(-z * g) for z, p in zip(_Z, _P, strict=True)), arb(0)
    )


@precisely
def _stability_proof() -> list[Certificate]:
    # One pair at α = 1, p_1 = 3/5, c = 2, η = 1: m ← m + 2(p_1 σ(−m) − p_2 σ(m)), minimiser log(3/2).
    m, end = arb(0), arb(fmpq(3, 2)).log()
    for _ in range(100):
        m = m + 2 * (fmpq(3, 5) * sigma(m) - fmpq(2, 5) * sigma(-m))
    distance = abs(m - end)
    pull = lambda g: sum((p * z * sigma(z * g) for z, p in zip(_Z, _P, strict=True)), arb(0))
    best = isolate(pull, fmpq(1, 2), fmpq(6, 10))
    centre, radius = arb("1.34755994372525").mid(), arb(10) ** -9
    disc = centre + arb(0, radius)
    slope = _map_slope(disc) * _map_slope(_map(disc))
    image = abs(_map(_map(centre)) - centre) + abs(slope) * radius
    orbit = arb(0)
    for _ in range(501):
        # The mean value theorem keeps the ball as narrow as the map does.
        orbit = _map(orbit.mid()) + _map_slope(orbit) * (orbit - orbit.mid())
    prove = functools.partial(Certificate, violates=False)
    return [
        prove("α = 1, p_1 = 3/5, c = 2, η = 1: after 100 steps from zero descent is within 10^−25 of the minimiser", distance, "<", arb(10) ** -25),
        Certificate("the same pair: at its minimiser H_* = c σ′(m_*) ≥ 2/η", 2 * sigma(end) * sigma(-end), ">=", fmpq(2)),
        prove("three parallel tokens z_x e, z = (1, −8, −½), p = (.679, .021, .3), ηc = 9.76, g = (u_1−u_2)ᵀW e: ηH_* at the minimiser is below 1.9", _STEP * _curve(best), "<", fmpq(19, 10)),
        prove("two steps map a disc of radius 10^−9 around 1.34755994372525 into itself", image, "<", radius),
        prove("and contract it: the multiplier is below 0.8954", abs(slope), "<", fmpq(8954, 10000)),
        prove("descent from zero enters the disc within 501 steps", abs(orbit - centre), "<", radius),
        Certificate("the same tokens: η < 2/H_*, so descent converges and its two limit points coincide", abs(_map(disc) - disc), "==", fmpq(0)),
    ]  # fmt: skip


C46 = Checks(
    _sharper_than_stable,
    corrected=_stable_below,
    certificates=_stability_proof,
    curves=lambda: Curves(
        "descent on three parallel tokens, ηH_* = 1.899 < 2", ("step", np.arange(60)),
        {"true, from zero": _path(_parallel(), 4.88, 60, np.zeros((2, 2))), "minimiser": np.full(60, 0.5355734)}, "g"),
)  # fmt: skip


# --- C47, C48 ---


def _family(theta: np.ndarray) -> np.ndarray:
    """Tokens (1, 0) and (−cos θ, ±sin θ), as a batch of points."""
    z = np.zeros((len(theta), 3, 2))
    z[:, 0, 0] = 1.0
    z[:, 1:, 0] = -np.cos(theta)[:, None]
    z[:, 1, 1], z[:, 2, 1] = np.sin(theta), -np.sin(theta)
    return z


def _forgets(seed: int) -> Evidence:
    """The exact example by engram's own descent, and the family's condition by Newton's method."""
    problem = Problem(
        [[1.0, 0.0], [-0.8, 0.6], [-0.8, -0.6]], np.eye(2), [0.4, 0.3, 0.3], [0, 0, 0]
    )
    W = np.zeros((2, 2))
    for _ in range(300):
        W = W - np.asarray(memory.grad(problem, W))
    g = W[0] - W[1]
    z, p = np.asarray(problem.inputs)[None], np.asarray(problem.probs)
    excess = float(memory.error_rate(problem, W)) - least_plane_error(z, p)[0]
    rng = rng_for(seed, "C47")
    theta, p1 = rng.uniform(0.1, 1.4, 200), rng.uniform(0.34, 0.6, 200)
    law = np.stack([p1, (1 - p1) / 2, (1 - p1) / 2], 1)
    told = (1 - p1) * np.cos(theta) > p1
    clear = np.abs((1 - p1) * np.cos(theta) - p1) > 1e-6
    found = plane_minimiser(_family(theta), law)[:, 0] < 0
    return both(
        equal(g, [-0.204667982367761, 0.0], tolerance=1e-9),
        equal(excess, 0.1, tolerance=1e-12),
        true((found == told)[clear], angle=theta[clear], p1=p1[clear]),
    )


@precisely
def _calibration_proof() -> list[Certificate]:
    pull = lambda g: fmpq(2, 5) * sigma(g) - fmpq(3, 5) * fmpq(4, 5) * sigma(-fmpq(4, 5) * g)
    best = isolate(pull, fmpq(-1, 2), fmpq(-1, 10))
    prove = functools.partial(Certificate, violates=False)
    return [
        prove("z_1 = (1, 0), z_{2,3} = (−4/5, ±3/5), p = (2/5, 3/10, 3/10): the minimiser's first coordinate is negative, so token 1 is wrong", best, "<", fmpq(0)),
        prove("it is −0.204667982367761 up to 10^−15", abs(best + fmpq(204667982367761, 10**15)), "<", arb(10) ** -15),
        prove("its 0-1 loss is 2/5, that of the direction (1, 2) is 3/10", fmpq(2, 5), ">", fmpq(3, 10)),
    ]  # fmt: skip


C47 = Checks(_forgets, certificates=_calibration_proof)

_DRAWS = 400


@functools.lru_cache(maxsize=2)
def _random_planes(seed: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """For each N: whether the minimiser has excess risk, and whether it forgets the likeliest token."""
    rng, found = rng_for(seed, "C48"), {}
    for N in (3, 5, 8, 12, 20, 40):
        angle = rng.uniform(0, 2 * np.pi, (_DRAWS, N))
        z = np.stack([np.cos(angle), np.sin(angle)], 2)
        p = np.broadcast_to(1 / np.arange(1, N + 1) / (1 / np.arange(1, N + 1)).sum(), (_DRAWS, N))
        least = least_plane_error(z, p[:, None, :])
        g = plane_minimiser(z, p)
        separable = least < 1e-12  # then the loss leads to a direction without error
        excess = ~separable & (plane_errors(z, p, g) > least + 1e-9)
        forgot = ~separable & ((z[:, 0] * g).sum(1) <= 0)
        found[N] = excess, forgot
    return found


def _norm_as_printed(seed: int) -> Evidence:
    return frequency(_random_planes(seed)[40][1], above=0.5)


def _norm_corrected(seed: int) -> Evidence:
    found = _random_planes(seed)
    share = [float(found[N][0].mean()) for N in found]
    rising = at_least(np.diff(share), 0.0, tolerance=3 * np.sqrt(0.5 / _DRAWS))
    notes = ", ".join(f"{N}: {value:.2f}" for N, value in zip(found, share, strict=True))
    evidence = both(
        frequency(found[20][0], above=0.5),
        frequency(found[40][0], above=0.5),
        frequency(found[40][1], below=0.1),
        rising,
    )
    return dataclasses.replace(evidence, note=f"excess risk by N: {notes}")


C48 = Checks(_norm_as_printed, corrected=_norm_corrected)
