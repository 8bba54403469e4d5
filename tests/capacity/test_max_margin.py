"""Max-margin weights against closed forms and their own optimality."""

import numpy as np
import pytest

import cases
import engram
from engram import memory
from engram.capacity import _max_margin, max_margin, max_margin_multipliers


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


@pytest.mark.parametrize("name", ["sphere, d > N", "k < d", "a token that never comes"])
def test_multipliers_are_optimal_to_rounding(name):
    problem = cases.PROBLEMS[name]
    a = max_margin_multipliers(problem)
    pull = a.copy()
    np.put_along_axis(pull, problem.labels[:, None], -a.sum(1, keepdims=True), 1)
    W = -problem.outputs.T @ pull.T @ problem.inputs
    m = np.array(memory.class_margins(problem, W))
    np.put_along_axis(m, problem.labels[:, None], np.inf, 1)
    assert (a >= 0).all()
    assert m[problem.probs > 0].min() == pytest.approx(1, abs=1e-12)
    assert m[a > 0] == pytest.approx(1, abs=1e-12)
    assert a.sum() == pytest.approx((W**2).sum(), rel=1e-12)
    np.testing.assert_allclose(W, max_margin(problem), atol=1e-12)


@pytest.mark.parametrize("length", [1.0, 1e5])
def test_a_bad_guess_of_the_support_is_corrected(monkeypatch, length):
    problem = cases.PROBLEMS["sphere, d > N"]
    inputs = problem.inputs * np.where(np.arange(5) == 2, length, 1.0)[:, None]
    problem = engram.Problem(inputs, problem.outputs, problem.probs, problem.labels)
    exact = max_margin_multipliers(problem)
    monkeypatch.setattr(_max_margin, "_interior_point", lambda *args: np.ones(15))
    monkeypatch.setattr(_max_margin, "_least_distance", lambda *args: np.ones(15))
    np.testing.assert_allclose(max_margin_multipliers(problem), exact, atol=1e-9)


def test_refining_may_begin_again_from_nothing(monkeypatch):
    exact = max_margin(cases.PROBLEMS["k < d"])
    monkeypatch.setattr(_max_margin, "_REFINEMENTS", 0)
    np.testing.assert_allclose(max_margin(cases.PROBLEMS["k < d"]), exact, atol=1e-9)
