"""Optimizers by name: their weight decay, and where they become unstable."""

import numpy as np
import pytest

import engram
from engram import dynamics as D
from engram._checks import InputError
from engram.registry import table


def test_adamw_is_stable_up_to_its_threshold_on_a_quadratic():
    eta, b1, decay = 0.3, 0.8, 0.5
    optimizer = D.adamw(eta, b1=b1, weight_decay=decay)
    for factor, is_stable in ((1 - 1e-6, True), (1 + 1e-6, False)):
        # With the gradient h x and a preconditioner of one: m = b1 m + (1 - b1) h x, x -= eta (m + decay x).
        h = factor * optimizer.threshold(0)
        pull = (1 - b1) * h
        step = np.array([[1 - eta * (decay + pull), -eta * b1], [pull, b1]])
        assert (np.abs(np.linalg.eigvals(step)).max() < 1) == is_stable


def test_adamw_refuses_a_second_weight_decay():
    with pytest.raises(InputError, match=r"left out with adamw.* got 0.1. Pass it to `adamw\("):
        engram.PracticalDescent(D.adamw(0.1), 5, weight_decay=0.1)


def test_settings_hold_the_weight_decay_that_acts():
    coupled = engram.PracticalDescent(D.adam(0.1), 5, weight_decay=0.2)
    decoupled = engram.PracticalDescent(D.adamw(0.1, weight_decay=0.2), 5)
    assert table(coupled)["weight_decay"] == 0.2
    assert table(decoupled)["weight_decay"] == 0.2
