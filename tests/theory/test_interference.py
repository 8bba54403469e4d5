"""Two tokens: formulas against the flow's own equations, limits and symmetries."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import engram
from engram.theory import HypothesisError, interference, printed, spike


def flow(alpha, p1, times, contrast=2.0):
    velocity = lambda t, g: np.array(interference.flow_velocity(g[0], g[1], alpha, p1, contrast))
    end = times[-1]
    return solve_ivp(velocity, (0, end), [0.0, 0.0], "LSODA", times, rtol=1e-11, atol=1e-13).y


@pytest.mark.parametrize(("alpha", "p1"), [(0.0, 0.75), (0.6, 0.5), (-1.0, 0.8), (1.0, 0.75)])
def test_solvable_cases_solve_the_flow(alpha, p1):
    times = np.geomspace(1e-2, 1e4, 20)
    expected = np.array(interference.flow_solution(times, alpha, p1))
    assert expected == pytest.approx(flow(alpha, p1, times), abs=1e-8)


def test_velocity_is_that_of_the_margins():
    before = np.array([0.3, -0.8])
    after = np.array(interference.descent_step(*before, 1e-3, 0.7, 0.6, 3.0))
    rise = interference.halves(*(after - before) / 1e-3)
    gap, total = interference.halves(*before)
    assert rise == pytest.approx(interference.flow_velocity(gap, total, 0.7, 0.6, 3.0), rel=1e-10)
    assert interference.margins(gap, total) == pytest.approx(tuple(before), rel=1e-14)


def test_the_printed_velocity_is_twice_the_true_one():
    expected = np.array(printed.half_velocity(0.1, 0.2, 0.5, 0.75))
    assert expected == pytest.approx(
        2 * np.array(interference.flow_velocity(0.1, 0.2, 0.5, 0.75)), rel=1e-14
    )


def test_phase_slope_is_the_ratio_of_velocities():
    first, second = interference.flow_velocity(0.2, 1.5, 0.3, 0.8)
    assert interference.phase_slope(0.2, 1.5, 0.3, 0.8) == pytest.approx(first / second, rel=1e-13)


def test_half_gap_turns_on_the_nullcline():
    for half_sum in (0.0, 1.0, 20.0):
        gap = interference.turning_half_gap(half_sum, 0.8)
        first, second = interference.flow_velocity(gap, half_sum, 0.3, 0.8)
        assert first == pytest.approx(0.0, abs=1e-15)
        assert second > 0
    assert interference.turning_half_gap(0.0, 0.8) == pytest.approx(np.log(4), rel=1e-14)


@pytest.mark.parametrize("alpha", [-0.9, -0.4, 0.0, 0.5, 0.98])
def test_flow_bounds_enclose_the_flow(alpha):
    times = np.geomspace(1e-2, 1e5, 40)
    gap, total = flow(alpha, 0.8, times)
    low, high = interference.half_sum_bounds(times, alpha, 0.8)
    assert (total >= low - 1e-8).all()
    assert (total <= high + 1e-8).all()
    away = np.abs(np.sinh(gap - np.log(4) / 2))
    assert (away <= interference.half_gap_deviation_bound(total, alpha, 0.8) + 1e-8).all()


def test_deviation_bound_is_continuous_at_kappa_one():
    at = interference.half_gap_deviation_bound(2.0, 0.0, 0.75)
    for alpha in (1e-10, -1e-10):
        assert interference.half_gap_deviation_bound(2.0, alpha, 0.75) == pytest.approx(
            at, rel=1e-9
        )
    # At zero the flow has not moved: both sides are sinh of the whole way.
    assert interference.half_gap_deviation_bound(0.0, 0.3, 0.75) == pytest.approx(
        np.sinh(np.log(3) / 2)
    )


def test_lower_deviation_bound_is_refused_where_it_is_empty():
    with pytest.raises(HypothesisError, match=r"correlation < -0.2306 fails: got -0.2"):
        interference.half_gap_deviation_lower_bound(1.0, -0.2, 0.75)
    assert interference.half_gap_deviation_lower_bound(0.0, -0.5, 0.75) <= np.log(3) / 2
    # kappa * integral of z^(kappa - 1) / (2 z - 1): known at kappa = 1/2.
    assert interference.slow_share(0.5) == pytest.approx(
        np.log(3 + 2 * np.sqrt(2)) / np.sqrt(8), rel=1e-14
    )


def test_perceptron_counts_steps_exactly():
    def count(alpha, p1):
        mu, push, steps = [0, 0], [p1 / 2, (1 - p1) / 2], 0
        while not (steps and mu[0] >= 0 and mu[1] > 0):
            mu = [mu[0] + push[0] - alpha * push[1], mu[1] + push[1] - alpha * push[0]]
            half = lambda m: 1 if m < 0 else Fraction(1, 2) if m == 0 else 0
            push, steps = [p1 * half(mu[0]), (1 - p1) * half(mu[1])], steps + 1
        return steps

    given = [("0.9", "0.61"), ("0.2", "0.6"), ("-0.5", "0.75"), ("0.97", "0.81"), ("0.6", "0.7")]
    cases = [(Fraction(alpha), Fraction(p1)) for alpha, p1 in given]  # no ties on the way
    alpha, p1 = (np.array([float(case[i]) for case in cases]) for i in range(2))
    assert interference.perceptron_steps(alpha, p1).tolist() == [count(*case) for case in cases]
    assert interference.perceptron_steps(0.9, 0.61) == count(*cases[0])
    assert np.isnan(interference.perceptron_steps(0.97, 0.81, max_steps=count(*cases[3]) - 1))
    with pytest.raises(HypothesisError, match="correlation < 1 fails"):
        interference.perceptron_steps(1.0, 0.75)


def test_max_margin_has_unit_margins_and_its_norm():
    W = interference.max_margin(engram.two_tokens(0.6, 0.75))
    assert np.linalg.norm(W) == pytest.approx(interference.max_margin_norm(0.6), rel=1e-14)


def test_frequencies_must_be_ordered_and_correlations_possible():
    with pytest.raises(HypothesisError, match="1/2 <= p1 < 1 fails: got 0.3"):
        interference.half_gap_bounds(0.3)
    with pytest.raises(HypothesisError, match="-1 <= correlation <= 1 fails: got 1.2"):
        interference.half_sum_bounds(1.0, 1.2, 0.75)
    with pytest.raises(HypothesisError, match="or p1 = 1/2 fails"):
        interference.flow_solution([1.0], 0.5, 0.75)


# --- spikes ---


def test_two_token_spike_is_the_general_one():
    problem = engram.two_tokens(0.9, 0.8)
    eta = np.array([0.1, 1.0, 10.0, 1e4])
    assert spike.first_step_loss(eta, problem) == pytest.approx(
        spike.two_token_first_step_loss(eta, 0.9, 0.8), rel=1e-12
    )
    assert spike.spike_threshold(problem) == pytest.approx(
        spike.two_token_spike_threshold(0.9, 0.8)
    )


def test_threshold_of_figure_two():
    eta = spike.two_token_spike_threshold(0.95, 0.75)
    assert eta == pytest.approx(5.4392027713, abs=1e-10)
    assert spike.two_token_first_step_loss(eta, 0.95, 0.75) == pytest.approx(np.log(2), rel=1e-12)
    ceiling = 2 * np.log(2) / (2 * 0.25 * (0.95 * 0.75 - 0.25))
    assert eta <= ceiling


def test_no_spike_without_competition():
    assert spike.spike_threshold(engram.two_tokens(-0.5, 0.75)) == np.inf
    assert spike.spike_threshold(engram.orthonormal(4, 4)) == np.inf
    with pytest.raises(HypothesisError, match=r"correlation \* p1 > p2 fails"):
        spike.two_token_spike_threshold(0.2, 0.75)


def test_first_step_bound_is_asymptotically_exact():
    eta = np.array([1e3, 1e5])
    loss = spike.two_token_first_step_loss(eta, 0.95, 0.75, 0.7)
    bound = spike.spike_bound(eta, 0.95, 0.75, 0.7)
    assert (loss >= bound).all()
    assert loss[1] == pytest.approx(bound[1], rel=1e-4)
