"""How much random memories store: Newton's decisions against linear programs, and the curve against Cover."""

import itertools

import numpy as np
import pytest

import engram
from engram import capacity
from engram._checks import InputError
from engram.capacity._curve import half_points
from engram.capacity._newton import decide
from engram.theory import scaling


def test_newton_decides_as_linear_programs_do():
    rng, decided = np.random.default_rng(1), []
    for _ in range(60):
        d, M, N = (int(rng.integers(*ends)) for ends in ((1, 6), (2, 7), (1, 14)))
        E, U, targets = rng.normal(size=(N, d)), rng.normal(size=(M, d)), rng.integers(0, M, N)
        answer = decide(E, U, targets)
        decided.append(answer)
        problem = engram.Problem(E, U, np.full(N, 1 / N), targets)
        assert answer in (None, capacity.is_separable(problem))
    assert {True, False} <= set(decided)


def test_a_draw_stores_as_many_of_its_first_tokens_as_can_be_stored():
    rng = np.random.default_rng(2)
    for _ in range(5):
        E, U = rng.normal(size=(2, 30, 3))
        number = capacity.num_stored(E, U)
        for n, fits in ((number, True), (number + 1, False)):
            problem = engram.Problem(E[:n], U[:n], np.full(n, 1 / n), np.arange(n))
            assert capacity.is_separable(problem) == fits
    with pytest.raises(InputError, match="30 tokens need a class each, got 2 targets"):
        capacity.num_stored(E, U, [0, 1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[np.nan]], [[1.0]]), "`inputs` must be finite"),
        (([[1.0]], [[np.inf]]), "`outputs` must be finite"),
        (([[1.0]], [[1.0], [2.0]], [-1]), "from 0 to 1, got .-1"),
        (([[1.0]], [[1.0], [2.0]], [2]), "from 0 to 1, got .2"),
        (([[1.0]], [[1.0], [2.0]], [0.5]), "whole numbers"),
        ((np.ones((2000, 2000)), np.ones((2000, 2000))), "`dim` = 2000 would need about"),
    ],
)
def test_what_cannot_be_stored_is_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        capacity.num_stored(*arguments)


def test_a_curve_of_dimensions_that_do_not_fit_is_refused_before_any_draw():
    with pytest.raises(InputError, match="`dim` = 3000 would need about"):
        capacity.capacity_curve([3, 3000], draws=1)


def test_two_classes_are_stored_as_often_as_cover_says():
    d, draws = 4, 120
    stored = capacity.capacity_curve(d, num_classes=2, draws=draws).stored.values[0]
    N = np.arange(3, 16)
    share = (stored[:, None] >= N).mean(0)
    # Kolmogorov's bound at one in a thousand: 1.95 standard deviations of the largest difference.
    assert np.abs(share - capacity.storage_probability(N, d)).max() < 1.95 / np.sqrt(draws)
    assert scaling.capacity(d, 2) == pytest.approx(2 * d)


def test_half_of_the_draws_are_on_either_side_of_the_half_point():
    rng = np.random.default_rng(3)
    stored = np.floor(rng.logistic(40, 2, (1, 400))).astype(int)
    half, low, high = half_points(stored, rng)[0]
    assert low < half < high
    assert half == pytest.approx(40, abs=0.8)  # five standard errors
    assert high - low < 1


def test_the_cost_of_a_token_is_the_distance_to_a_cone():
    """By its definition: how far a normal vector is from those whose first entry is the largest, squared."""
    rng = np.random.default_rng(4)
    for M in (2, 3, 12):
        g = rng.normal(size=(20_000, M))
        others = -np.sort(-g[:, 1:], axis=1)
        # The nearest point ties the first with the k largest others, at their common mean.
        level, done = g[:, 0].copy(), np.zeros(len(g), bool)
        for k in range(M - 1):
            done |= others[:, k] <= level
            tied = (g[:, 0] + others[:, : k + 1].sum(1)) / (k + 2)
            level = np.where(done, level, tied)
        distance = (level - g[:, 0]) ** 2 + (np.maximum(others - level[:, None], 0) ** 2).sum(1)
        error = distance.std() / np.sqrt(len(g))
        assert scaling.parameters_per_token(M) == pytest.approx(distance.mean(), abs=4 * error)
    assert scaling.parameters_per_token(3) == pytest.approx(5 / 6, rel=1e-12)
    large = [scaling.parameters_per_token(M) / (2 * np.log(M)) for M in (10**3, 10**5, 10**7)]
    assert all(a < b < 1 for a, b in itertools.pairwise(large))
