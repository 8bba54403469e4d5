"""Weights and particles share no code; here they tell the same story."""

import numpy as np
import pytest

import cases
from engram import memory, particles

# Both sides round sums of products of O(10) terms of size O(10).
ROUNDING = {"rtol": 1e-12, "atol": 1e-13}

QUANTITIES = [
    "token_losses",
    "loss",
    "error_rate",
    "margins",
    "class_margins",
    "recall_probs",
    "predict",
]


@pytest.fixture(params=cases.PROBLEMS, ids=str)
def problem(request):
    return cases.PROBLEMS[request.param]


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_quantities_agree(problem, quantity, scale):
    W = cases.weights(problem, scale)
    w = particles.weights_to_scores(problem, W)
    ours, theirs = getattr(memory, quantity), getattr(particles, quantity)
    np.testing.assert_allclose(ours(problem, W), theirs(problem, w), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, 1.0, 10.0])
def test_particles_feel_the_projected_gradient(problem, scale):
    W = cases.weights(problem, scale)
    w = particles.weights_to_scores(problem, W)
    projected = particles.weights_to_scores(problem, memory.grad(problem, W))
    np.testing.assert_allclose(particles.grad(problem, w), projected, **ROUNDING)
    np.testing.assert_allclose(particles.force(problem, w), -projected, **ROUNDING)


def test_gradient_in_weights_comes_from_the_derivative_in_scores(problem):
    W = cases.weights(problem)
    c = particles.score_grad(problem, particles.weights_to_scores(problem, W))
    rebuilt = particles.coefficients_to_weights(problem, c, np.zeros_like(W))
    np.testing.assert_allclose(rebuilt, memory.grad(problem, W), **ROUNDING)


def test_curvature_agrees(problem):
    W, V = cases.weights(problem), cases.weights(problem, seed=1)
    w, v = (particles.weights_to_scores(problem, A) for A in (W, V))
    projected = particles.weights_to_scores(problem, memory.hvp(problem, W, V))
    np.testing.assert_allclose(particles.hvp(problem, w, v), projected, **ROUNDING)
    ours, theirs = memory.spectrum(problem, W), particles.spectrum(problem, w)
    n = min(len(ours), len(theirs))
    np.testing.assert_allclose(ours[:n], theirs[:n], atol=1e-13)
    np.testing.assert_allclose(ours[n:], 0, atol=1e-13)
    np.testing.assert_allclose(theirs[n:], 0, atol=1e-13)


def test_the_map_to_scores_and_back_is_exact_and_keeps_what_no_token_sees(problem):
    start = cases.weights(problem, seed=2)
    W = start - 3.0 * memory.grad(problem, start)
    w = particles.weights_to_scores(problem, W)
    np.testing.assert_allclose(
        particles.scores_to_weights(problem, w, start), W, rtol=1e-9, atol=1e-9
    )
    hidden = particles.unseen_part(problem, start)
    np.testing.assert_allclose(particles.unseen_part(problem, W), hidden, atol=1e-12)
    np.testing.assert_allclose(particles.weights_to_scores(problem, hidden), 0, atol=1e-12)


def test_what_is_orthogonal_to_the_updates_never_moves(problem):
    W = cases.weights(problem)
    g = memory.grad(problem, W)
    np.testing.assert_allclose(memory.project_on_updates(problem, g), g, **ROUNDING)
    still = W - memory.project_on_updates(problem, W)
    np.testing.assert_allclose(np.vdot(still, g), 0, atol=1e-12)


def test_scores_that_no_matrix_has_are_refused():
    problem = cases.PROBLEMS["sphere, d < N < M"]
    w = np.random.default_rng(0).standard_normal((9, 12))
    with pytest.raises(ValueError, match=r"belong to no W.*weights_to_scores"):
        particles.scores_to_weights(problem, w)


def test_the_largest_eigenvalues_agree(problem):
    W = cases.weights(problem)
    num = min(2, W.size)
    w = memory.scores(problem, W)
    values, residuals = particles.top_eigenvalues(problem, w, num)
    dense = memory.spectrum(problem, W)[:num]
    np.testing.assert_allclose(values, dense, rtol=1e-9, atol=1e-12)
    assert (np.asarray(residuals) <= 1e-9 * np.asarray(values)[0]).all()


@pytest.mark.parametrize("name", ["two tokens", "noisy targets"])
def test_the_sharpness_is_the_largest_eigenvalue(name):
    problem = cases.PROBLEMS[name]
    W = cases.weights(problem)
    w, largest = memory.scores(problem, W), memory.spectrum(problem, W)[0]
    assert particles.sharpness(problem, w) == pytest.approx(largest, rel=1e-9)
    assert memory.sharpness(problem, W) == pytest.approx(largest, rel=1e-9)


def test_loss_and_gradient_in_one_pass_are_those_of_two(problem):
    W = cases.weights(problem)
    loss, grad = memory.loss_and_grad(problem, W)
    np.testing.assert_allclose(loss, memory.loss(problem, W), **ROUNDING)
    np.testing.assert_allclose(grad, memory.grad(problem, W), **ROUNDING)


def test_output_gaps_are_differences_of_inner_products(problem):
    U, gaps = np.asarray(problem.outputs), np.asarray(particles.output_gaps(problem))
    for i, j, k in [(0, 1, 0), (1, 0, len(U) - 1)]:
        np.testing.assert_allclose(gaps[i, j, k], U[i] @ (U[j] - U[k]), **ROUNDING)
