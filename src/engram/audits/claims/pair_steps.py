"""C28 to C32: one step of two tokens that interfere."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import first_step, pair_descent, precisely, sigma
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, at_least, both, equal, true
from engram.audits._parameters import pairs, random_weights, rng_for
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims._pair_runs import RUNS, descents
from engram.capacity import max_margin
from engram.problem import Problem, two_tokens
from engram.theory import interference, printed


def _random_pairs(seed: int, name: str, count: int = 30):
    rng = rng_for(seed, name)
    drawn = pairs(rng, count, rates=(1e-2, 1e2))
    for alpha, p1, contrast, eta in zip(*drawn, strict=True):
        inputs = [[1.0, 0.0], [alpha, np.sqrt((1 - alpha) * (1 + alpha))]]
        problem = Problem(inputs, np.sqrt(contrast / 2) * np.eye(2), [p1, 1 - p1], [0, 1])
        yield (
            problem,
            random_weights(rng, 2, 5.0),
            float(alpha),
            float(p1),
            float(contrast),
            float(eta),
        )


@all_of
def _one_step(seed: int) -> Iterator[Evidence]:
    for problem, W, alpha, p1, contrast, eta in _random_pairs(seed, "C28"):
        m = np.asarray(memory.margins(problem, W))
        step = -eta * np.asarray(memory.grad(problem, W))
        moved = np.asarray(memory.margins(problem, W + step))
        told = np.array(interference.descent_step(m[0], m[1], eta, alpha, p1, contrast))
        yield equal(moved, told, tolerance=1e-12, correlation=alpha, p1=p1, contrast=contrast)


C28 = Checks(_one_step)


@all_of
def _cone(seed: int, sign: float) -> Iterator[Evidence]:
    """The coefficients of the update of Wᵀ(u_1 − u_2) along e_1 and e_2."""
    for problem, W, alpha, *_ in _random_pairs(seed, "C30"):
        u = problem.outputs[0] - problem.outputs[1]
        push = -np.asarray(memory.grad(problem, W)).T @ u
        first, second = np.linalg.lstsq(problem.inputs.T, push, rcond=None)[0]
        yield at_least(first, 0.0, tolerance=1e-9, correlation=alpha)
        yield at_least(sign * second, 0.0, tolerance=1e-9, correlation=alpha)


C30 = Checks(
    lambda seed: _cone(seed, 1.0),
    corrected=lambda seed: _cone(seed, -1.0),
    certificates=precisely(lambda: [Certificate(
        "α = 0, p = (1/2, 1/2), W = 0, c = 1: the e_2-coefficient is at least 0", -arb(fmpq(1, 2)) * sigma(arb(0)), ">=", fmpq(0))]),
)  # fmt: skip


@all_of
def _half_velocity(seed: int, form) -> Iterator[Evidence]:
    for problem, W, alpha, p1, contrast, _ in _random_pairs(seed, "C31"):
        m = np.asarray(memory.margins(problem, W))
        rise = np.asarray(memory.margins(problem, -np.asarray(memory.grad(problem, W))))
        told = form(*interference.halves(*m), alpha, p1, contrast)
        yield equal(
            interference.halves(*rise), np.array(told), tolerance=1e-12, correlation=alpha, p1=p1
        )


C31 = Checks(
    lambda seed: _half_velocity(seed, printed.half_velocity),
    corrected=lambda seed: _half_velocity(seed, interference.flow_velocity),
    certificates=precisely(lambda: [Certificate(
        "α = 1/2, c = 2, p_1 = 3/4, W = 0: dγ_2/dt, from the margins' first step, is c(1−α)(p_1 + p_2)/2",
        sum(pair_descent(fmpq(1, 2), fmpq(3, 4), 2, 1, 1)[1], arb(0)) / 2, "==", 2 * (1 - fmpq(1, 2)) * sigma(arb(0)))]),
)  # fmt: skip


# --- C29, C32 ---


def _one_step_learns(seed: int, *, from_zero: bool) -> Evidence:
    rng = rng_for(seed, "C29")
    drawn = pairs(rng, RUNS)
    alpha = -np.abs(drawn.correlation)
    start = np.zeros((RUNS, 2)) if from_zero else rng.normal(size=(RUNS, 2)) * 5
    m = descend_pairs(alpha, *drawn[1:], np.arange(257), start)[:, 1]
    return true((m > 0).all(1), correlation=alpha, p1=drawn.p1, learning_rate=drawn.learning_rate)


def _exact_condition(seed: int) -> Evidence:
    """From zero: perfect after one step exactly where α < p_2/p_1; monotone for α ≤ 0."""
    rng = rng_for(seed, "C29 condition")
    drawn = pairs(rng, RUNS)
    m = descend_pairs(*drawn, np.arange(257))
    told = np.asarray(interference.is_learned_in_one_step(drawn.correlation, drawn.p1))
    rest = drawn.correlation <= 0
    return both(
        true((m[:, 1] > 0).all(1) == told, correlation=drawn.correlation, p1=drawn.p1),
        at_least(np.diff(m[rest], axis=1), 0.0, correlation=drawn.correlation[rest, None, None]),
        _one_step_learns(seed, from_zero=True),
    )


@precisely
def _one_step_proof() -> list[Certificate]:
    # Both margins at -50, alpha = -1/2, p = 1/2, c = 2, eta = 1: one step adds at most c eta (1 + 1/2)/2.
    after = -50 + 2 * (arb(fmpq(1, 2)) * sigma(arb(-50)) * fmpq(3, 2))
    statement = "α = −1/2, p_1 = 1/2, c = 2, η = 1, both margins −50: positive after one step"
    return [Certificate(statement, after, ">", fmpq(0))]


C29 = Checks(
    lambda seed: _one_step_learns(seed, from_zero=False),
    corrected=_exact_condition,
    certificates=_one_step_proof,
)


@all_of
def _sum_grows(seed: int, *, parallel: bool) -> Iterator[Evidence]:
    drawn, _, _, half_sum = descents(seed)
    # Large steps may leave later ones below rounding, so that "increases" is seen as "does not fall".
    yield at_least(np.diff(half_sum, axis=1), 0.0, correlation=drawn.correlation[:, None])
    yield true(half_sum[:, 1] > 0, correlation=drawn.correlation)
    if parallel:
        m = descend_pairs(np.ones(RUNS), 0.75, 2.0, 1.0, np.arange(257))
        rises = np.diff(m.mean(2)[:, :64], axis=1) > 1e-12  # rounding of a constant
        yield true(rises, correlation=1.0)


@all_of
def _max_margin_form(seed: int) -> Iterator[Evidence]:
    yield _sum_grows(seed, parallel=False)
    for alpha in (-0.9, -0.3, 0.5, 0.95):
        problem = two_tokens(alpha, 0.75)
        W = np.asarray(interference.max_margin(problem))
        yield equal(np.asarray(max_margin(problem)), W, tolerance=1e-6, correlation=alpha)
        yield equal(np.linalg.norm(W), interference.max_margin_norm(alpha), correlation=alpha)
        yield equal(np.asarray(memory.margins(problem, W)), 1.0, correlation=alpha)


C32 = Checks(
    lambda seed: _sum_grows(seed, parallel=True),
    corrected=_max_margin_form,
    certificates=lambda: [Certificate(
        "α = 1, p_1 = 3/4, c = 2, η = 1: γ_2 > 0 after one step", sum(first_step(fmpq(1), fmpq(3, 4), 2, 1), fmpq(0)) / 2, ">", fmpq(0))],
)  # fmt: skip
