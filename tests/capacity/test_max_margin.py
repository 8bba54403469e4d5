"""Max-margin weights against closed forms and their own optimality."""

import numpy as np
import pytest

import cases
import engram
from engram import memory
from engram.capacity import max_margin


@pytest.mark.parametrize("alpha", [-0.9, -0.3, 0.5, 0.95])
def test_two_tokens(alpha):
    problem = engram.two_tokens(alpha, 0.7)
    expected = np.outer(
        (problem.outputs[0] - problem.outputs[1]) / 2,
        (problem.inputs[0] - problem.inputs[1]) / (1 - alpha),
    )
    np.testing.assert_allclose(max_margin(problem), expected, atol=1e-6 * np.abs(expected).max())


def test_orthonormal():
    problem = engram.orthonormal(3, 4, key=0)
    centred = problem.outputs - problem.outputs.mean(axis=0)
    expected = sum(
        np.outer(centred[y], e) for y, e in zip(problem.targets, problem.inputs, strict=True)
    )
    np.testing.assert_allclose(max_margin(problem), expected, atol=1e-7)


def test_margins_are_one_at_the_support_and_at_least_one():
    problem = engram.on_sphere(4, 6, 4, 8)
    m = memory.margins(problem, max_margin(problem))
    assert m.min() == pytest.approx(1, abs=1e-6)


def test_no_direction_without_separation():
    with pytest.raises(ValueError, match="must be separable"):
        max_margin(cases.PROBLEMS["not separable"])
