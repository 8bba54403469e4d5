"""C28 to C32: one step of two tokens that interfere."""

from collections.abc import Iterator
from functools import partialmethod

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import first_step, pair_descent, sigma
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, all_of, at_least, equal, true
from engram.audits._parameters import pairs, random_weights, rng_for
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims._pair_runs import RUNS, descents
from engram.capacity import max_margin
from engram.problem import Problem, two_tokens
from engram.theory import interference, printed


def _random_pairs(seed: int, name: str) -> Iterator[tuple[Problem, np.ndarray, dict[str, float]]]:
    """Two tokens, weights, and the parameters by name."""
    rng = rng_for(seed, name)
    drawn = pairs(rng, 30, rates=(1e-2, 1e2))
    for alpha, p1, contrast, eta in zip(*drawn, strict=True):
        inputs = [[1.0, 0.0], [alpha, np.sqrt((1 - alpha) * (1 + alpha))]]
        problem = Problem(inputs, np.sqrt(contrast / 2) * np.eye(2), [p1, 1 - p1], [0, 1])
        names = {"learning_rate": eta, "correlation": alpha, "p1": p1, "contrast": contrast}
        yield problem, random_weights(rng, 2, 5.0), names


class C28(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for problem, W, at in _random_pairs(seed, "C28"):
            step = -at["learning_rate"] * memory.grad(problem, W)
            told = np.array(interference.descent_step(*memory.margins(problem, W), **at))
            del at["learning_rate"]
            yield equal(memory.margins(problem, W + step), told, tolerance=1e-12, **at)


class C29(Checks):
    def _one_step_learns(self, seed: int, scale: float) -> Evidence:
        rng = rng_for(seed, "C29")
        drawn = pairs(rng, RUNS)
        drawn = drawn._replace(correlation=-np.abs(drawn.correlation))
        m = descend_pairs(*drawn, np.arange(257), scale * rng.normal(size=(RUNS, 2)))[:, 1]
        at = drawn._asdict()
        del at["contrast"]
        return true((m > 0).all(1), **at)

    def printed(self, seed: int) -> Evidence:
        return self._one_step_learns(seed, 5.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        """From zero: perfect after one step exactly where α < p_2/p_1; monotone for α ≤ 0."""
        yield self._one_step_learns(seed, 0.0)
        drawn = pairs(rng_for(seed, "C29 condition"), RUNS)
        m = descend_pairs(*drawn, np.arange(257))
        alpha, rest = drawn.correlation, drawn.correlation <= 0
        told = interference.is_learned_in_one_step(alpha, drawn.p1)
        yield true((m[:, 1] > 0).all(1) == told, correlation=alpha, p1=drawn.p1)
        yield at_least(np.diff(m[rest], axis=1), 0.0, correlation=alpha[rest, None, None])

    def certificates(self) -> list[Certificate]:
        # One step adds at most c eta (1 + 1/2)/2.
        after = -50 + 2 * (arb(fmpq(1, 2)) * sigma(arb(-50)) * fmpq(3, 2))
        statement = "α = −1/2, p_1 = 1/2, c = 2, η = 1, both margins −50: positive after one step"
        return [Certificate(statement, after, ">", fmpq(0))]


class C30(Checks):
    @all_of
    def _cone(self, seed: int, sign: float) -> Iterator[Evidence]:
        """The coefficients of the update of Wᵀ(u_1 − u_2) along e_1 and e_2."""
        for problem, W, at in _random_pairs(seed, "C30"):
            push = -memory.grad(problem, W).T @ (problem.outputs[0] - problem.outputs[1])
            first, second = np.linalg.lstsq(problem.inputs.T, push, rcond=None)[0]
            yield at_least(first, 0.0, tolerance=1e-9, correlation=at["correlation"])
            yield at_least(sign * second, 0.0, tolerance=1e-9, correlation=at["correlation"])

    printed = partialmethod(_cone, sign=1.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._cone(seed, sign=-1.0)
        for problem, W, at in _random_pairs(seed, "C30"):
            rise = memory.margins(problem, -memory.grad(problem, W))
            if at["correlation"] <= 0:
                yield at_least(rise, 0.0, correlation=at["correlation"])

    def certificates(self) -> list[Certificate]:
        statement = "α = 0, p = (1/2, 1/2), W = 0, c = 1: the e_2-coefficient is at least 0"
        return [Certificate(statement, -arb(fmpq(1, 2)) * sigma(arb(0)), ">=", fmpq(0))]


class C31(Checks):
    @all_of
    def _half_velocity(self, seed: int, form) -> Iterator[Evidence]:
        for problem, W, at in _random_pairs(seed, "C31"):
            del at["learning_rate"]
            rise = interference.halves(*memory.margins(problem, -memory.grad(problem, W)))
            told = form(*interference.halves(*memory.margins(problem, W)), **at)
            del at["contrast"]
            yield equal(rise, np.array(told), tolerance=1e-12, **at)

    def printed(self, seed: int) -> Evidence:
        return self._half_velocity(seed, printed.half_velocity)

    def corrected(self, seed: int) -> Evidence:
        return self._half_velocity(seed, interference.flow_velocity)

    def certificates(self) -> list[Certificate]:
        half_sum = sum(pair_descent(fmpq(1, 2), fmpq(3, 4), 2, 1, 1)[1], arb(0)) / 2
        statement = "α = 1/2, c = 2, p_1 = 3/4, W = 0: dγ_2/dt, from the margins' first step, is c(1−α)(p_1 + p_2)/2"
        return [Certificate(statement, half_sum, "==", 2 * (1 - fmpq(1, 2)) * sigma(arb(0)))]


class C32(Checks):
    @all_of
    def _sum_grows(self, seed: int) -> Iterator[Evidence]:
        run = descents(seed)
        # Large steps may leave later ones below rounding, so that "increases" is seen as "does not fall".
        yield at_least(np.diff(run.half_sum, axis=1), 0.0, correlation=run.alpha)
        yield true(run.half_sum[:, 1] > 0, correlation=run.alpha[:, 0])

    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        yield self._sum_grows(seed)
        m = descend_pairs(np.ones(RUNS), 0.75, 2.0, 1.0, np.arange(257))
        rises = np.diff(m.mean(2)[:, :64], axis=1) > 1e-12  # rounding of a constant
        yield true(rises, correlation=1.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._sum_grows(seed)
        for alpha in (-0.9, -0.3, 0.5, 0.95):
            problem = two_tokens(alpha, 0.75)
            W = interference.max_margin(problem)
            yield equal(max_margin(problem), W, tolerance=1e-6, correlation=alpha)
            yield equal(np.linalg.norm(W), interference.max_margin_norm(alpha), correlation=alpha)
            yield equal(memory.margins(problem, W), 1.0, correlation=alpha)

    def certificates(self) -> list[Certificate]:
        half_sum = sum(first_step(fmpq(1), fmpq(3, 4), 2, 1), fmpq(0)) / 2
        statement = "α = 1, p_1 = 3/4, c = 2, η = 1: γ_2 is still 0 after one step"
        return [proof(statement, half_sum, "==", fmpq(0))]
