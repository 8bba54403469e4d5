"""What one step of Muon recalls of Gaussian associations, against random matrices and limits."""

import numpy as np
import pytest

from engram.theory import HypothesisError, recovery


@pytest.mark.parametrize("exponent", [0.75, 2.0])
def test_signals_add_up_to_the_nuclear_norm(exponent):
    """<G, polar(G)> is the sum of G's singular values, and that of p(x) times the signals."""
    rng, d, draws = np.random.default_rng(0), 24, 12
    p, _ = recovery.zipf_ranks(d * d, exponent, apart=d * d)
    norms = []
    for _ in range(draws):
        E, U = rng.normal(size=(2, d * d, d)) / np.sqrt(d)
        norms.append(np.linalg.svd((U * p[:, None]).T @ E, compute_uv=False).sum())
    error = np.std(norms, ddof=1) / np.sqrt(draws)
    assert abs(np.mean(norms) - p @ recovery.muon_signals(p, d)) < 4 * error


def test_equal_frequencies_give_the_quarter_circle():
    """Then G has independent entries in the limit, whose singular values have a known mean."""
    d, N = 10, 10**7
    signal = recovery.muon_signals([1.0], d, [N])[0]
    assert signal == pytest.approx(8 / (3 * np.pi) * np.sqrt(d / N), rel=2 * d / N + 1e-6)


def test_frequent_tokens_are_learnt_whole_and_rare_ones_in_proportion():
    p, counts = recovery.zipf_ranks(10**6, 2.0)
    signals = recovery.muon_signals(p, 1000, counts)
    assert 0 < 1 - signals[0] < 1 / 1000  # about one other token in d is as frequent
    rare = signals[-50:] / p[-50:]
    np.testing.assert_allclose(rare, rare[-1], rtol=1e-3)
    assert (np.diff(signals) < 0).all()
    np.testing.assert_allclose(recovery.muon_signals(7e-9 * p, 1000, counts), signals, rtol=1e-9)


def test_groups_of_tokens_stand_for_their_members():
    whole = recovery.muon_recall(1.0, 40, 1600)
    p = recovery.zipf_ranks(1600, 1.0, apart=1600).probs
    q = recovery.recall_probabilities(recovery.muon_signals(p, 40), 40, 1600)
    assert whole == pytest.approx(q.sum(), rel=1e-4)
    assert recovery.muon_recall(1.0, 40, 1600, among=50) == pytest.approx(q[:50].sum(), rel=1e-4)
    counts = np.repeat(3.0, 100)
    p = np.geomspace(1, 1e-3, 100)
    np.testing.assert_allclose(
        recovery.muon_signals(p, 20, counts), recovery.muon_signals(np.repeat(p, 3), 20)[::3]
    )


def test_without_a_signal_recall_is_by_chance():
    np.testing.assert_allclose(recovery.recall_probabilities([0.0], 5, 1000), 1 / 1000, rtol=1e-6)
    assert recovery.recall_probabilities([4.0], 100, 1000)[0] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("exponent", [0.75, 1.0, 2.0])
def test_the_law_without_its_logarithm_is_the_limit(exponent):
    """count = d (d / b_N^2)^(1/2a); what is left falls like the square of 1 / log d, so twice d halves it."""
    dims = [2**k for k in (20, 28, 40)]
    counts = np.log([recovery.muon_recall(exponent, d, d * d) / d for d in dims])
    x = np.log([d / recovery.noise_quantile(d * d) ** 2 for d in dims])
    early, late = np.diff(counts) / np.diff(x) - recovery.recall_exponent(exponent, "plain")
    assert abs(late) < min(1e-3, abs(early))


def test_hypotheses_are_checked():
    with pytest.raises(HypothesisError, match="more tokens than dimensions"):
        recovery.muon_signals(np.ones(5), 5)
    with pytest.raises(HypothesisError, match="probs > 0"):
        recovery.muon_signals([1.0, 0.0, 1.0], 2)
    with pytest.raises(HypothesisError, match="exponent > 1/2"):
        recovery.recall_exponent(0.5)
