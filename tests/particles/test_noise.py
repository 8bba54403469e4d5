"""Noise in particle form has the covariance it should have, exactly where that can be."""

import jax
import numpy as np
import pytest

import cases
from engram import memory, particles
from engram.problem import Problem


@pytest.mark.parametrize("name", ["sphere, d < N < M", "noisy targets", "two tokens"])
def test_gradient_noise_has_the_covariance_of_one_sample(name):
    problem = cases.PROBLEMS[name]
    w = particles.weights_to_scores(problem, cases.weights(problem))
    law = problem.law
    # The noise is linear in its Brownian increments: its covariance is the sum over unit ones.
    units = np.eye(law.size).reshape(-1, *law.shape)
    columns = np.array([particles.gradient_noise(problem, w, b).ravel() for b in units])
    covariance = columns.T @ columns
    # The covariance of the projected gradient of one draw, sample by sample.
    samples = [_gradient_of(problem, w, index) for index in np.ndindex(law.shape)]
    p, g = law.ravel(), np.array([s.ravel() for s in samples])
    mean = p @ g
    expected = (p[:, None] * (g - mean)).T @ (g - mean)
    np.testing.assert_allclose(mean, particles.grad(problem, w).ravel(), atol=1e-13)
    np.testing.assert_allclose(covariance, expected, atol=1e-13)


def _gradient_of(problem, w, index):
    """The projected gradient if only this sample could be drawn."""
    p = np.zeros(problem.num_tokens)
    p[index[0]] = 1.0
    targets = problem.targets
    if problem.is_noisy:
        targets = np.tile(np.eye(problem.num_classes)[index[1]], (problem.num_tokens, 1))
    return particles.grad(Problem(problem.inputs, problem.outputs, p, targets), w)


def test_isotropic_noise_has_the_covariance_of_projected_noise_on_weights():
    problem = cases.PROBLEMS["sphere, d < N < M"]
    draws = 20_000
    keys = jax.random.split(jax.random.key(0), draws)
    with jax.enable_x64(True):
        noise = jax.vmap(lambda key: particles.isotropic_noise(problem, key, 0.5))(keys)
    flat = np.asarray(noise).reshape(draws, -1)
    alpha, gram = particles.input_gram(problem), particles.output_gram(problem)
    expected = 0.25 * np.kron(alpha, gram)
    # Entries of a sample covariance of unit-size normals: deviation below sqrt(2 / draws) / 4.
    assert np.abs(flat.T @ flat / draws - expected).max() < 6 * 0.25 * np.sqrt(2 / draws)


def test_unusable_particles_are_refused():
    problem = cases.PROBLEMS["noisy targets"]
    w = np.zeros((6, 4))
    for call, message in (
        (lambda: particles.loss(problem, np.zeros((4, 6))), r"`w` must have shape \(N, M\)"),
        (lambda: particles.weights_to_scores(problem, np.eye(4)), r"`W` must have shape \(k, d\)"),
        (
            lambda: particles.coefficients_to_weights(problem, w, np.zeros(3)),
            r"`start` must have sh",
        ),
        (
            lambda: particles.gradient_noise(problem, w, np.zeros(6)),
            r"`brownian` must have shape \(",
        ),
        (lambda: particles.unseen_part(problem, np.eye(2)), r"`W` must have shape"),
        (lambda: particles.loss(w, problem), r"`problem` must be a Problem, got ndarray"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_law_of_tokens_serves_noisy_targets():
    problem = cases.PROBLEMS["noisy targets"]
    W = cases.weights(problem)
    with jax.enable_x64(True):
        system = memory.MemorySystem(problem)
        slope = jax.grad(lambda W: system.loss(W, problem.probs))(W)
        np.testing.assert_allclose(system.grad(W, problem.probs), slope, atol=1e-14)
        points = particles.ParticleSystem(problem)
        state = points.start(W)
        np.testing.assert_allclose(
            points.grad(state, problem.probs).scores, memory.scores(problem, slope), atol=1e-13
        )


@pytest.mark.parametrize("name", ["sphere, d < N < M", "noisy targets"])
def test_systems_are_linear_in_the_law_and_agree(name):
    problem = cases.PROBLEMS[name]
    W = cases.weights(problem)
    a, b = np.random.default_rng(0).standard_normal((2, *problem.law.shape))
    with jax.enable_x64(True):
        weights = memory.MemorySystem(problem)
        points = particles.ParticleSystem(problem)
        state = points.start(W)
        np.testing.assert_allclose(weights.loss(W), memory.loss(problem, W), rtol=1e-14)
        np.testing.assert_allclose(points.loss(state), memory.loss(problem, W), rtol=1e-13)
        np.testing.assert_allclose(weights.grad(W), memory.grad(problem, W), atol=1e-15)
        both = weights.grad(W, 2 * a - 3 * b)
        np.testing.assert_allclose(
            both, 2 * weights.grad(W, a) - 3 * weights.grad(W, b), atol=1e-12
        )
        moved = points.grad(state, a)
        np.testing.assert_allclose(
            moved.scores, memory.scores(problem, weights.grad(W, a)), atol=1e-13
        )
        np.testing.assert_allclose(points.loss(state, a), weights.loss(W, a), rtol=1e-11)
