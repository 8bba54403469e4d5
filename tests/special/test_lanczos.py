"""Lanczos on spectra that are known beforehand, the delicate ones among them."""

import functools

import jax
import numpy as np
import pytest

from engram.special import largest_eigenpairs

SIZE = 30  # more than the basis holds, so that it restarts
NUM = 4
SPECTRA = {
    "indefinite": np.linspace(-3, 2, SIZE),
    "negative": -np.linspace(1, 2, SIZE),
    "one value thrice": np.r_[np.linspace(-1, 1, SIZE - 3), 2, 2, 2],
    "one value throughout": np.full(SIZE, 0.7),
    "rank one": np.r_[np.zeros(SIZE - 1), 5],
    "a pair that almost agrees": np.r_[np.linspace(0, 1, SIZE - 2), 2, 2 + 1e-6],
    "tiny": 1e-180 * np.linspace(-1, 3, SIZE),
    "huge": 1e180 * np.linspace(-1, 3, SIZE),
    "zero": np.zeros(SIZE),
}


@functools.partial(jax.jit, static_argnames=("num", "tolerance"))
def eigenpairs(A, start, num, tolerance=None):
    return largest_eigenpairs(lambda v: A @ v, start, num, tolerance=tolerance)


def symmetric(values, seed=0):
    n = len(values)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    A = (Q * values) @ Q.T
    return (A + A.T) / 2


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", SPECTRA)
def test_the_largest_values_come_in_falling_order_with_orthonormal_vectors(name):
    A = symmetric(SPECTRA[name])
    start = np.random.default_rng(1).standard_normal(SIZE)
    values, vectors, residuals = jax.device_get(eigenpairs(A, start, NUM))
    size = np.abs(SPECTRA[name]).max()
    # The default tolerance, eps^(2/3) = 3.7e-11 of the operator's size.
    assert (residuals <= 4e-11 * size).all()
    np.testing.assert_allclose(values, np.sort(SPECTRA[name])[::-1][:NUM], atol=4e-11 * size)
    assert (np.diff(values) <= 4e-11 * size).all()
    if size:  # where the operator is zero, so may be a vector
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(NUM), atol=1e-8)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", [name for name in SPECTRA if name not in ("tiny", "huge")])
def test_residuals_are_those_measured(name):
    A = symmetric(SPECTRA[name])
    start = np.random.default_rng(1).standard_normal(SIZE)
    values, vectors, residuals = jax.device_get(eigenpairs(A, start, NUM))
    left = np.linalg.norm(vectors @ A - values[:, None] * vectors, axis=1)
    np.testing.assert_allclose(residuals, left, atol=1e-13 * np.abs(SPECTRA[name]).max())


@pytest.mark.usefixtures("x64")
def test_a_start_that_is_spent_early_is_followed_by_others():
    A, start = np.diag(np.arange(SIZE, 0.0, -1)), np.zeros(SIZE)
    start[:2] = 1  # within two eigenvectors, and four are asked for
    assert eigenpairs(A, start, NUM).value == pytest.approx(np.arange(SIZE, SIZE - NUM, -1))


@pytest.mark.usefixtures("x64")
def test_a_loose_tolerance_stops_early_and_shows_it():
    A = symmetric(np.linspace(0, 1, 200))
    start = np.random.default_rng(1).standard_normal(200)
    value, vector, residual = (field[0] for field in eigenpairs(A, start, 1, tolerance=3e-2))
    assert residual == pytest.approx(np.linalg.norm(A @ vector - value * vector), abs=1e-14)
    assert abs(value - 1) <= residual  # an eigenvalue lies that near
    assert 1e-6 < residual <= 3e-2


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("value", [-2.0, 0.0, 3.0])
def test_one_dimension_has_its_only_value(value):
    pair = jax.device_get(eigenpairs(np.full((1, 1), value), np.array([0.5]), 1))
    assert (pair.value[0], pair.residual[0]) == (value, 0)
    assert abs(pair.vector[0, 0]) == (1 if value else abs(pair.vector[0, 0]))


@pytest.mark.usefixtures("x64")
def test_all_values_are_found_when_the_basis_holds_the_whole_space():
    n = 22
    values = np.sort(np.random.default_rng(n).standard_normal(n))[::-1]
    start = np.random.default_rng(1).standard_normal(n)
    pairs = jax.device_get(eigenpairs(symmetric(values), start, n))
    np.testing.assert_allclose(pairs.value, values, atol=1e-10)
    assert (pairs.residual <= 1e-10).all()
