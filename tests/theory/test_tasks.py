"""One task after another: the formulas agree with descent, and with the limit of long tasks."""

import numpy as np
import pytest

import engram
from engram.dynamics import Curriculum, Descent, Plain
from engram.theory.tasks import GOLDEN, forgetting_correlation, margins_after


def test_descent_with_small_steps_comes_to_the_margins_of_flow():
    one, other = [[1.0, 0.0], [0.0, 1.0]]
    errors = []
    for rate in (0.1, 0.05):
        steps = round(20 / rate)
        sampling = Curriculum([one, other], [steps, steps])
        run = engram.simulate(
            engram.two_tokens(0.6, 0.5), Descent(Plain(rate), sampling, steps=2 * steps),
            record="margins", at=[2 * steps], events=False,
        )  # fmt: skip
        errors.append(run.margins.values[-1] - np.array(margins_after(0.6, 20.0)))
    # Of first order in the rate: halving it halves what is off, to a quarter of the rest.
    np.testing.assert_allclose(errors[1], errors[0] / 2, rtol=0.1)
    assert np.abs(errors[1]).max() < 0.05


@pytest.mark.parametrize("duration", [1.0, 1e3, 1e9])
def test_at_the_correlation_the_first_token_is_just_forgotten(duration):
    alpha = forgetting_correlation(duration)
    assert float(margins_after(alpha, duration)[0]) == pytest.approx(0, abs=1e-9)
    assert float(margins_after(alpha - 0.01, duration)[0]) > 0


def test_long_tasks_forget_from_the_golden_ratio_on():
    for duration in (1e2, 1e4, 1e6):
        away = abs(forgetting_correlation(duration) - GOLDEN)
        # c T is moved by alpha m + O(1) in the second task, and log T by that over c T.
        assert away < np.log(duration) / duration
