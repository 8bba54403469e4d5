"""How a run ends, classified by its last steps: tails written by hand."""

import functools

import jax
import numpy as np
import pytest

from engram.sweeps._outcomes import CLASSES, CLOSE, TAIL, Tail, convergence

LENGTH = 2 * TAIL + 1
JUDGE = jax.jit(convergence, static_argnames="is_bounded")
RNG = np.random.default_rng(0)


@functools.cache
def judge_cycle(period, apart=0.0):
    """A cycle of states of size 8, one of whose states does not quite return."""
    states = np.resize(RNG.uniform(-1, 1, (period, 3)), (LENGTH, 3))
    states[:, 0] = 8.0
    states[-1, 1] += apart
    return judge(states)


def judge(states, least=-1.0, loss=1.0, is_bounded=False):
    series = lambda values: np.broadcast_to(np.asarray(values, float), LENGTH)
    with jax.enable_x64(True):
        code, period = JUDGE(Tail(states, series(least), series(loss)), is_bounded=is_bounded)
        return CLASSES[int(code)], float(period)


@pytest.mark.parametrize("period", [2, 3, TAIL - 1, TAIL])
def test_a_cycle_has_its_shortest_period(period):
    assert judge_cycle(period) == ("cycle", period)


def test_a_fixed_point_has_period_one():
    assert judge_cycle(1) == ("fixed point", 1)


def test_a_cycle_longer_than_the_window_counts_as_aperiodic():
    name, period = judge_cycle(TAIL + 1)
    assert name == "aperiodic"
    assert np.isnan(period)


def test_states_must_return_closely_for_their_size():
    assert judge_cycle(5, 0.99 * CLOSE * 8) == ("cycle", 5)
    assert judge_cycle(5, 1.01 * CLOSE * 8)[0] == "aperiodic"
    assert judge_cycle(1, -1.01 * CLOSE * 8)[0] == "aperiodic"


def test_growing_needs_margins_above_zero_that_grow_while_the_loss_falls():
    still = np.full((LENGTH, 3), 8.0)  # growth so slow that nothing seems to move
    up, down = np.linspace(1, 2, LENGTH), np.linspace(2, 1, LENGTH)
    name, period = judge(still, least=up, loss=down)
    assert name == "growing"
    assert np.isnan(period)
    for least, loss in ((up - 5, down), (down, down), (up, up), (np.ones(LENGTH), down)):
        assert judge(still, least=least, loss=loss) == ("fixed point", 1)
    # Bounded scores cannot grow for ever.
    assert judge(still, least=up, loss=down, is_bounded=True) == ("fixed point", 1)


def test_what_is_not_finite_is_said():
    states = np.full((LENGTH, 3), 8.0)
    states[-1, 2] = np.nan
    name, period = judge(states)
    assert name == "not finite"
    assert np.isnan(period)
