"""The verdicts of Figure 7 follow from its numbers."""

import numpy as np
import pytest

from engram.figures import _training, fig7_transformer
from engram.figures.fig7_findings import falls, is_together, lowest, verdict


def test_spikes_and_oscillation_are_counted():
    assert _training.num_spikes([4, 3, 2, 1]) == 0
    assert _training.num_spikes([4, 2, 2.1, 5, 4, 1, 1.2, np.nan]) == 2
    up, down = np.array([[0.0], [1.0], [3.0]]), np.array([[3.0], [1.0], [0.0]])
    assert _training.taken_back(up) == _training.taken_back(down) == 0  # neither oscillates
    assert _training.taken_back(np.hstack([up, down])) == 0
    assert _training.taken_back(np.array([[0.0], [2.0], [1.0]])) == pytest.approx(2 / 3)
    assert _training.taken_back(np.array([[0.0], [2.0], [0.0], [np.nan]])) == 1


def test_growing_together_takes_growth_and_likeness():
    rng = np.random.default_rng(0)
    alike = 5 + rng.standard_normal(64)
    zero = np.zeros(64)
    assert is_together(zero, alike)
    assert not is_together(alike + 1, alike)  # they fell
    half = np.where(np.arange(64) < 33, 0.001, -5.0)
    assert not is_together(zero - 9, half)
    few = np.where(np.arange(64) == 0, 100.0, 0.1)
    assert not is_together(zero, few)


def test_lowest_ignores_values_that_are_not_finite():
    assert lowest([np.nan, 3.0, 2.0]) == 2
    assert lowest([np.nan, np.nan]) == 0
    assert falls([3, 2, np.nan, 1]) == [True, False, False]


def test_a_verdict_weighs_every_place_where_it_could_be_seen():
    assert verdict(*falls([3, 2, 1])) == "Shown"
    assert verdict(*falls([3, 2, 4])) == "Shown in part"
    assert verdict(*falls([3, np.nan])) == "Not shown at this scale"
    assert verdict(*falls([3])) == "Not tested"


def test_an_estimate_counts_every_training_and_the_longest_again(monkeypatch):
    """Again, as a spike that is to be explained may be at its end; and the plain model's losses."""
    monkeypatch.setattr(fig7_transformer, "_per_sequence", lambda config: (1e-3, 1e-4))
    settings = fig7_transformer.Settings(
        dims=(64,), rates=(2.0, 5.0), steps=10, sequences=100, adam_steps=5, adam_batch=8
    )
    trainings = 3 * 10 * 100 * 1e-3 + 5 * 8 * 1e-3  # two rates, bigram outputs; Adam
    expected = trainings + 10 * 100 * 1e-3 + 2 * 100 * 1e-4
    assert fig7_transformer.estimate(settings) == pytest.approx(expected, rel=1e-12)
