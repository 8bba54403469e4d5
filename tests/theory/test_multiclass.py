"""Many classes, orthogonal inputs: closed forms against their own differential equations."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import engram
from engram.theory import HypothesisError, multiclass


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_zero_start_solves_its_equation(classes):
    times = np.concatenate([[0.0], np.geomspace(1e-3, 1e12, 40)])
    m = multiclass.flow_margin(times, 0.4, classes)
    assert np.exp(m) + (classes - 1) * m == pytest.approx(1 + classes * 0.4 * times, rel=1e-12)
    w = multiclass.flow_scores(times, 0.4, classes)
    assert w[:, 0] - w[:, 1] == pytest.approx(m, abs=1e-12 * (1 + m.max()))
    assert w.sum(1) == pytest.approx(0.0, abs=1e-12 * classes)


def test_unequal_norms_change_the_speed():
    m = multiclass.flow_margin(7.0, 0.4, 4, target_norm=2.0, other_norm=0.5)
    assert np.exp(m) + 3 * m == pytest.approx(1 + (3 * 4 + 0.25) * 0.4 * 7.0, rel=1e-12)


@pytest.mark.parametrize("start", [[0.3, 1.0, -2.0], [-8.0, 0.0, 0.0, 3.0], [5.0, 1.0]])
def test_any_start_solves_the_differential_equation(start):
    times = np.geomspace(1e-2, 1e4, 12)
    velocity = lambda t, w: multiclass.flow_velocity(w[None], np.array([1.3]))[0]
    solved = solve_ivp(velocity, (0, 1e4), start, "LSODA", times, rtol=1e-11, atol=1e-12).y.T
    assert multiclass.flow_scores_from(times, 1.3, start) == pytest.approx(solved, abs=1e-7)


def test_any_start_from_zero_is_the_zero_start():
    times = np.geomspace(1e-6, 1e9, 30)
    general = multiclass.flow_scores_from(times, 2.0, np.zeros(5))
    assert general == pytest.approx(multiclass.flow_scores(times, 2.0, 5), abs=1e-11)


def test_invariants_do_not_move_along_the_velocity():
    rng = np.random.default_rng(0)
    w, norms, h = rng.normal(size=4), rng.uniform(0.5, 2, 4), 1e-6
    v = multiclass.flow_velocity(w[None], np.array([1.0]), norms)[0]
    for before, after in zip(
        multiclass.invariants(w - h * v, norms),
        multiclass.invariants(w + h * v, norms),
        strict=True,
    ):
        assert np.abs(after - before).max() / (2 * h) < 1e-8  # a central difference: O(h^2)


def test_one_step_threshold_is_exact():
    problem = engram.orthonormal(2, 3, probs=[0.7, 0.3])
    w = np.array([[-5.0, 0.0, 1.0], [2.0, -1.0, 0.5]])
    eta = multiclass.one_step_threshold(problem, w)
    for factor, learned in ((1 + 1e-9, True), (1 - 1e-9, False)):
        q = np.exp(w) / np.exp(w).sum(1, keepdims=True)
        after = w + factor * eta * problem.probs[:, None] * (np.eye(3)[problem.targets] - q)
        assert (after.argmax(1) == problem.targets).all() == learned


def test_asymptotic_weights_keep_what_is_not_updated():
    problem = engram.orthonormal(2, 3, dim=5, key=1)
    W0 = np.random.default_rng(1).normal(size=(5, 5))
    W = multiclass.asymptotic_weights(1e6, problem, W0)
    E, U = problem.inputs, problem.outputs
    assert U.sum(0) @ W @ E.T == pytest.approx(U.sum(0) @ W0 @ E.T, abs=1e-12)
    m = np.einsum("yd,de,xe->xy", U, W, E)
    gap = m[np.arange(2), problem.targets][:, None] - m
    wrong = np.arange(3)[None] != problem.targets[:, None]
    assert gap[wrong] == pytest.approx(np.log(3 * 0.5 * 1e6), abs=1e-9)


def test_hypotheses_are_named():
    with pytest.raises(HypothesisError, match="`outputs` are orthogonal"):
        multiclass.limit_direction(
            engram.Problem(np.eye(2), [[1.0, 0], [0.6, 0.8]], [0.5, 0.5], [0, 1])
        )
    with pytest.raises(HypothesisError, match="unit length"):
        multiclass.limit_direction(engram.Problem(2 * np.eye(2), np.eye(2), [0.5, 0.5], [0, 1]))
    with pytest.raises(HypothesisError, match="times >= 0"):
        multiclass.flow_margin(-1.0, 1.0, 3)
