"""C19 to C27: orthogonal inputs and many classes (Theorem 3)."""

import functools
from collections.abc import Iterator
from functools import partialmethod

import numpy as np
from flint import arb, fmpq

from engram import memory, particles
from engram.audits._balls import descent_margins, dot, isolate, precision
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import MANY_STEPS, Evidence, all_of, at_least, at_most, equal, true
from engram.audits._parameters import random_problem, rng_for
from engram.audits._runs import descend_classes, descend_token, flow_classes, steps_to
from engram.audits.claims._checks import Checks
from engram.capacity import max_margin
from engram.problem import Problem, orthonormal
from engram.theory import multiclass, printed

_CLASSES = (2, 3, 10, 100)
_SOLVER = 1e-8  # a solver at rtol 1e-11 over twelve decades; e^-w amplifies its error
_TIMES = np.concatenate([[0.0], np.geomspace(1e-2, 1e12, 29)])


def _family(rng: np.random.Generator, norms: np.ndarray, rate: float) -> Problem:
    """One token with orthogonal outputs of given norms, the target first."""
    M = len(norms)
    Q, R = (np.linalg.qr(rng.normal(size=(M + 1, M + 1)))[0] for _ in range(2))
    return Problem(np.sqrt(rate) * Q[:1], norms[:, None] * R[:M], [1.0], [0])


class C19(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C19")
        for index in range(20):
            norms, rate = rng.uniform(0.5, 2.0, 4), 10 ** rng.uniform(-1, 1)
            problem, w = _family(rng, norms, rate), rng.normal(size=(1, 4)) * 3
            told = multiclass.flow_velocity(w, np.array([rate]), norms)
            yield equal(particles.force(problem, w), told, tolerance=1e-13, model=index)


@functools.lru_cache(maxsize=2)
def _flows(seed: int) -> tuple[np.ndarray, ...]:
    """Gradient flows of M = 4 classes: norms, starts, scores."""
    rng = rng_for(seed, "multiclass flows")
    rate, norms = 10 ** rng.uniform(-1, 1, 16), rng.uniform(0.5, 2.0, (16, 4))
    norms[:8] = 1.0
    start = rng.normal(size=(16, 4)) * 2
    return norms, start, flow_classes(rate, start, _TIMES, norms)


class C20(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """Every pair of classes, orthogonal outputs of any length: the drift along the flow."""
        *_, w = _flows(seed)
        early = _TIMES <= 10.0  # later e^-w grows without bound
        cases = {"tolerance": _SOLVER, "run": np.arange(16)[:, None], "time": _TIMES[early]}
        for i, j in ((1, 2), (0, 1)):
            value = printed.invariant(w[:, early], i, j)
            yield equal(value, value[:, :1], **cases)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        norms, start, w = _flows(seed)
        for run in range(16):
            exponential, linear = multiclass.invariants(w[run], norms[run])
            size = 1 + np.exp(-w[run, :, 1:]).max(1, keepdims=True) / norms[run].min() ** 2
            yield equal(exponential / size, exponential[:1] / size, tolerance=_SOLVER, run=run)
            yield equal(linear, linear[0], tolerance=_SOLVER, run=run, time=_TIMES)
        steps = descend_classes(np.ones(16), 1.0, start, steps_to(64), norms)
        for run in range(16):
            _, linear = multiclass.invariants(steps[run], norms[run])
            yield equal(linear, linear[0], tolerance=1e-12, run=run)

    def certificates(self) -> list[Certificate]:
        def drift(norms: list[int], i: int, j: int) -> fmpq:
            """d/dt (e^-w_i - e^-w_j) at W = 0, from the exact velocities of three classes."""
            force = [norm * ((index == 0) - fmpq(1, 3)) for index, norm in enumerate(norms)]
            return -force[i] + force[j]

        return [
            Certificate("d/dt (e^{−w_2} − e^{−w_3}) = 0 at W = 0, squared norms (1, 1, 4), p‖e‖² = 1", drift([1, 1, 4], 1, 2), "==", fmpq(0)),
            Certificate("d/dt (e^{−w_1} − e^{−w_2}) = 0 at W = 0, orthonormal, target 1", drift([1, 1, 1], 0, 1), "==", fmpq(0)),
        ]  # fmt: skip


class C21(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C21")
        for index in range(20):
            rate = 10 ** rng.uniform(-1, 1)
            problem, w = _family(rng, np.ones(4), rate), rng.normal(size=(1, 4)) * 3
            force = particles.force(problem, w)
            told = multiclass.margin_velocity(w, np.array([rate]))
            yield equal(force[:, :1] - force[:, 1:], told, tolerance=1e-13, model=index)
            c = np.exp(w[0, 1:] - w[0, 1:].max()).sum()
            yield at_least(c, 1.0, model=index)
            yield at_most(c, 3.0, model=index)


@functools.lru_cache(maxsize=2)
def _limits(seed: int) -> tuple[Problem, np.ndarray, np.ndarray, np.ndarray]:
    """Three tokens, three classes, a random start: the whole W_t, put together from its tokens."""
    rng = rng_for(seed, "C22")
    problem = orthonormal(3, 3, dim=4, probs=[0.7, 0.2, 0.1], targets=[0, 1, 1], key=seed)
    start = rng.normal(size=(4, 4)) * 2
    E, U = problem.inputs, problem.outputs
    order = np.array([[y, *np.delete(np.arange(3), y)] for y in problem.targets])
    first = np.einsum("xid,de,xe->xi", U[order], start, E)
    w = flow_classes(problem.probs, first, _TIMES)
    moved = np.einsum("xti,xid,xe->tde", w - first[:, None], U[order], E)
    late = _TIMES >= 1e3
    return problem, start, _TIMES[late], start + moved[late]


class C22(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        problem, start, times, W = _limits(seed)
        D = multiclass.limit_direction(problem)
        # W_t - log(t) D stays near what the asymptote has at t = 1: bounded, so the direction is D.
        rest = np.linalg.norm(W - np.log(times)[:, None, None] * D, axis=(1, 2))
        bound = np.linalg.norm(multiclass.asymptotic_weights(1.0, problem, start))
        yield at_most(rest[-8:], 1.05 * bound, time=times[-8:])
        cosine = np.einsum("tij,ij->t", W, D) / np.sqrt((W**2).sum((1, 2)) * (D**2).sum())
        yield at_least(np.diff(cosine), 0.0, time=times[1:])
        wrong = np.arange(3)[None, :] != problem.targets[:, None]
        yield equal(memory.class_margins(problem, D)[wrong], 1.0, tolerance=1e-12)
        yield equal(max_margin(problem), D, tolerance=1e-6)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        """W_t against its asymptote, with the error's own rate t^(-1/M)."""
        problem, start, times, W = _limits(seed)
        told = np.stack([multiclass.asymptotic_weights(t, problem, start) for t in times])
        error = np.abs(W - told).max((1, 2)) * times ** (1 / 3)
        yield at_most(error[-1], 1.2 * error[-3], time=times[-1])
        # The error's rate itself, far beyond any solver, from the exact implicit solution.
        far = np.exp(np.array([40.0, 60.0, 80.0]))
        w = multiclass.flow_scores_from(far, 1.0, [0.3, 1.0, -2.0])
        rest = np.abs(w[:, :1] - w[:, 1:] - np.log(3 * far)[:, None]).max(1) * far ** (1 / 3)
        yield equal(rest[1:] / rest[0], 1.0, tolerance=1e-3, time=far[1:])
        four = np.array([0.3, 1.0, -2.0, 0.5])
        ran, solved = flow_classes(np.ones(1), four[None], _TIMES)[0], multiclass.flow_scores_from(_TIMES, 1.0, four)  # fmt: skip
        yield equal(solved, ran, tolerance=_SOLVER, time=_TIMES[:, None])


def _coefficient(times: np.ndarray, M: int) -> np.ndarray:
    """<W_t, D>/|D|^2 for one token from zero: the margin itself, since W_t = m_t D."""
    w = flow_classes(np.ones(1), np.zeros((1, M)), times)[0]
    return w[:, 0] - w[:, 1]


class C23(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for M in (3, 4):
            slope = _coefficient(_TIMES, M)[-1:] / np.log(_TIMES[-1:])
            yield equal(slope, printed.direction_constant(M), tolerance=0.05, classes=M)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        for M in (3, 4):
            slope = _coefficient(_TIMES, M)[-1:] / np.log(M * _TIMES[-1:])
            yield equal(slope, 1.0, tolerance=1e-9, classes=M)
        for M in _CLASSES:
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
        t = _TIMES[8:]
        constant = np.full(len(t), printed.direction_constant(3))
        series = {"true": _coefficient(_TIMES, 3)[8:] / np.log(t), "printed": constant, "corrected": np.log(3 * t) / np.log(t)}  # fmt: skip
        title = "coefficient of W_t along Π(u_1) ⊗ e, over log t (M = 3)"
        return Curves(title, ("time", t), series, "⟨W_t, D⟩/(‖D‖² log t)", log_x=True)


class C24(Checks):
    @all_of
    def _increments(self, seed: int, start: float) -> Iterator[Evidence]:
        rng = rng_for(seed, "C24")
        for index in range(20):
            rate, eta = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-3, 2)
            problem, w = _family(rng, np.ones(4), rate), rng.normal(size=(1, 4)) * 3
            force = eta * particles.force(problem, w)
            told = multiclass.descent_margin_steps(w, np.array([rate]), eta)
            yield equal(force[:, :1] - force[:, 1:], told, tolerance=1e-12, model=index)
            yield at_least(told, 0.0, model=index)
        # Margins after up to 50 steps, against those of a learning rate 10 % smaller.
        x, at = np.geomspace(1e-3, 1e4, 96), np.arange(51)
        gains = np.diff(descend_token(x, np.ones(96), at, start), axis=0)
        yield at_least(gains, 0.0, learning_rate_times_rate=x[1:, None], step=at[None, :])

    printed = partialmethod(_increments, start=-10.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._increments(seed, start=0.0)
        # Two steps from zero with M classes: monotone in x = ηk up to M = 198, and not at 199.
        x = np.linspace(1e-3, 30.0, 100_000)
        for M, is_monotone in ((2, True), (100, True), (198, True), (199, False), (1000, False)):
            steps = descend_classes(np.ones(1), 1.5, np.zeros((1, M)), np.arange(3))[0, 2]
            two = lambda x, M=M: x + x * M / (np.exp(x) + M - 1)
            yield equal(steps[0] - steps[1], two(1.5), tolerance=1e-12, classes=M)
            yield true((np.diff(two(x)) > 0).all() == is_monotone, classes=M)

    def certificates(self) -> list[Certificate]:
        slow, fast = (descent_margins(x, 2, -10)[2] for x in (fmpq(19, 2), fmpq(21, 2)))
        statement = "M = 2, m_0 = −10, two steps: ηc = 10.5 is at least as far as 9.5"
        two = lambda x: x + x * 1000 / (arb(x).exp() + 999)
        many = "M = 1000, from zero, two steps: ηk = 7.5 is at least as far as 6.5"
        return [
            Certificate(statement, fast, ">=", slow),
            Certificate(many, two(fmpq(15, 2)), ">=", two(fmpq(13, 2))),
        ]

    def curves(self) -> Curves:
        x = np.linspace(0.5, 20, 96)
        margin = descend_token(x, np.ones(96), np.arange(51), -10.0)[:, 2]
        title = "margin after two steps from m_0 = −10 (M = 2)"
        return Curves(title, ("η c", x), {"true": margin}, "margin")


class C25(Checks):
    def _one_step(self, seed: int, rates) -> np.ndarray:
        """Whether one step from random scores gives perfect accuracy, for multiples of the threshold."""
        rng, right = rng_for(seed, "C25"), []
        for _ in range(200):
            p, y = rng.dirichlet(np.ones(3)) * 0.9 + 0.1 / 3, rng.integers(0, 4, 3)
            problem = orthonormal(3, 4, probs=p, targets=y)
            w = rng.normal(size=(3, 4)) * 10 ** rng.uniform(-1, 1.5)
            etas = rates(multiclass.one_step_threshold(problem, w))
            force = particles.force(problem, w)
            right.append([(particles.margins(problem, w + eta * force) > 0).all() for eta in etas])
        return np.array(right)

    def printed(self, seed: int) -> Evidence:
        return true(self._one_step(seed, lambda _: (1.0,))[:, 0])

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        # A threshold below zero means perfect already: any step keeps it so, and there is nothing below it.
        near = lambda eta: (eta * (1 + 1e-6), eta * (1 - 1e-6)) if eta > 0 else (1.0, np.nan)
        above, below = self._one_step(seed, near).T
        yield true(above)
        yield true(~below)
        rng = rng_for(seed, "C25")
        for _ in range(20):
            problem = random_problem(rng, 3, 4, 5, orthogonal=True)
            problem = Problem(problem.inputs, np.eye(4, 5), problem.probs, problem.targets)
            W = -(10 ** rng.uniform(-6, 4)) * memory.grad(problem, np.zeros((5, 5)))
            yield true(memory.error_rate(problem, W) == 0)

    def certificates(self) -> list[Certificate]:
        target, other = arb(-50).exp() / (arb(-50).exp() + 2), 1 / (arb(-50).exp() + 2)
        statement = "M = 3, w_0 = (−50, 0, 0), p‖e‖² = 1, η = 1: the margin after one step is at least 0"  # fmt: skip
        return [Certificate(statement, -50 + (1 - target + other), ">=", fmpq(0))]


class C26(Checks):
    @all_of
    def _early(self, seed: int, form) -> Iterator[Evidence]:
        rng = rng_for(seed, "C26")
        for index in range(20):
            problem = random_problem(rng, 4, 3, 5)
            first = -memory.grad(problem, np.zeros((5, 5)))
            yield equal(form(1.0, problem), first, tolerance=1e-13, model=index)

    def printed(self, seed: int) -> Evidence:
        return self._early(seed, printed.early_weights)

    def corrected(self, seed: int) -> Evidence:
        return self._early(seed, multiclass.early_weights)

    def certificates(self) -> list[Certificate]:
        # That of u_1 in Σ_z p_W(z) (u_1 − u_z) at W = 0.
        coefficient = sum((fmpq(1, 2) * (1 - (z == 0)) for z in range(2)), fmpq(0))
        statement = "M = 2, orthonormal, one token: the coefficient of u_1 ⊗ e in −∇L(0) is p = 1"
        return [Certificate(statement, coefficient, "==", fmpq(1))]


@functools.lru_cache(maxsize=2)
def _descents(seed: int) -> list[tuple]:
    """Descents from zero for each number of classes: M, learning rates, steps, scores."""
    rng, runs = rng_for(seed, "C27"), []
    for M in _CLASSES:
        at = steps_to(1_000_000 if M < 10 else 100_000, dense=64, sparse=32)
        eta = 10 ** rng.uniform(-3, 4, 8)
        eta[0] = 1.0
        runs.append((M, eta, at, descend_classes(np.ones(8), eta, np.zeros((8, M)), at)))
    return runs


class C27(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """The margin over log(M eta k t), and a random start's margins drawing level."""
        for M, eta, at, w in _descents(seed):
            ratio = (w[0, -1, 0] - w[0, -1, 1]) / np.log(M * eta[0] * at[-1])
            yield equal(ratio, 1.0, tolerance=M * 20 / at[-1] + 1e-4, classes=M)
        at = _descents(seed)[1][2]
        w = descend_classes(np.ones(8), 1.0, np.tile([0.0, 1.0, -1.0], (8, 1)), at)
        gap = np.abs(w[0, :, 1] - w[0, :, 2])
        yield at_most(gap[-1] * 1e6 ** (1 / 3), 1.3 * gap[-9] * at[-9] ** (1 / 3))

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        for M, eta, at, w in _descents(seed):
            m, rates = w[:, :, 0] - w[:, :, 1], eta[:, None]
            told = multiclass.descent_margin_bound(at[None, :], 1.0, rates, M)
            cases = {"classes": M, "learning_rate": rates, "step": at[None, :]}
            yield at_least(m, told, tolerance=MANY_STEPS, **cases)
            yield equal(m[:, 1], eta, classes=M, learning_rate=eta)

    def curves(self) -> Curves:
        _, _, at, w = _descents(0)[-1]
        bound = multiclass.descent_margin_bound(at[1:], 1.0, 1.0, 100)
        series = {"true": w[0, 1:, 0] - w[0, 1:, 1], "corrected": bound}
        title = "margin under descent from zero, M = 100, η = 1"
        return Curves(title, ("step", at[1:]), series, "margin", log_x=True)
