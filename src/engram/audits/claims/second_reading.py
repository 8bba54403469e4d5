"""C57 to C66: statements between the theorems and in the appendix that a second reading added."""

import functools
from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import memory, particles
from engram.audits._balls import pair_descent
from engram.audits._certificate import Certificate
from engram.audits._evidence import (
    MANY_STEPS,
    Evidence,
    all_of,
    at_least,
    at_most,
    between,
    equal,
    true,
)
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits._runs import descend_token
from engram.audits.claims._checks import Checks
from engram.audits.claims._pair_runs import ALPHAS, RATES, descents, flows, late_descents
from engram.capacity import calibration, is_separable, loss_minimiser
from engram.problem import Problem, two_tokens, zipf
from engram.theory import binary, interference, multiclass


class C57(Checks):
    def _away(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The distances to γ̄ at η = 1 for a few correlations, at each step."""
        at, half_gap, _ = late_descents()
        chosen = [1, 3, 4]
        return ALPHAS[chosen], at, np.abs(half_gap[chosen, 7] - np.log(3) / 2)

    def printed(self, seed: int) -> Evidence:
        """For O(1/t) at all late times, t |γ_1 − γ̄| must stay bounded."""
        alpha, at, away = self._away()
        early = np.argmin(np.abs(at - 10_000))
        growth = away[:, -1] * at[-1] / (away[:, early] * at[early])
        return at_most(growth, 1.1, correlation=alpha)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = descents(seed)
        away = (run.half_gap - np.log(run.p1 / (1 - run.p1)) / 2)[:, :257]
        crosses = away[:, 1:] * away[:, :-1] < 0
        least = run.half_sum[:, :256] - np.abs(run.half_gap[:, :256])
        reach = (
            run.eta * run.c / 2 * (1 + run.alpha) * run.p1 / (1 + np.exp(np.minimum(least, 700)))
        )
        at = {"correlation": np.broadcast_to(run.alpha, crosses.shape)[crosses]}
        yield at_most(np.abs(away[:, 1:])[crosses], reach[crosses], tolerance=MANY_STEPS, **at)
        alpha, at, away = self._away()
        early = np.argmin(np.abs(at - 100_000))
        slope = np.log(away[0, -1] / away[0, early]) / np.log(at[-1] / at[early])
        yield equal(slope, -interference.half_gap_exponent(-0.5), tolerance=0.02, correlation=-0.5)
        rate = interference.half_gap_deviation_asymptote(at[-1], alpha[1:], 0.75)
        yield equal(away[1:, -1] / rate, 1.0, tolerance=0.02, correlation=alpha[1:])


class C58(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        at, _, half_sum = late_descents()
        last, rates = half_sum[2:5, :15, -1], RATES[:15]
        yield at_least(np.diff(last, axis=1), 0.0, learning_rate=rates[1:])
        # One curve of ηt: at equal ηt the runs of all rates have the same half-sum.
        shift = last - np.log(rates * at[-1])
        yield equal(shift - shift[:, :1], 0.0, tolerance=1e-2, learning_rate=rates)

    def corrected(self, seed: int) -> Evidence:
        at, _, half_sum = late_descents()
        alpha, rates = ALPHAS[2:5, None], RATES[:15]
        limit = interference.half_sum_asymptote(rates * at[-1], alpha, 0.75)
        return equal(half_sum[2:5, :15, -1], limit, tolerance=1e-3, correlation=alpha)


def _in_the_plane(angles: list[float], probs: list[float]) -> Problem:
    """Unit tokens of one class, by angle: each is recalled in a half-plane of (u_1 − u_2)ᵀW."""
    inputs = np.stack([np.cos(angles), np.sin(angles)], 1)
    return Problem(inputs, np.eye(2), probs, np.zeros(len(angles), int))


class C59(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """Five rare tokens nearly opposite to a frequent one: stored at first, erased in the end."""
        angles = [0.0, *(np.pi + np.array([-0.2, -0.1, 0.0, 0.1, 0.2]))]
        problem = _in_the_plane(angles, [0.55, *[0.09] * 5])
        forgotten = calibration(problem).forgotten
        yield true(np.array_equal(forgotten, np.arange(1, 6)))
        W = np.array([[-0.5, 0.0], [0.5, 0.0]])
        yield true(memory.margins(problem, W)[1:] > 0)
        for _ in range(200):
            W = W - memory.grad(problem, W)
        yield true(memory.margins(problem, W)[1:] < 0)
        yield true(memory.margins(problem, W)[0] > 0)


class C60(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        problem = _in_the_plane([-2.87, 2.15, 0.18, -0.14], [0.36, 0.26, 0.19, 0.19])
        end = calibration(problem)
        yield true(0 in end.forgotten)
        yield at_least(end.excess, 0.1)
        W, margins = np.zeros((2, 2)), []
        for _ in range(2000):  # small steps: a flow to t = 200
            W = W - 0.1 * memory.grad(problem, W)
            margins.append(memory.margins(problem, W)[0])
        margins = np.array(margins)
        turn = int(np.argmax(margins <= 0))  # the first step at which it is forgotten
        yield true(turn > 0 and (margins[:turn] > 0).all() and (margins[turn:] <= 0).all())
        yield equal(W, end.minimiser.weights, tolerance=1e-3)


@functools.lru_cache(maxsize=6)
def _figure_6(seed: int, d: int, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Figure 6 for 96 draws, written out: margins, shape (draws, steps, 5), and losses."""
    rng, p, own = rng_for(seed, f"C61 {d}"), np.asarray(zipf(5), float), np.eye(5, dtype=bool)
    E, U = rng.normal(size=(2, 96, 5, d))
    E, U = (x / np.linalg.norm(x, axis=2, keepdims=True) for x in (E, U))
    across, up = E @ E.transpose(0, 2, 1), U @ U.transpose(0, 2, 1)
    w, margins, losses = np.zeros((96, 5, 5)), [], []
    for _ in range(100):
        q = np.exp(w - w.max(2, keepdims=True))
        q /= q.sum(2, keepdims=True)
        w = w + eta * across @ (p[:, None] * (own - q)) @ up
        lead = np.diagonal(w, axis1=1, axis2=2) - np.where(own, -np.inf, w).max(2)
        margins.append(lead)
        losses.append(
            (p * np.log(np.exp(w - np.diagonal(w, axis1=1, axis2=2)[..., None]).sum(2))).sum(1)
        )
    return np.stack(margins, 1), np.stack(losses, 1)


class C61(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """Means over draws, less three standard errors, are positive."""
        sure = lambda gains: at_least(gains.mean() - 3 * gains.std() / np.sqrt(len(gains)), 0.0)
        turns = lambda m: (np.diff(np.sign(np.diff(m, axis=1)), axis=1) != 0).sum((1, 2))
        for d in (3, 5, 10):
            (margins, losses), (_, fast) = _figure_6(seed, d, 1.0), _figure_6(seed, d, 10.0)
            yield sure(margins[:, 29, 0] - margins[:, 29, 4])
            yield sure(losses[:, -1] - fast[:, -1])
        (calm, _), (low, _), (high, _) = (_figure_6(seed, *case) for case in ((3, 1.0), (3, 10.0), (10, 10.0)))  # fmt: skip
        yield sure(turns(low) - turns(calm))
        yield sure(turns(low) - turns(high))
        yield sure(high[:, -1].min(1) - low[:, -1].min(1))


class C62(Checks):
    def _sandwich(self, seed: int, lower: int, upper: int) -> Iterator[Evidence]:
        """dt/dm against both sides, which have M + lower and M + upper where the paper has M + 1 and M."""
        rng = rng_for(seed, "C62")
        for index in range(60):
            M = int(rng.integers(3, 12))
            w = rng.normal(size=(1, M)) * 10 ** rng.uniform(-1, 1)
            if index % 3 == 0:
                w[0, 2] = w[0, 1:].max()  # a tie
                w[0, 1] = w[0, 2]
            k = 1 + int(w[0, 1:].argmax())
            tied, m = (w[0, 1:] == w[0, k]).sum(), w[0, 0] - w[0, k]
            pace = 1 / multiclass.margin_velocity(w, np.ones(1))[0, k - 1]
            low = np.exp(m) / (M + lower) + tied / (tied + 1)
            high = np.exp(m) / (tied + 1) + (M + upper) / (M + upper + 1)
            yield between(low, pace, high, classes=M)

    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        yield from self._sandwich(seed, 1, 0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield from self._sandwich(seed, 0, -1)


class C63(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C63")
        for index in range(10):
            for M, orthogonal in ((2, True), (3, True), (2, False)):
                problem = random_problem(rng, 3, M, 4, orthogonal=orthogonal)
                w, other = rng.normal(size=(2, 3, M))
                velocity = lambda w, problem=problem: _margin_velocity(problem, w)
                # All scores but those that make up one margin of token 0 are changed.
                wrong = int(np.flatnonzero(np.arange(M) != problem.targets[0])[0])
                mixed, own = other.copy(), [problem.targets[0], wrong]
                mixed[0, own] = w[0, own]
                moved = velocity(mixed)[0, wrong] - velocity(w)[0, wrong]
                yield true((abs(moved) < 1e-12) == (M == 2 and orthogonal), model=index)
                # The margins decide their own drift: a shift of a token's scores changes nothing.
                shifted = w + rng.normal(size=(3, 1))
                yield equal(velocity(shifted), velocity(w), tolerance=1e-12, model=index)


def _margin_velocity(problem: Problem, w: np.ndarray) -> np.ndarray:
    force = np.asarray(particles.force(problem, w))
    return np.take_along_axis(force, np.asarray(problem.targets)[:, None], 1) - force


class C64(Checks):
    def _late_losses(self, seed: int) -> tuple[np.ndarray, ...]:
        """X = ηc, starts, the first step with a margin that is not negative, and x (t − t_0) times the loss."""
        rng, steps = rng_for(seed, "C64"), np.arange(4001)
        x, start = 10 ** rng.uniform(-1.5, 2, 96), rng.uniform(-4, -0.1, 96)
        x[0], start[0] = 0.1, -1.0
        m = descend_token(x, np.ones(96), steps, start)
        first = np.where((m >= 0).any(1), (m >= 0).argmax(1), 4001)
        after = np.maximum(steps[None, :] - first[:, None], 0)
        return x, start, first, after * x[:, None] * np.logaddexp(0.0, -m)

    def printed(self, seed: int) -> Evidence:
        x, start, _, scaled = self._late_losses(seed)
        at = {"learning_rate_times_rate": x[:, None], "start": start[:, None]}
        return at_most(scaled, 1.0, **at)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        x, start, first, scaled = self._late_losses(seed)
        yield at_most(scaled, binary.LOSS_CONSTANT, start=start[:, None])
        reached = first <= 4000
        latest = 1 + (1 - start - np.exp(start)) / x
        yield at_most(first[reached], latest[reached], start=start[reached])


class C65(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        problem = two_tokens(0.95, 0.75)
        for eta, spikes in ((10.0, True), (1.0, False)):
            W, losses, errors = np.zeros((2, 2)), [], []
            for _ in range(35):
                W = W - eta * memory.grad(problem, W)
                losses.append(memory.loss(problem, W))
                errors.append(memory.error_rate(problem, W))
            top = int(np.argmax(losses))
            yield true((losses[top] > np.log(2)) == spikes, learning_rate=eta)
            yield true(not spikes or errors[top] == 0.25)
        rng = rng_for(seed, "C65")
        for index in range(10):
            problem, W = random_problem(rng, 4, 2, 2), random_weights(rng, 2, 3.0)
            u, G = problem.outputs[1] - problem.outputs[0], memory.grad(problem, W)
            # Along the flow L falls at |∇L|², which is speed times density of level lines in the plane.
            speed, density = np.linalg.norm(u @ G), np.linalg.norm(G) / np.linalg.norm(u)
            yield equal(speed, (u @ u) * density, tolerance=1e-12, model=index)
            yield true(loss_minimiser(problem).exists <= (not is_separable(problem)))
        yield true(loss_minimiser(two_tokens(1.0, 0.75)).exists)
        yield true(not loss_minimiser(two_tokens(0.95, 0.75)).exists)


class C66(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """The flow's constants for descent at time ηt; and tokens that are learnt evenly are learnt first."""
        run = descents(seed)
        c2 = 8 * (1 - run.alpha) * run.c * run.p1**3 / (1 - run.p1) ** 2
        at = {"correlation": run.alpha, "p1": run.p1, "learning_rate": run.eta, "step": run.at}
        yield at_most(run.half_sum, np.log1p(c2 * run.eta * run.at), tolerance=MANY_STEPS, **at)
        yield from self._curated(seed)

    def _curated(self, seed: int) -> Iterator[Evidence]:
        """Until every margin is 1, orthonormal embeddings: uniform frequencies are the fastest."""
        rng = rng_for(seed, "C66")
        margins = lambda p, t: binary.flow_margin(t, 2 * p)
        for N in (2, 5, 20):
            even = (1 - 1 + np.e) / (2 / N)  # G(1) - G(0) over the rate
            yield equal(margins(1 / N, even), 1.0, tokens=N)
            p = rng.dirichlet(np.ones(N), 50)
            yield at_most(margins(p, even).min(1), 1.0, tokens=N)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = flows(seed)
        low, high = interference.half_sum_bounds(run.at, run.alpha, run.p1, run.c)
        yield between(low, run.half_sum, high, tolerance=1e-8)
        run = descents(seed)
        bound = interference.descent_half_sum_bound(run.at, run.eta, run.alpha, run.p1, run.c)
        yield at_least(run.half_sum, bound, tolerance=MANY_STEPS)
        yield from self._curated(seed)

    def certificates(self) -> list[Certificate]:
        first = sum(pair_descent(fmpq(19, 20), fmpq(3, 4), 2, 1000, 1)[1], arb(0)) / 2
        c2 = 8 * fmpq(1, 20) * 2 * fmpq(27, 64) * 16
        statement = "α = .95, p_1 = 3/4, c = 2, η = 1000, t = 1: γ_2 ≤ log(c_2 ηt + 1), the flow's upper bound"
        return [Certificate(statement, first, "<=", (1 + 1000 * arb(c2)).log())]
