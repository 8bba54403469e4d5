"""Closed forms against autodiff and against 2400-bit arithmetic, where naive forms lose every digit."""

import functools

import equinox as eqx
import flint
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cases
import engram
from engram import memory, particles

flint.ctx.prec = 2400  # 1 - e^-1400 must not round to 1


def stable_loss(problem, W):
    """An account of the loss that autodiff can differentiate without cancellation."""
    w = problem.inputs @ W.T @ problem.outputs.T
    rows = jnp.arange(len(w))
    if problem.is_noisy:
        others = ~jnp.eye(w.shape[1], dtype=bool)
        wrong = jax.scipy.special.logsumexp(
            jnp.where(others[None], w[:, None, :], -jnp.inf), axis=2
        )
        return (problem.law * jax.nn.softplus(wrong - w)).sum()
    masked = w.at[rows, problem.targets].set(-jnp.inf)
    wrong = jax.scipy.special.logsumexp(masked, axis=1)
    return problem.probs @ jax.nn.softplus(wrong - w[rows, problem.targets])


def assert_close_relative(value, reference, tolerance):
    scale = np.abs(reference).max()
    np.testing.assert_allclose(value, reference, rtol=0, atol=tolerance * max(scale, 1e-300))


def normed_loss(problem, W):
    h = problem.inputs @ W.T
    unit = h / jnp.linalg.norm(h, axis=1, keepdims=True)
    moved = eqx.tree_at(lambda p: p.inputs, problem, unit)
    return stable_loss(moved, jnp.eye(problem.dim, dtype=W.dtype))


@functools.partial(jax.jit, static_argnames="normed")
def by_autodiff(problem, W, V, normed):
    fn = lambda W: (normed_loss if normed else stable_loss)(problem, W)
    value, g = jax.value_and_grad(fn)(W)
    return value, g, jax.jvp(jax.grad(fn), (W,), (V,))[1], jax.hessian(fn)(W)


# One shape, with more tokens than dimensions: test_memory_particles has the others, by code of its own.
@settings(max_examples=40)
@given(
    st.just((5, 4, 3)),
    st.integers(0, 10**6),
    st.floats(0, 5),
    st.booleans(),
    st.booleans(),
)
def test_closed_forms_match_autodiff(shape, seed, scale, noisy, normed):
    N, M, d = shape
    rng = np.random.default_rng(seed)
    problem = engram.Problem(
        rng.standard_normal((N, d)),
        rng.standard_normal((M, d)),
        rng.dirichlet(np.ones(N)),
        rng.dirichlet(np.ones(M), N) if noisy else rng.integers(0, M, N),
    )
    W, V = scale * rng.standard_normal((2, d, d))
    # With layer norm, a vector W e_x that is nearly zero magnifies rounding by its inverse norm.
    shrink = 1.0
    if normed:
        W = W + np.eye(d)
        shrink = 1 / min(1.0, np.linalg.norm(problem.inputs @ W.T, axis=1).min()) ** 2
    with jax.enable_x64(True):
        value, g, Hv, H = jax.device_get(by_autodiff(problem, W, V, normed))
    options = {"layer_norm": normed}
    tolerance = 1e-12 * shrink
    assert memory.loss(problem, W, **options) == pytest.approx(value, rel=tolerance, abs=0)
    # Both sides differ by eps times the terms of the sum, |u| |e|, as the scores do.
    e, u = (np.sqrt(np.square(a).sum(axis=1).max()) for a in (problem.inputs, problem.outputs))
    size = tolerance * max(1.0, e * u)
    np.testing.assert_allclose(memory.grad(problem, W, **options), g, rtol=0, atol=size)
    # Autodiff forms q - q <q, dw>, which cancels as q saturates: it is right to eps times its
    # terms, not times its result. (Ours is right to the last digits, as is shown below.)
    size *= shrink * max(1.0, e * u)
    np.testing.assert_allclose(memory.hessian(problem, W, **options), H, rtol=0, atol=size)
    size *= 1 + np.linalg.norm(V)
    np.testing.assert_allclose(memory.hvp(problem, W, V, **options), Hv, rtol=0, atol=size)


def exact(problem, W):
    """Loss and gradient in ball arithmetic, from the very floats that the library gets."""
    arb = flint.arb
    E, U = problem.inputs, problem.outputs
    N, M, d = problem.num_tokens, problem.num_classes, problem.dim
    loss, G = arb(0), [[arb(0)] * d for _ in range(d)]
    for x in range(N):
        h = [sum((arb(W[i, j]) * arb(E[x, j]) for j in range(d)), arb(0)) for i in range(d)]
        w = [sum((arb(U[y, i]) * h[i] for i in range(d)), arb(0)) for y in range(M)]
        target = int(problem.targets[x])
        Z = sum(((v - w[target]).exp() for v in w), arb(0))
        p = arb(problem.probs[x])
        loss += p * Z.log()
        for y in range(M):
            r = p * ((w[y] - w[target]).exp() / Z - (1 if y == target else 0))
            for i in range(d):
                for j in range(d):
                    G[i][j] += r * arb(U[y, i]) * arb(E[x, j])
    return float(loss.mid()), np.array([[float(g.mid()) for g in row] for row in G])


@pytest.mark.parametrize("margin", [30.0, 40.0, 100.0, 700.0, -700.0])
def test_loss_and_gradient_keep_their_digits_at_any_margin(margin):
    # Canonical embeddings: the scores are entries of W, exact, and what is left is the formula.
    problem = engram.one_hot(3, 4, exponent=1.0)
    W = np.random.default_rng(0).integers(-8, 9, (4, 4)) / 8
    W[range(3), range(3)] = W.max() + margin
    loss, G = exact(problem, W)
    assert memory.loss(problem, W) == pytest.approx(loss, rel=1e-14, abs=0)
    np.testing.assert_allclose(memory.grad(problem, W), G, rtol=1e-14, atol=0)
    w = particles.weights_to_scores(problem, W)
    # The log domain rounds scores of size |m|: relative errors of |m| eps.
    tolerance = 4 * max(abs(margin), 1) * np.finfo(float).eps
    assert particles.loss(problem, w) == pytest.approx(loss, rel=tolerance, abs=0)
    projected = particles.weights_to_scores(problem, G)
    np.testing.assert_allclose(particles.grad(problem, w), projected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("margin", [5.0, 30.0, 100.0, 700.0])
def test_hessian_products_keep_their_digits_at_any_margin(margin):
    arb = flint.arb
    problem = engram.one_hot(2, 3, exponent=1.0)
    W = np.random.default_rng(0).integers(-8, 9, (3, 3)) / 8
    W[range(2), range(2)] = W.max() + margin
    V = np.random.default_rng(1).integers(-8, 9, (3, 3)) / 8
    expected = np.zeros((3, 3))
    for x in range(2):  # the scores of token x are column x of W
        e = [(arb(W[y, x]) - arb(W[x, x])).exp() for y in range(3)]
        q = [v / sum(e, arb(0)) for v in e]
        mean = sum((q[y] * arb(V[y, x]) for y in range(3)), arb(0))
        for y in range(3):
            moved = arb(problem.probs[x]) * q[y] * (arb(V[y, x]) - mean)
            expected[y, x] = float(moved.mid())
    np.testing.assert_allclose(memory.hvp(problem, W, V), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("scale", [30.0, 40.0, 100.0, 700.0])
def test_random_embeddings_lose_only_what_the_scores_lose(scale):
    problem = engram.on_sphere(3, 4, 3, 6)
    W = scale * np.linalg.pinv(problem.outputs) @ np.eye(3, 4) @ np.linalg.pinv(problem.inputs).T
    loss, G = exact(problem, W)
    # A score of size s is rounded by about s eps, times the length of its sums.
    tolerance = 64 * scale * np.abs(W).max() * np.finfo(float).eps
    assert memory.loss(problem, W) == pytest.approx(loss, rel=tolerance, abs=0)
    assert_close_relative(memory.grad(problem, W), G, tolerance)
    naive = 1 - memory.recall_probs(problem, W)[0, 0]
    assert naive == 0 or scale < 40, "the naive form should have lost all digits by now"


@pytest.mark.parametrize("scale", [1e4, -1e4])
def test_everything_is_finite_at_scores_of_ten_thousand(scale):
    problem = cases.PROBLEMS["sphere, d > N"]
    W = cases.weights(problem, scale)
    assert np.abs(memory.scores(problem, W)).max() > 1e3
    for name in ("loss", "grad", "token_losses", "margins", "sharpness", "error_rate", "hessian"):
        assert np.isfinite(getattr(memory, name)(problem, W)).all(), name
    w = particles.weights_to_scores(problem, W)
    for name in ("loss", "grad", "token_losses", "margins", "sharpness", "error_rate"):
        assert np.isfinite(getattr(particles, name)(problem, w)).all(), name


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", cases.PROBLEMS, ids=str)
def test_autodiff_of_the_loss_is_the_gradient_also_at_ties(name):
    problem = cases.PROBLEMS[name]
    for W in (problem.zero_weights, cases.weights(problem)):
        slope = jax.grad(lambda W: memory.loss(problem, W))(W)
        np.testing.assert_allclose(slope, memory.grad(problem, W), atol=1e-15)
    H = jax.hessian(lambda W: memory.loss(problem, W))(W)
    np.testing.assert_allclose(H, memory.hessian(problem, W), atol=1e-13)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("margin", [30.0, 100.0, 700.0])
def test_autodiff_of_the_loss_keeps_its_digits(margin):
    problem = engram.orthonormal(3, 3)
    W = margin * np.eye(3)
    slope = jax.grad(lambda W: memory.loss(problem, W))(W)
    np.testing.assert_allclose(slope, memory.grad(problem, W), rtol=1e-12, atol=0)


def test_curvature_of_many_classes_keeps_its_digits():
    problem = engram.orthonormal(3, 3)
    for margin in (30.0, 300.0, 700.0):
        W = margin * np.eye(3)
        dense = memory.spectrum(problem, W)[0]
        assert memory.sharpness(problem, W) == pytest.approx(dense, rel=1e-11, abs=0)
        w = particles.weights_to_scores(problem, W)
        assert particles.sharpness(problem, w) == pytest.approx(dense, rel=1e-11, abs=0)
    single = memory.sharpness(problem.astype("float32"), 60 * np.eye(3, dtype=np.float32))
    assert single == pytest.approx(memory.sharpness(problem, 60 * np.eye(3)), rel=1e-4, abs=0)


def test_large_scores_cost_no_digits_of_small_margins():
    problem = engram.orthonormal(1, 3)
    W = np.zeros((3, 3))
    for height in (0.0, 1e4, 1e6):
        W[:, 0] = height + np.array([30.0, 0.0, 0.0])
        for value in (memory.grad(problem, W)[1, 0], particles.score_grad(problem, W.T[:1])[0, 1]):
            expected = np.exp(-30.0) / (1 + 2 * np.exp(-30.0))
            assert value == pytest.approx(expected, rel=1e-14, abs=0)


def test_curvature_keeps_its_digits_when_learnt():
    # Two classes, one token: the Hessian is sigma(m) sigma(-m) |u1 - u2|^2 |e|^2 in one direction.
    problem = engram.one_hot(1, 2)
    for margin in (30.0, 100.0, 700.0):
        W = np.array([[margin, 0.0], [0.0, 0.0]])
        curvature = np.exp(-margin) / (1 + np.exp(-margin)) ** 2
        assert memory.sharpness(problem, W) == pytest.approx(2 * curvature, rel=1e-12, abs=0)
        w = particles.weights_to_scores(problem, W)
        assert particles.sharpness(problem, w) == pytest.approx(2 * curvature, rel=1e-11, abs=0)
