"""Large margins, tiny gaps, arguments out of place: finite and right, or refused by name."""

import numpy as np
import pytest

import engram
from engram._checks import InputError
from engram.theory import HypothesisError, binary, interference, multiclass, spike


def test_large_starts_do_not_overflow():
    assert binary.flow_margin(5.0, 1.0, 1000.0) == 1000.0
    assert binary.descent_margin_bound(5, 1.0, 2.0, 1000.0) == 1000.0
    # On both sides of the switch, far time still moves: e^m = e^m0 + s.
    for start in (699.0, 701.0):
        s = np.exp(start)
        assert binary.flow_margin(s, 1.0, start) == pytest.approx(start + np.log(2), rel=1e-14)
    assert multiclass.margin_velocity([0.0, 0.0, -1000.0], 1.0) == pytest.approx([1.0, 0.5])
    assert interference.phase_slope(1000.0, 3.0, 0.5, 0.75) == pytest.approx(-3.0)
    bound = interference.half_gap_deviation_bound(1000.0, -0.5, 0.75)
    assert 0 < bound < 1e-100
    assert binary.log_bound_failure(1.9999, 1.0) == np.inf


def test_corrections_keep_their_digits_near_zero():
    # m + e^m = s: at s = 0 the root is the omega constant, and h = log s - m.
    omega = 0.5671432904097838
    assert binary.flow_correction(1e-17) == pytest.approx(np.log(1e-17) + omega, rel=1e-14)
    both = binary.flow_correction([0.5 - 1e-12, 0.5 + 1e-12])
    assert both[0] == pytest.approx(both[1], abs=1e-11)


@pytest.mark.parametrize("gap", [1e-2, 1e-6, 1e-9])
def test_spike_threshold_of_nearly_equal_parallel_tokens(gap):
    # To second order in the gap the loss is a parabola in the learning rate with its root at 8/c.
    assert spike.two_token_spike_threshold(1.0, 0.5 + gap) == pytest.approx(4.0, abs=20 * gap)
    assert spike.spike_threshold(engram.two_tokens(1.0, 0.5 + gap)) == pytest.approx(
        spike.two_token_spike_threshold(1.0, 0.5 + gap), rel=1e-6
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: binary.weak_log_bound(-3, 1.0, 1.0), "steps >= 0 fails: got -3"),
        (lambda: binary.descent_margin_bound(5, -1.0, 1.0), "rate >= 0 fails: got -1"),
        (lambda: binary.flow_origin(1.0, 1000.0), "start <= 700"),
        (lambda: binary.expansion_constant(50.0, 1.0), r"x \* steps >= 1000"),
        (lambda: interference.half_sum_bounds(-0.3, 0.5, 0.75), "times >= 0 fails: got -0.3"),
        (lambda: interference.half_gap_deviation_bound(-5.0, 0.5, 0.75), "half_sum >= 0"),
        (lambda: interference.half_gap_deviation_asymptote(0.0, 0.5, 0.75), "times > 0"),
        (lambda: multiclass.flow_margin(1.0, -1.0, 3), "rate >= 0"),
        (lambda: multiclass.flow_scores_from([1.0], 1.0, [0.0, -1e3, 0.0]), "within 700"),
        (lambda: multiclass.early_weights([1.0, 2.0], engram.orthonormal(2, 2)), "time is one number"),
    ],
)  # fmt: skip
def test_hypotheses_are_named(ask, message):
    with pytest.raises(HypothesisError, match=message):
        ask()


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"broadcast together, got `times` \(2,\), `rate` \(3,\)"):
        binary.flow_margin([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="must be numbers here"):
        interference.flow_solution([1.0], [0.0, 1.0], 0.75)
    with pytest.raises(InputError, match="scores of one token"):
        multiclass.flow_scores_from([1.0], 1.0, [1.0])
