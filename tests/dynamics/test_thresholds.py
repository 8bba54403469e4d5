"""Stability thresholds: on a quadratic of just that curvature, a method turns from shrinking to growing."""

import jax.numpy as jnp
import numpy as np
import pytest

import engram
from engram import dynamics as D

RATE, BETA = 0.3, 0.8


def heavy_ball(curvature):
    """x' = x - eta v', v' = beta v + curvature x, as a matrix on (x, v)."""
    return np.array([[1 - RATE * curvature, -RATE * BETA], [curvature, BETA]])


def nesterov(curvature):
    """x' = x - eta (g + beta v'), with the same v'."""
    slope = RATE * curvature * (1 + BETA)
    return np.array([[1 - slope, -RATE * BETA**2], [curvature, BETA]])


def averaged(curvature):
    """x' = x - eta m', m' = b m + (1 - b) curvature x: Adam, once its second moment stands still."""
    pull = (1 - BETA) * curvature
    return np.array([[1 - RATE * pull, -RATE * BETA], [pull, BETA]])


def plain(curvature):
    return np.array([[1 - RATE * curvature]])


METHODS = {
    "descent": (engram.GradientDescent(RATE, 5), plain),
    "SGD": (engram.StochasticGradientDescent(RATE, 5, 2), plain),
    "sgd": (engram.PracticalDescent(D.sgd(RATE), 5), plain),
    "rmsprop": (engram.PracticalDescent(D.rmsprop(RATE), 5), plain),
    "momentum": (engram.PracticalDescent(D.momentum(RATE, BETA), 5), heavy_ball),
    "nesterov": (engram.PracticalDescent(D.nesterov(RATE, BETA), 5), nesterov),
    "adam": (engram.PracticalDescent(D.adam(RATE, b1=BETA), 5), averaged),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", METHODS)
def test_the_threshold_is_where_a_quadratic_turns_unstable(name):
    dynamics, step = METHODS[name]
    threshold = float(dynamics.threshold(jnp.asarray(0)))
    growth = lambda curvature: np.abs(np.linalg.eigvals(step(curvature))).max()
    assert growth(0.9999 * threshold) < 1 < growth(1.0001 * threshold)


@pytest.mark.usefixtures("x64")
def test_weight_decay_uses_up_some_of_the_threshold():
    decayed = engram.PracticalDescent(D.momentum(RATE, BETA), 5, weight_decay=0.25)
    total = float(decayed.threshold(jnp.asarray(0))) + 0.25
    assert total == pytest.approx(float(METHODS["momentum"][0].threshold(jnp.asarray(0))))


@pytest.mark.usefixtures("x64")
def test_a_schedule_has_the_threshold_of_its_step():
    dynamics = engram.GradientDescent([1.0, 2.0, 4.0], 3)
    thresholds = [float(dynamics.threshold(jnp.asarray(t))) for t in (0, 1, 2, 3)]
    assert thresholds == [2, 1, 0.5, 0.5]  # after the last step there is no other rate


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("make", [D.sign, D.normalised, D.muon, D.exact_muon])
def test_steps_of_a_fixed_length_have_no_threshold(make):
    assert np.isnan(engram.PracticalDescent(make(RATE), 5).threshold(jnp.asarray(0)))
