"""C01 to C08: the model, its gradient, the particle system, margins."""

import itertools
from collections.abc import Iterator
from functools import partialmethod

import numpy as np
from flint import arb, fmpq
from scipy.integrate import solve_ivp

from engram import memory, particles, theory
from engram.audits._balls import dot, rationals
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, all_of, at_least, both, equal, true
from engram.audits._independent import autograd, parts
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits._runs import flow_pairs
from engram.audits.claims._checks import Checks
from engram.capacity import is_separable
from engram.memory import MemorySystem
from engram.problem import Problem

_MODELS = 40  # random models per check; one shape, so that everything compiles once
_N, _M, _D = 4, 3, 5


def _models(seed: int, name: str, count: int = _MODELS) -> Iterator[tuple[Problem, np.ndarray]]:
    rng = rng_for(seed, name)
    for _ in range(count):
        yield random_problem(rng, _N, _M, _D), random_weights(rng, _D)


class C01(Checks):
    def printed(self, seed: int) -> Evidence:
        hessians = [memory.hessian(*model).reshape(_D**2, _D**2) for model in _models(seed, "C01")]
        values = np.linalg.eigvalsh(hessians)
        # d^2 rounded products per entry, relative to the largest eigenvalue.
        lowest = values[:, 0] / np.maximum(values[:, -1], 1e-300)
        convex = at_least(lowest, 0.0, tolerance=_D**2 * 1e-15, model=np.arange(_MODELS))
        return both(convex, self._is_time_change())

    def _is_time_change(self) -> Evidence:
        """A flow at speed eta(t) = 1 + sin(t)^2, against the plain flow at the time it has used up."""
        times = np.linspace(0.5, 20.0, 16)

        def velocity(t, m):
            push = np.array([0.75, 0.25]) / (1 + np.exp(m))
            return (1 + np.sin(t) ** 2) * 2 * (push - 0.9 * push[::-1])

        hurried = solve_ivp(velocity, (0, 20), np.zeros(2), "DOP853", times, rtol=1e-12, atol=1e-13)
        spent = 1.5 * times - np.sin(2 * times) / 4
        plain = flow_pairs(np.array([0.9]), 0.75, 2.0, spent)[0]
        return equal(hurried.y.T, plain, tolerance=1e-9, time=times[:, None])


class C02(Checks):
    @all_of
    def _batches(self, seed: int, divisor: float, size: int = 4) -> Iterator[Evidence]:
        """The mean of a batch's summed gradient, over all batches that can be drawn, against the gradient."""
        rng = rng_for(seed, "C02")
        for index in range(4):
            problem, W = random_problem(rng, 2, 3, 4), random_weights(rng, 4, 1.0)
            system, mean = MemorySystem(problem), np.zeros((4, 4))
            for batch in itertools.product(range(2), repeat=size):
                counts = np.bincount(batch, minlength=2).astype(float)
                mean += np.prod(problem.probs[list(batch)]) * np.asarray(system.grad(W, counts))
            yield equal(mean / divisor, np.asarray(system.grad(W)), model=index)

    printed = partialmethod(_batches, divisor=1.0)
    corrected = partialmethod(_batches, divisor=4.0)

    def certificates(self) -> list[Certificate]:
        p, mean = [fmpq(3, 4), fmpq(1, 4)], fmpq(0)
        for batch in itertools.product((0, 1), repeat=4):
            weight = fmpq(1)
            for token in batch:
                weight *= p[token]
            # At W = 0 each copy of token 1 pulls by 1/2 along (u_1 - u_2) ⊗ e_1.
            mean += weight * batch.count(0) * fmpq(1, 2)
        return [Certificate(
            "the mean pull of token 1 over all 2⁴ batches equals its pull p₁/2 in the gradient (p₁ = 3/4, |B| = 4)",
            mean, "==", p[0] / 2)]  # fmt: skip


class C03(Checks):
    def _noise(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The covariance of one-sample gradients, and the factor that multiplies N Brownian motions."""
        rng = rng_for(seed, "C03")
        problem, W = random_problem(rng, 3, 3, 3), random_weights(rng, 3, 1.0)
        p, system = problem.probs, MemorySystem(problem)
        gradient = lambda law: np.asarray(system.grad(W, law)).ravel()
        one = np.array([gradient(row) for row in np.eye(3)])
        mean = p @ one
        covariance = (one - mean).T @ (p[:, None] * (one - mean))
        # dp = sqrt(p) dB - p sum(sqrt(p) dB): column k is what the k-th Brownian motion does to the law.
        factor = np.array([gradient(np.sqrt(p[k]) * (np.eye(3)[k] - p)) for k in range(3)]).T
        return covariance, factor

    def printed(self, seed: int) -> Evidence:
        covariance, _ = self._noise(seed)
        return equal(covariance @ covariance.T, covariance, entry=np.arange(9)[:, None])

    def corrected(self, seed: int) -> Evidence:
        covariance, factor = self._noise(seed)
        return equal(factor @ factor.T, covariance, entry=np.arange(9)[:, None])

    def certificates(self) -> list[Certificate]:
        statement = "a coefficient 1/4 gives increments of variance 1/4 per unit of time"
        return [Certificate(statement, fmpq(1, 4) * fmpq(1, 4), "==", fmpq(1, 4))]


class C04(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for problem, W in _models(seed, "C04", 5):
            said = theory.printed.scores(problem, W)
            yield equal(said, memory.scores(problem, W), token=np.arange(_N)[:, None])

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        """<W, u_y ⊗ e_x>, written as the inner product of two matrices."""
        for problem, W in _models(seed, "C04", 5):
            tensor = np.einsum("ij,yi,xj->xy", W, problem.outputs, problem.inputs)
            yield equal(tensor, memory.scores(problem, W), token=np.arange(_N)[:, None])

    def certificates(self) -> list[Certificate]:
        W, (e, u) = rationals(["0", "1"], ["0", "0"]), rationals(["1", "0"], ["0", "1"])
        applied = lambda v: [dot(row, v) for row in W]
        statement = "⟨e, W u⟩ = ⟨u, W e⟩ for W = (0 1; 0 0), e = (1, 0), u = (0, 1)"
        return [Certificate(statement, dot(e, applied(u)), "==", dot(u, applied(e)))]


class C05(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for index, (problem, W) in enumerate(_models(seed, "C05")):
            gradient = memory.grad(problem, W)
            yield equal(gradient, autograd(W, *parts(problem)), tolerance=1e-13, model=index)
            inside = memory.project_on_updates(problem, gradient)
            yield equal(gradient, inside, tolerance=1e-13, model=index)


class C06(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for index, (problem, W) in enumerate(_models(seed, "C06")):
            E, U, p, y = parts(problem)
            w, q = memory.scores(problem, W), memory.recall_probs(problem, W)
            gram = np.einsum("id,jd->ij", U, U)
            beta = (gram[:, :, None] - gram[:, None, :])[:, y, :].transpose(1, 0, 2)
            # eq:interaction with its own signs: beta[j, f*(x), z].
            printed = np.einsum("x,ix,xjz,xz->ij", p, E @ E.T, beta, q)
            moved = memory.scores(problem, W - memory.grad(problem, W)) - w
            size = max(1.0, np.abs(w).max())  # moved is a difference of scores of that size
            yield equal(printed / size, moved / size, tolerance=1e-12, model=index)
            yield equal(printed, particles.force(problem, w), tolerance=1e-13, model=index)


class C07(Checks):
    def _classified(self, seed: int, own_margin: float) -> Evidence:
        """Whether all margins are positive exactly where the token is right, given the one against its own class."""
        rng, same = rng_for(seed, "C07"), []
        for _ in range(_MODELS):
            problem = random_problem(rng, _N, _M, _D)
            W = -memory.grad(problem, np.zeros((_D, _D))) + 0.2 * rng.normal(size=(_D, _D))
            m = np.array(memory.class_margins(problem, W))
            m[np.arange(_N), problem.targets] = own_margin
            same.append((m > 0).all(1) == (memory.predict(problem, W) == problem.targets))
        return true(np.array(same), model=np.arange(_MODELS)[:, None], token=np.arange(_N)[None, :])

    printed = partialmethod(_classified, own_margin=0.0)
    corrected = partialmethod(_classified, own_margin=np.inf)

    def certificates(self) -> list[Certificate]:
        return [
            proof("m_{f*(x)}(x), the margin against the own class, is zero", fmpq(0), "==", fmpq(0))
        ]


class C08(Checks):
    def _problems(self, seed: int) -> list[Problem]:
        rng = rng_for(seed, "C08")
        inside = Problem([[1.0, 0.0]], [[1.0, 0], [-1, 0], [0, 0]], [1.0], [2])
        return [*(random_problem(rng, 2, 5, 2) for _ in range(60)), inside]

    def printed(self, seed: int) -> Evidence:
        stored = [is_separable(problem) for problem in self._problems(seed)]
        return true(stored, draw=np.arange(61))

    def corrected(self, seed: int) -> Evidence:
        """Stored exactly where every target is an exposed vertex of the outputs' hull."""
        same = []
        for problem in self._problems(seed):
            token, targets = np.eye(1, 2), set(problem.targets.tolist())
            alone = [Problem(token, problem.outputs, [1.0], [y]) for y in targets]
            same.append(is_separable(problem) == all(map(is_separable, alone)))
        return true(same, draw=np.arange(61))

    def certificates(self) -> list[Certificate]:
        statement = "inf L = 0 for u = (1,0), (−1,0), (0,0), target 3, where L = log(1 + 2 cosh a) is least at a = 0"
        return [Certificate(statement, (1 + 2 * arb(0).cosh()).log(), "==", fmpq(0))]
