"""Muon's first step and its linear margins, against singular vectors and runs."""

import numpy as np
import pytest

import engram
from engram import capacity
from engram import dynamics as D
from engram.theory import HypothesisError, muon

LAWS = {
    "uniform": np.ones(6),
    "Zipf": 1 / np.arange(1.0, 7),
    "geometric": 0.5 ** np.arange(6),
    "one rare": np.r_[np.ones(5), 1e-4],
}


@pytest.mark.parametrize("law", LAWS)
def test_the_first_step_is_the_polar_factor_of_the_gradient(law):
    p = LAWS[law] / LAWS[law].sum()
    left, sizes, right = np.linalg.svd((np.eye(6) - 1 / 6) * p)
    polar = left[:, :5] @ right[:5]
    K = muon.first_step_shares(p)
    np.testing.assert_allclose(np.eye(6) - K, polar, atol=1e-10)
    np.testing.assert_allclose(K.sum(0), 1, atol=1e-13)
    margins = np.diag(polar) - np.where(np.eye(6) > 0, -np.inf, polar).max(0)
    np.testing.assert_allclose(muon.first_step_margins(1.0, p), margins, atol=1e-10)
    low, high = muon.first_step_ratio_bounds(p)
    assert low <= margins.min() / margins.max() <= high
    problem = engram.Problem(np.eye(6), np.eye(6), p, np.arange(6))
    run = engram.simulate(
        problem, engram.PracticalDescent(D.exact_muon(0.7), 1), record=("margins",)
    )
    np.testing.assert_allclose(run.margins[-1], 0.7 * margins, atol=1e-10)


def test_margins_are_equal_in_the_limit_if_no_token_is_much_rarer():
    ratio = lambda p: np.ptp(m := muon.first_step_margins(1.0, p / p.sum())) / m.max()
    assert ratio(1 / np.arange(1.0, 401)) < 0.01
    assert 1 - ratio(0.5 ** np.arange(40.0)) == pytest.approx(0.4176, abs=1e-3)
    assert 1 - ratio(np.r_[np.ones(399), 1e-4]) == pytest.approx(0.002, rel=1e-3)


def test_with_two_classes_muon_is_normalised_descent_with_linear_margins():
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    problem = engram.Problem(
        turned * [[1], [2], [0.5]], rng.normal(size=(2, 3)), [0.2, 0.3, 0.5], [0, 1, 0]
    )
    gain = muon.gain_per_step(1.0, problem)
    assert gain == pytest.approx(1 / np.linalg.norm(capacity.max_margin(problem)), rel=1e-8)
    for factor in (0.9, 1.1):
        rate = factor * 2 / gain
        runs = [
            engram.simulate(
                problem,
                engram.PracticalDescent(make(rate), 120),
                record=("margins",),
                space="weights",
            )
            for make in (D.exact_muon, D.normalised)
        ]
        np.testing.assert_allclose(runs[0].margins, runs[1].margins, rtol=1e-7)
        least = runs[0].margins.min("token").values
        assert (least <= rate * gain * np.arange(121) + 1e-9).all()
        slope = (least[-1] - least[60]) / 60 / (rate * gain)
        assert (slope > 0.999) == (factor < 1)
    with pytest.raises(HypothesisError, match="M = 2"):
        muon.gain_per_step(1.0, engram.one_hot(3, 3))


def test_exact_muon_leaves_out_what_is_rounding():
    polar = lambda G: -np.asarray(D.exact_muon(1.0).build().update(G, (), None)[0])
    G = np.outer(np.arange(1.0, 9), np.ones(8))
    assert np.linalg.norm(polar(G)) == pytest.approx(1)
    np.testing.assert_array_equal(polar(np.zeros((3, 2))), 0)
    np.testing.assert_allclose(polar(np.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)
