"""Large steps: bounds against the equations that define them, limits, and what is refused."""

import numpy as np
import pytest

import engram
from engram.theory import HypothesisError, interference, large_steps, multiclass


@pytest.mark.parametrize("classes", [2, 3, 50])
def test_exit_bound_is_linear_in_the_rate_once_the_rare_token_does_not_matter(classes):
    eta, R, B = np.array([1e2, 1e5]), 1.5, 2.5
    bound = large_steps.exit_bound(eta, R, B, 0.3, classes)
    C = large_steps.exit_constant(classes)
    assert bound == pytest.approx(C * eta * R**4 * B**2, rel=1e-12)
    # A rare token makes small rates slow.
    assert large_steps.exit_bound(1e-3, R, B, 0.01) > large_steps.exit_bound(1e-3, R, B, 0.3) > 1000


def test_pull_is_the_most_that_one_step_can_lengthen():
    rng = np.random.default_rng(0)
    for classes in (2, 4):
        m = rng.uniform(-3, 9, (20_000, classes - 1))
        m[0] = 1 + (h := large_steps._pull(classes))  # where it is reached
        q = np.exp(-m) / (1 + np.exp(-m).sum(1, keepdims=True))
        assert (q * m).sum(1).max() == pytest.approx(h, rel=1e-12)


def test_reach_is_that_of_the_longest_token_and_the_farthest_pair():
    problem = engram.Problem([[2.0, 0], [0, 1]], [[1.0, 0], [0, 1], [-1, 0]], [0.5, 0.5], [0, 1])
    assert large_steps.reach(problem) == pytest.approx(4.0)
    assert large_steps.reach(engram.two_tokens(0.3, 0.75)) == pytest.approx(np.sqrt(2))


def test_horizon_leaves_half_of_the_steps_for_each_phase():
    R, B, p, T = np.sqrt(2.0), interference.max_margin_norm(0.5), 0.25, 4000
    eta = large_steps.horizon_rate(T, R, B)
    assert large_steps.exit_bound(eta, R, B, p) == pytest.approx(T / 2)
    later = large_steps.stable_loss_bound(T / 2, eta, 1e300, B)
    assert large_steps.horizon_bound(T, R, B, p) == pytest.approx(later)
    with pytest.raises(HypothesisError, match="Allow more steps"):
        large_steps.horizon_bound(20, R, B, p)


def test_batch_bound_from_equal_scores_is_the_flow_of_many_classes():
    time = np.array([0.0, 1.0, 50.0])
    assert large_steps.batch_margin_bound(time, 2.0, 0.0, 5) == pytest.approx(
        multiclass.flow_margin(time, 1.0, 5), abs=1e-12
    )
    assert large_steps.batch_margin_bound(0.0, 2.0, -3.0, 5) == pytest.approx(-3.0)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: large_steps.stable_loss(0.0, 1.0, 0.5), "learning_rate > 0"),
        (lambda: large_steps.exit_bound(1.0, 1.0, 1.0, 0.5, 1), "num_classes >= 2"),
        (lambda: large_steps.batch_margin_bound(-1.0, 1.0), "own_time >= 0"),
        (lambda: large_steps.stable_loss_bound(1, 1.0, 0.0, 1.0), "loss > 0"),
    ],
)
def test_what_is_outside_the_hypotheses_is_refused(call, reason):
    with pytest.raises(HypothesisError, match=reason):
        call()
