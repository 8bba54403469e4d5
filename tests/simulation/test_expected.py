"""What a long run is expected to take follows from a part of its tokens, whatever the machine."""

import numpy as np
import pytest

import engram
from engram.simulation import _expected, expected

PROBLEM = engram.gaussian(0, 40, 40, 3)
TIME_PART = _expected.time_part


def slow(problem, devices):
    """A machine that takes 2 s for the gradient of four tokens, and 1 s for a look at them."""
    return _expected.PartCost(4 * devices, 2.0, 1.0)


@pytest.fixture(autouse=True)
def everything_is_timed(monkeypatch):
    monkeypatch.setattr(_expected, "_TIMED", 0)
    monkeypatch.setattr(_expected, "time_part", slow)


def test_steps_and_looks_scale_with_the_tokens():
    descent = engram.GradientDescent(1.0, 6)
    cost = expected(PROBLEM, descent, records=3, events=True, space="weights")
    # Ten parts: six gradients, a look at each of seven states, and at three to record them.
    assert cost.whole == 10 * (6 * 2 + 7 + 3)
    without = expected(PROBLEM, descent, records=3, events=False, space="weights")
    assert without.whole == 10 * (6 * 2 + 3)
    assert without.step == 10 * (2 + 3 / 6)
    # Two devices do twice the tokens in the same time.
    assert expected(PROBLEM, descent, records=3, events=True, devices=2).whole == cost.whole / 2
    # The embeddings, here and on the device, are the least that it takes.
    assert cost.bytes >= 2 * (PROBLEM.inputs.nbytes + PROBLEM.outputs.nbytes)


def test_nothing_is_expected_of_short_runs_flows_and_other_spaces():
    one = engram.GradientDescent(1.0, 1)
    assert expected(PROBLEM, one, records=0, events=False, space="weights") is None  # 20 s
    long = engram.GradientDescent(1.0, 100)
    assert expected(PROBLEM, long, records=0, events=False, space="particles") is None
    flow = engram.GradientFlow(np.array([1.0]))
    assert expected(PROBLEM, flow, records=1, events=True, space="weights") is None


def test_a_part_is_timed():
    part = TIME_PART(PROBLEM, 1)
    assert part.tokens == 40
    assert min(part.grad, part.look) > 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(40, "40 s"), (89, "89 s"), (150, "2.5 minutes"), (7200, "2 hours"), (1e6, "12 days")],
)
def test_times_are_spoken_in_fitting_units(seconds, words):
    assert words in str(_expected.Expected(seconds, seconds, 10**9))


def test_the_command_says_it_before_the_run(here):
    sizes = ["-N", "40", "-M", "40", "--dim", "3", "--steps", "30"]
    done = here("simulate", "--tokens", "gaussian", *sizes, "--space", "weights")
    assert done.returncode == 0, done.stderr
    # 30 gradients and 31 looks, twice, of ten parts: 1220 s; each step 10 (2 + 1 + 31 / 30) = 40 s.
    assert "one step: about 40 s, the whole run: about 20 minutes and" in done.stderr
