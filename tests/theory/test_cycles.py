"""Tokens on one line: derivatives, cycles that descent visits, multipliers, and what is refused."""

import numpy as np
import pytest

import engram
from engram import memory
from engram.theory import HypothesisError, cycles

TOKENS, PROBS = np.array([1.0, -8.0, -0.5]), np.array([0.679, 0.021, 0.3])


def test_slope_and_curvature_are_derivatives_of_the_loss():
    g, h = np.array([-2.0, 0.1, 3.0]), 1e-5
    loss = lambda g: (PROBS * np.logaddexp(0, -TOKENS * g[:, None])).sum(1)
    slope = (loss(g + h) - loss(g - h)) / (2 * h)
    assert cycles.slope(g, TOKENS, PROBS) == pytest.approx(slope, rel=1e-8)
    bend = (cycles.slope(g + h, TOKENS, PROBS) - cycles.slope(g - h, TOKENS, PROBS)) / (2 * h)
    assert cycles.curvature(g, TOKENS, PROBS) == pytest.approx(bend, rel=1e-8)


def test_minimiser_mirrors_and_equal_pulls_have_the_edge_at_eight():
    g = cycles.minimiser(TOKENS, PROBS)
    assert cycles.slope(g, TOKENS, PROBS) == pytest.approx(0.0, abs=1e-14)
    assert cycles.minimiser(-TOKENS, PROBS) == pytest.approx(-g, rel=1e-12)
    assert cycles.edge([1, -1], [0.5, 0.5]) == pytest.approx(8.0)


def test_line_is_a_memory_in_one_dimension():
    problem = engram.Problem(TOKENS[:, None], [[0.5], [-0.5]], PROBS, [0, 0, 0])
    W = np.array([[0.3]])
    for _ in range(12):
        W = W - 9.76 * memory.grad(problem, W)
    path = cycles.descend(0.3, 9.76, TOKENS, PROBS, skip=12, keep=1)
    assert W[0] == pytest.approx(path, rel=1e-12)


def test_descent_from_zero_ends_on_the_cycle_that_newton_finds():
    found = cycles.cycle(1.3, 9.76, TOKENS, PROBS, 2)
    path = cycles.descend(0.0, 9.76, TOKENS, PROBS, skip=400, keep=2)
    assert np.sort(path) == pytest.approx(np.sort(found.points), abs=1e-10)
    assert found.multiplier == pytest.approx(0.8953, abs=1e-4)


@pytest.mark.parametrize("period", [1, 2])
def test_multiplier_is_minus_one_at_a_doubling(period):
    guess = (0.5, 10.0) if period == 1 else (2.26, 10.74)
    found = cycles.bifurcation(*guess, TOKENS, PROBS, period)
    at = cycles.cycle(found.point, found.learning_rate, TOKENS, PROBS, period)
    assert at.multiplier == pytest.approx(-1.0, abs=1e-9)
    if period == 1:
        assert found.learning_rate == pytest.approx(cycles.edge(TOKENS, PROBS), rel=1e-10)


def test_turn_has_the_derivatives_of_its_end():
    g, eta, h = 0.7, 9.0, 1e-5
    turn = lambda g, eta: cycles._turn(g, eta, TOKENS, PROBS, 4)
    _, by_g, by_gg, by_eta, by_both = turn(g, eta)
    up, down = turn(g + h, eta), turn(g - h, eta)
    assert by_g == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-7)
    assert by_gg == pytest.approx((up[1] - down[1]) / (2 * h), rel=1e-7)
    up, down = turn(g, eta + h), turn(g, eta - h)
    assert by_eta == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-7)
    assert by_both == pytest.approx((up[1] - down[1]) / (2 * h), rel=1e-7)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: cycles.tokens_with_cycle(2.0), "1 < share < 2"),
        (lambda: cycles.minimiser([1.0, 2.0], [0.5, 0.5]), "tokens of both signs"),
        (lambda: cycles.doublings(0.5, 10.0, TOKENS, PROBS, count=1), "not of a divisor"),
        (lambda: cycles.slope(0.0, [1.0, -1.0], [1.0, 0.0]), "probs > 0"),
    ],
)
def test_what_is_outside_the_hypotheses_is_refused(call, reason):
    with pytest.raises(HypothesisError, match=reason):
        call()


def test_a_cycle_of_two_points_is_none_of_four():
    tokens, probs, eta, found = cycles.tokens_with_cycle(1.8)
    with pytest.raises(HypothesisError, match="of period 4, not of a divisor"):
        cycles.doublings(found.points[0], eta, tokens, probs, count=1, period=4)
