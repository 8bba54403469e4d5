"""Scalar functions against exact ones: no digit is lost on either side, in NumPy and in JAX."""

import flint
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from engram import special

EPS = np.finfo(float).eps


def exactly(function, points):
    """A function of balls, at three hundred bits, rounded to float64."""
    before, flint.ctx.prec = flint.ctx.prec, 300
    try:
        return np.array([float(function(flint.arb(float(point)))) for point in points])
    finally:
        flint.ctx.prec = before


POINTS = np.r_[-700.0, -40, -37, -1, -1e-3, -1e-17, 0, 1e-17, 0.3, 1, 36, 37, 40, 700]
FUNCTIONS = {
    "sigmoid": (special.sigmoid, lambda x: 1 / (1 + (-x).exp())),
    "softplus": (special.softplus, lambda x: x.exp().log1p()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("library", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.usefixtures("x64")
def test_no_digit_cancels_on_either_side(name, library):
    function, exact = FUNCTIONS[name]
    # An exponential of 700 amplifies the rounding of its argument 700 times at most; libraries are nearer.
    np.testing.assert_allclose(
        function(library.asarray(POINTS)), exactly(exact, POINTS), rtol=1e-14
    )


@pytest.mark.parametrize("library", ["numpy", "jax"])
@pytest.mark.usefixtures("x64")
def test_sums_of_exponentials_neither_overflow_nor_vanish(library):
    rows = np.array([[0.0, 1.0, -2.0], [1000.0, 999.0, 0.0], [-1000.0, -1001.0, -5000.0]])
    both = lambda x, axis: (special.logsumexp(x, axis), special.softmax(x, axis))
    if library == "jax":
        both = jax.jit(both, static_argnums=1)
    top = rows.max(axis=1, keepdims=True)
    total = np.log(np.exp(rows - top).sum(axis=1, keepdims=True)) + top
    for sums, shares in (both(rows, -1), (part.T for part in both(rows.T, 0))):
        np.testing.assert_allclose(sums, total, rtol=4 * EPS)
        # The rounding of a thousand is that of its exponential's digits.
        np.testing.assert_allclose(shares, np.exp(rows - total), rtol=1e-12)
        np.testing.assert_allclose(np.sum(shares, axis=1), 1, rtol=4 * EPS)


GRID = np.r_[-np.geomspace(1e3, 1e-12, 300), 0, np.geomspace(1e-12, 1e12, 500)]


def test_log_omega_solves_its_equation():
    m = special.log_omega(GRID)
    # Each side is rounded once, m by half a unit of y at most where it is steep.
    np.testing.assert_allclose(m + np.exp(m), GRID, rtol=1e-12, atol=4 * EPS)
    exact = exactly(lambda y: y - y.exp().lambertw(), GRID)
    np.testing.assert_allclose(m, exact, rtol=4 * EPS, atol=4 * EPS)
    assert (np.diff(m) > 0).all()
    assert special.log_omega(1.0) == pytest.approx(0, abs=EPS)
    assert special.log_omega(1 + np.e) == pytest.approx(1, rel=4 * EPS)
    np.testing.assert_array_equal(
        special.log_omega(np.array([-np.inf, np.inf, np.nan])), [-np.inf, np.inf, np.nan]
    )


@pytest.mark.usefixtures("x64")
def test_log_omega_is_the_same_in_jax_and_has_its_derivative():
    y = jnp.asarray(GRID)
    m, slope = jax.jvp(special.log_omega, (y,), (jnp.ones_like(y),))
    np.testing.assert_allclose(m, special.log_omega(GRID), rtol=4 * EPS, atol=4 * EPS)
    np.testing.assert_allclose(slope, 1 / (1 + np.exp(m)), rtol=1e-9)


@pytest.mark.parametrize("library", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.usefixtures("x64")
def test_bisection_finds_each_entrys_root(library):
    squares = library.asarray([0.25, 2.0, 9.0])
    roots = special.bisect(
        lambda x: x * x < squares, library.zeros(3), library.asarray([1.0, 2.0, 10.0])
    )
    np.testing.assert_allclose(roots, [0.5, 2**0.5, 3], rtol=2 * EPS)


@pytest.mark.parametrize("library", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize("halvings", [0, 1, 5])
@pytest.mark.usefixtures("x64")
def test_bisection_halves_as_often_as_asked(library, halvings):
    low, high, turn = library.asarray(0.0), library.asarray(32.0), 20.3
    middle = special.bisect(lambda x: x < turn, low, high, halvings=halvings)
    width = 32 / 2**halvings
    # The middle of the cell, of those that halving leaves, in which the turn lies.
    assert middle == (turn // width + 0.5) * width


def test_bisection_at_the_ends():
    assert special.bisect(lambda x: True, 0.0, 1.0) == 1
    assert special.bisect(lambda x: False, 0.0, 1.0) < 1e-29
