"""C01 to C08: the model, its gradient, the particle system, margins."""

import itertools
from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq
from scipy.integrate import solve_ivp

from engram import memory, particles, theory
from engram.audits._balls import dot, precisely, rationals
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, at_least, both, equal, true
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits._runs import flow_pairs
from engram.audits._written_out import autograd, parts
from engram.audits.claims._checks import Checks
from engram.capacity import is_separable
from engram.memory import MemorySystem
from engram.problem import Problem

_MODELS = 40  # random models per check; one shape, so that everything compiles once
_N, _M, _D = 4, 3, 5


def _models(seed: int, name: str, count: int = _MODELS, **options):
    rng = rng_for(seed, name)
    for _ in range(count):
        yield random_problem(rng, _N, _M, _D, **options), random_weights(rng, _D)


# --- C01 ---


def _is_convex(seed: int) -> Evidence:
    lowest, size = [], []
    for problem, W in _models(seed, "C01"):
        values = np.linalg.eigvalsh(np.asarray(memory.hessian(problem, W)).reshape(_D**2, _D**2))
        lowest.append(values[0])
        size.append(max(values[-1], 1e-300))
    # d^2 rounded products per entry, relative to the largest eigenvalue.
    convex = at_least(
        np.array(lowest) / np.array(size), 0.0, tolerance=_D**2 * 1e-15, model=np.arange(_MODELS)
    )
    return both(convex, _is_time_change())


def _is_time_change() -> Evidence:
    """A flow whose speed is eta(t) = 1 + sin(t)^2, against the plain flow at the time it has used up."""
    times = np.linspace(0.5, 20.0, 16)

    def velocity(t, m):
        push = np.array([0.75, 0.25]) / (1 + np.exp(m))
        return (1 + np.sin(t) ** 2) * 2 * (push - 0.9 * push[::-1])

    hurried = solve_ivp(velocity, (0, 20), np.zeros(2), "DOP853", times, rtol=1e-12, atol=1e-13)
    spent = 1.5 * times - np.sin(2 * times) / 4
    plain = flow_pairs(np.array([0.9]), 0.75, 2.0, spent)[0]
    return equal(hurried.y.T, plain, tolerance=1e-9, time=times[:, None])


C01 = Checks(_is_convex)


# --- C02 ---


def _batch_mean(problem: Problem, W: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean of a batch's summed gradient, over all batches that can be drawn; and the gradient."""
    system, p = MemorySystem(problem), problem.probs
    mean = np.zeros((problem.dim, problem.dim))
    for batch in itertools.product(range(problem.num_tokens), repeat=size):
        counts = np.bincount(batch, minlength=problem.num_tokens).astype(float)
        mean += np.prod(p[list(batch)]) * np.asarray(system.grad(W, counts))
    return mean, np.asarray(system.grad(W))


@all_of
def _batches(seed: int, divisor: float) -> Iterator[Evidence]:
    rng = rng_for(seed, "C02")
    for index in range(4):
        problem, W = random_problem(rng, 2, 3, 4), random_weights(rng, 4, 1.0)
        mean, gradient = _batch_mean(problem, W, 4)
        yield equal(mean / divisor, gradient, model=index)


@precisely
def _batch_proof() -> list[Certificate]:
    p = [fmpq(3, 4), fmpq(1, 4)]
    mean = fmpq(0)
    for batch in itertools.product((0, 1), repeat=4):
        weight = fmpq(1)
        for token in batch:
            weight *= p[token]
        # At W = 0 each copy of token 1 pulls by 1/2 along (u_1 - u_2) ⊗ e_1.
        mean += weight * batch.count(0) * fmpq(1, 2)
    return [Certificate(
        "the mean pull of token 1 over all 2⁴ batches equals its pull p₁/2 in the gradient (p₁ = 3/4, |B| = 4)",
        mean, "==", p[0] / 2)]  # fmt: skip


C02 = Checks(
    lambda seed: _batches(seed, 1.0),
    corrected=lambda seed: _batches(seed, 4.0),
    certificates=_batch_proof,
)


# --- C03 ---


def _noise(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The covariance of one-sample gradients, and the factor that multiplies N Brownian motions."""
    rng = rng_for(seed, "C03")
    problem, W = random_problem(rng, 3, 3, 3), random_weights(rng, 3, 1.0)
    system, p = MemorySystem(problem), problem.probs
    one = np.array([np.asarray(system.grad(W, row)).ravel() for row in np.eye(3)])
    mean = p @ one
    covariance = (one - mean).T @ (p[:, None] * (one - mean))
    # dp = sqrt(p) dB - p sum(sqrt(p) dB): column k is what the k-th Brownian motion does to the law.
    factor = np.array([
        np.asarray(system.grad(W, np.sqrt(p[k]) * (np.eye(3)[k] - p))).ravel() for k in range(3)
    ]).T  # fmt: skip
    return covariance, factor, one


def _noise_as_printed(seed: int) -> Evidence:
    covariance, _, _ = _noise(seed)
    return equal(covariance @ covariance.T, covariance, entry=np.arange(9)[:, None])


def _noise_corrected(seed: int) -> Evidence:
    covariance, factor, _ = _noise(seed)
    return equal(factor @ factor.T, covariance, entry=np.arange(9)[:, None])


C03 = Checks(
    _noise_as_printed,
    corrected=_noise_corrected,
    certificates=lambda: [Certificate(
        "a coefficient 1/4 gives increments of variance 1/4 per unit of time", fmpq(1, 4) * fmpq(1, 4), "==", fmpq(1, 4))],
)  # fmt: skip


# --- C04 ---


def _orientation(seed: int, scores) -> Evidence:
    parts = [
        equal(
            scores(problem, W), np.asarray(memory.scores(problem, W)), token=np.arange(_N)[:, None]
        )
        for problem, W in _models(seed, "C04", 5)
    ]
    return both(*parts)


def _tensor_scores(problem: Problem, W: np.ndarray) -> np.ndarray:
    """<W, u_y ⊗ e_x>, written as the inner product of two matrices."""
    return np.einsum("ij,yi,xj->xy", W, problem.outputs, problem.inputs)


def _orientation_proof() -> list[Certificate]:
    W, (e, u) = rationals(["0", "1"], ["0", "0"]), rationals(["1", "0"], ["0", "1"])
    applied = lambda v: [dot(row, v) for row in W]
    statement = "⟨e, W u⟩ = ⟨u, W e⟩ for W = (0 1; 0 0), e = (1, 0), u = (0, 1)"
    return [Certificate(statement, dot(e, applied(u)), "==", dot(u, applied(e)))]


C04 = Checks(
    lambda seed: _orientation(seed, theory.printed.scores),
    corrected=lambda seed: _orientation(seed, _tensor_scores),
    certificates=_orientation_proof,
)


# --- C05, C06 ---


@all_of
def _gradient(seed: int) -> Iterator[Evidence]:
    for index, (problem, W) in enumerate(_models(seed, "C05")):
        gradient = np.asarray(memory.grad(problem, W))
        auto = np.asarray(autograd(W, *parts(problem)))
        yield equal(gradient, auto, tolerance=1e-13, model=index)
        inside = np.asarray(memory.project_on_updates(problem, gradient))
        yield equal(gradient, inside, tolerance=1e-13, model=index)


C05 = Checks(_gradient)


@all_of
def _particles(seed: int) -> Iterator[Evidence]:
    for index, (problem, W) in enumerate(_models(seed, "C06")):
        E, U, p, y = parts(problem)
        w = np.asarray(memory.scores(problem, W))
        q = np.asarray(memory.recall_probs(problem, W))
        alpha = E @ E.T
        beta = np.einsum("id,jd->ij", U, U)[:, :, None] - np.einsum("id,kd->ik", U, U)[:, None, :]
        # eq:interaction with its own signs: beta[j, f*(x), z].
        printed = np.einsum("x,ix,xjz,xz->ij", p, alpha, beta[:, y, :].transpose(1, 0, 2), q)
        moved = np.asarray(memory.scores(problem, W - np.asarray(memory.grad(problem, W)))) - w
        force = np.asarray(particles.force(problem, w))
        size = max(1.0, np.abs(w).max())  # moved is a difference of scores of that size
        yield equal(printed / size, moved / size, tolerance=1e-12, model=index)
        yield equal(printed, force, tolerance=1e-13, model=index)


C06 = Checks(_particles)


# --- C07 ---


def _classified(seed: int, positive) -> Evidence:
    rng = rng_for(seed, "C07")
    same = []
    for _ in range(_MODELS):
        problem = random_problem(rng, _N, _M, _D)
        W = -np.asarray(memory.grad(problem, np.zeros((_D, _D)))) + 0.2 * rng.normal(size=(_D, _D))
        right = np.asarray(memory.predict(problem, W)) == problem.targets
        same.append(positive(problem, W) == right)
    return true(np.array(same), model=np.arange(_MODELS)[:, None], token=np.arange(_N)[None, :])


def _all_positive(problem: Problem, W: np.ndarray) -> np.ndarray:
    return np.asarray((np.asarray(memory.class_margins(problem, W)) > 0).all(1))


def _others_positive(problem: Problem, W: np.ndarray) -> np.ndarray:
    m = np.array(memory.class_margins(problem, W))
    m[np.arange(len(m)), problem.targets] = np.inf
    return np.asarray((m > 0).all(1))


C07 = Checks(
    lambda seed: _classified(seed, _all_positive),
    corrected=lambda seed: _classified(seed, _others_positive),
    certificates=lambda: [Certificate("m_{f*(x)}(x) > 0", fmpq(0), ">", fmpq(0))],
)


# --- C08 ---


def _is_exposed(problem: Problem) -> bool:
    """Whether every target is an exposed vertex of the outputs' hull."""
    alone = lambda y: Problem(np.eye(1, problem.dim), problem.outputs, [1.0], [y])
    return all(is_separable(alone(y)) for y in set(problem.targets.tolist()))


def _capacity(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = rng_for(seed, "C08")
    drawn = [
        random_problem(rng, 2, 5, 2) for _ in range(60)
    ]  # five points of the plane: some inside
    drawn.append(Problem([[1.0, 0.0]], [[1.0, 0], [-1, 0], [0, 0]], [1.0], [2]))
    stored = np.array([is_separable(problem) for problem in drawn])
    return stored, np.array([_is_exposed(problem) for problem in drawn])


def _exposed_means_stored(seed: int) -> Evidence:
    stored, exposed = _capacity(seed)
    return true(stored == exposed, draw=np.arange(len(stored)))


C08 = Checks(
    lambda seed: true(_capacity(seed)[0], draw=np.arange(61)),
    corrected=_exposed_means_stored,
    certificates=lambda: [Certificate(
        "inf L = 0 for u = (1,0), (−1,0), (0,0), target 3, where L = log(1 + 2 cosh a) is least at a = 0", (1 + 2 * arb(0).cosh()).log(), "==", fmpq(0))],
)  # fmt: skip
