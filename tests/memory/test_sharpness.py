"""Lanczos against dense eigenvalues, also where it is delicate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cases
import engram
from engram import memory
from engram.special import largest_eigenpairs


@pytest.fixture(params=cases.PROBLEMS, ids=str)
def problem(request):
    return cases.PROBLEMS[request.param]


@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
def test_top_eigenpairs_match_dense_ones(problem, scale):
    W = cases.weights(problem, scale)
    num = min(3, W.size)
    pairs = memory.top_eigenpairs(problem, W, num)
    dense = memory.spectrum(problem, W)[:num]
    size = max(dense[0], np.finfo(float).tiny)
    # eps^(2/3) residuals; an eigenvalue is nearer still (its error is quadratic in the residual).
    assert (pairs.residuals <= 1e-10 * size).all()
    np.testing.assert_allclose(pairs.values, dense, atol=1e-10 * size)
    for value, V, residual in zip(*pairs, strict=True):
        left = memory.hvp(problem, W, V) - value * V
        assert np.linalg.norm(left) == pytest.approx(residual, abs=1e-14)
        assert np.linalg.norm(V) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("name", ["sphere, d < N < M", "one token in one dimension"])
def test_the_sharpness_is_the_largest_eigenvalue(name, scale):
    problem = cases.PROBLEMS[name]
    W = cases.weights(problem, scale)
    dense = memory.spectrum(problem, W)[0]
    assert memory.sharpness(problem, W) == pytest.approx(dense, rel=1e-10, abs=1e-300)


def test_repeated_eigenvalues_are_counted():
    problem = engram.orthonormal(4, 4)
    values = memory.top_eigenpairs(problem, np.zeros((4, 4)), 14).values
    # p (diag(q) - q q^T) at q = 1/4: eigenvalue 1/16, 4 tokens x 3 directions; then zeros.
    np.testing.assert_allclose(values, [1 / 16] * 12 + [0] * 2, atol=1e-14)


def test_restricted_spectrum_leaves_out_only_zeros(problem):
    W = cases.weights(problem)
    whole, part = (memory.spectrum(problem, W, restricted=r) for r in (False, True))
    np.testing.assert_allclose(whole[: len(part)], part, atol=1e-14)
    np.testing.assert_allclose(whole[len(part) :], 0, atol=1e-14)
    B, A = memory.update_bases(problem)
    assert len(part) == B.shape[1] * A.shape[1]


def test_two_tokens_at_zero_have_the_known_sharpness():
    alpha, p1 = 0.95, 0.75
    problem = engram.two_tokens(alpha, p1)
    expected = 2 / 8 * (1 + np.sqrt(1 - 4 * p1 * (1 - p1) * (1 - alpha**2)))
    assert memory.sharpness(problem, np.zeros((2, 2))) == pytest.approx(expected, rel=1e-13)


def test_too_many_eigenpairs_are_refused():
    with pytest.raises(ValueError, match=r"`num` must be at most k d = 4, got 5"):
        memory.top_eigenpairs(engram.two_tokens(0.5, 0.75), np.zeros((2, 2)), 5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("n", [1, 48, 49, 300])
def test_lanczos_on_a_known_spectrum(n):
    rng = np.random.default_rng(n)
    Q = jnp.asarray(np.linalg.qr(rng.standard_normal((n, n)))[0])
    values = np.sort(rng.standard_normal(n))[::-1].copy()  # indefinite
    A = Q @ jnp.diag(values) @ Q.T
    start = jax.random.normal(jax.random.key(0), (n,))
    k = min(n, 4)
    pairs = largest_eigenpairs(lambda v: A @ v, start, k)
    assert (pairs.residual <= 1e-9).all()
    np.testing.assert_allclose(pairs.value, values[:k], atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_lanczos_of_the_zero_operator_is_zero():
    pair = largest_eigenpairs(lambda v: 0 * v, jnp.ones(5))
    assert pair.value == 0
    assert pair.residual == 0
