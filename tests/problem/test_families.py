"""Each family has the geometry that its name promises."""

import jax
import numpy as np
import pytest

import engram
from engram import _memory_limits, particles
from engram._checks import InputError
from engram.problem import uniform, zipf


@pytest.mark.parametrize("correlation", [-1.0, -0.5, 0.0, 0.95, 0.9999, 1.0])
@pytest.mark.parametrize("dim", [2, 5])
def test_two_tokens(correlation, dim):
    problem = engram.two_tokens(correlation, 0.75, dim=dim)
    gram = [[1, correlation], [correlation, 1]]
    np.testing.assert_allclose(particles.input_gram(problem), gram, atol=1e-15)
    np.testing.assert_array_equal(particles.output_gram(problem), np.eye(2))
    np.testing.assert_array_equal(problem.probs, [0.75, 0.25])
    np.testing.assert_array_equal(problem.targets, [0, 1])
    assert problem.dim == dim


@pytest.mark.parametrize("key", [None, 3])
def test_orthonormal(key):
    problem = engram.orthonormal(4, 3, dim=6, key=key)
    np.testing.assert_allclose(particles.input_gram(problem), np.eye(4), atol=1e-15)
    np.testing.assert_allclose(particles.output_gram(problem), np.eye(3), atol=1e-15)
    np.testing.assert_array_equal(problem.targets, [0, 1, 2, 0])
    np.testing.assert_allclose(problem.probs, 0.25)


def test_one_hot_scores_are_the_entries_of_the_weights():
    problem = engram.one_hot(3, 3)
    W = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(engram.memory.scores(problem, W), W.T)


def test_on_sphere_has_unit_rows_and_gaussian_has_them_on_average():
    sphere = engram.on_sphere(0, 50, 40, 7)
    for rows in (sphere.inputs, sphere.outputs):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-14)
    normal = engram.gaussian(0, 2000, 2, 10)
    squares = np.square(normal.inputs)
    # 20,000 squares of variance 2 / d^2: a mean of 1 / d to 1%, at five standard errors.
    assert squares.mean() == pytest.approx(1 / 10, abs=5 * np.sqrt(2 / 20_000) / 10)


def test_keys_and_seeds_mean_the_same_and_x64_changes_nothing():
    a = engram.on_sphere(7, 4, 3, 5)
    b = engram.on_sphere(jax.random.key(7), 4, 3, 5)
    with jax.enable_x64(True):
        c = engram.on_sphere(7, 4, 3, 5)
    for other in (b, c):
        np.testing.assert_array_equal(a.inputs, other.inputs)
        np.testing.assert_array_equal(a.outputs, other.outputs)
    assert not np.array_equal(a.inputs, engram.on_sphere(8, 4, 3, 5).inputs)


def test_from_gram_has_that_gram_also_when_singular():
    gram = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])  # rank 2
    problem = engram.from_gram(gram, np.eye(2), dim=2)
    np.testing.assert_allclose(particles.input_gram(problem), gram, atol=1e-14)
    assert problem.dim == 2


def test_frequencies():
    np.testing.assert_allclose(uniform(4), 0.25)
    np.testing.assert_allclose(zipf(3, 1.0), np.array([6, 3, 2]) / 11, rtol=1e-15)
    np.testing.assert_allclose(zipf(3, 0.0), 1 / 3, rtol=1e-15)
    np.testing.assert_allclose(engram.on_sphere(0, 3, 2, 2).probs, zipf(3, 1.0))
    np.testing.assert_allclose(engram.on_sphere(0, 3, 2, 2, exponent=2.0).probs, zipf(3, 2.0))
    np.testing.assert_allclose(engram.on_sphere(0, 3, 2, 2, probs="uniform").probs, 1 / 3)
    for family in (engram.orthonormal, engram.one_hot):
        np.testing.assert_allclose(family(3, 3, probs="zipf").probs, zipf(3, 1.0))
        np.testing.assert_allclose(family(3, 3, exponent=2.0).probs, zipf(3, 2.0))
        np.testing.assert_allclose(family(3, 3).probs, 1 / 3)
    assert np.isfinite(zipf(30, -1000.0)).all()
    given = engram.on_sphere(0, 3, 2, 2, probs=[0.2, 0.3, 0.5])
    np.testing.assert_array_equal(given.probs, [0.2, 0.3, 0.5])


def test_targets():
    make = lambda t, **k: engram.on_sphere(0, 4, 4, 3, targets=t, **k).targets
    np.testing.assert_array_equal(make("identity"), range(4))
    np.testing.assert_array_equal(make("mod"), range(4))
    np.testing.assert_array_equal(make([3, 2, 1, 0]), [3, 2, 1, 0])
    drawn = engram.on_sphere(0, 3000, 3, 2, targets="random").targets
    # Each class about 1000 times, with a deviation of 26.
    assert np.abs(np.bincount(drawn) - 1000).max() < 5 * 26


REFUSED = {
    "correlation": (lambda: engram.two_tokens(1.5, 0.5), r"`correlation` must lie in \[-1, 1\], got 1.5"),
    "nan": (lambda: engram.two_tokens(float("nan"), 0.5), r"`correlation` must lie in .*, got nan"),
    "p1": (lambda: engram.two_tokens(0.5, 1.2), r"`p1` must lie in \[0, 1\], got 1.2"),
    "dim": (lambda: engram.two_tokens(0.5, 0.5, dim=1), r"`dim` must be at least 2, got 1"),
    "too small": (lambda: engram.orthonormal(5, 3, dim=4), r"orthonormal vectors, 5, got 4"),
    "no tokens": (lambda: engram.on_sphere(0, 0, 2, 2), r"`num_tokens` must be at least 1, got 0"),
    "one class": (lambda: engram.on_sphere(0, 2, 1, 2), r"`num_classes` must be at least 2, got 1"),
    "no dim": (lambda: engram.gaussian(0, 2, 2, 0), r"`dim` must be at least 1, got 0"),
    "not psd": (
        lambda: engram.from_gram([[1.0, 2.0], [2.0, 1.0]], np.eye(2)),
        r"`input_gram` must be positive semi-definite, got the eigenvalue -1",
    ),
    "asymmetric": (
        lambda: engram.from_gram([[1.0, 0.5], [0.0, 1.0]], np.eye(2)),
        r"`input_gram` must be symmetric, got entries that differ by 0.5",
    ),
    "not square": (lambda: engram.from_gram(np.eye(2, 3), np.eye(2)), r"square, got shape \(2, 3\)"),
    "rank": (lambda: engram.from_gram(np.eye(3), np.eye(2), dim=2), r"rank of `input_gram`, which is 3"),
    "identity": (lambda: engram.on_sphere(0, 4, 3, 2, targets="identity"), r"N = 4 > M = 3"),
    "random": (lambda: engram.orthonormal(3, 3, targets="random"), r"draws: pass `key`"),
    "target name": (lambda: engram.on_sphere(0, 3, 3, 2, targets="other"), r"got 'other'"),
    "probs name": (lambda: engram.on_sphere(0, 3, 3, 2, probs="zeta"), r"got 'zeta'"),
    "two laws": (
        lambda: engram.on_sphere(0, 3, 3, 2, probs="uniform", exponent=1.0),
        r"`exponent` = 1.0 belongs to Zipf's law",
    ),
    "gram": (lambda: engram.from_gram(3, np.eye(2)), r"`input_gram` must have shape \(N, N\)"),
    "exponent": (lambda: zipf(3, float("inf")), r"`exponent` must be finite, got inf"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_impossible_families_are_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("size", [2**32, 2**63 - 1, 10**30])
def test_sizes_beyond_memory_are_refused_before_anything_is_made(size):
    for make in (
        lambda: engram.two_tokens(0.5, 0.5, dim=size),
        lambda: engram.one_hot(size, 3),
        lambda: engram.orthonormal(3, 3, dim=size, key=0),
        lambda: engram.on_sphere(0, 4, size, 5),
        lambda: engram.gaussian(0, 4, 3, size),
        lambda: engram.from_gram(np.eye(2), np.eye(2), dim=size),
    ):
        with pytest.raises(InputError, match="must be at most 2147483647, got"):
            make()


def test_sizes_whose_product_exceeds_memory_are_refused_with_the_size_in_gib(monkeypatch):
    monkeypatch.setattr(_memory_limits, "_memory", lambda: 2**34)
    said = "`dim` = 1000000000 would need about 209 GiB, and this machine has 16.0 GiB"
    with pytest.raises(InputError, match=said):
        engram.on_sphere(0, 4, 3, 10**9)
    assert engram.on_sphere(0, 4000, 500, 512).inputs.shape == (4000, 512)


@pytest.mark.usefixtures("x32")
def test_one_hot_is_named_when_precisions_mix():
    with pytest.raises(InputError, match="`one_hot` computes in float64"):
        jax.jit(lambda a: engram.one_hot(3, 3, exponent=a).probs)(1.0)
