"""The study of facts: its stages, its intervals, small starts, and learners of one's own."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import engram
from engram import InputError
from engram.studies._intervals import mean_row, slope_of
from engram.studies._recall import network_holds, stages

EXAMPLE = Path(__file__).parents[2] / "examples" / "study_facts.py"
S, R, D = 4, 2, 2


def a_run(first: float, second: float) -> xr.Dataset:
    """A run that learns the relation about one step, and the answer within it about another."""
    steps = np.arange(0, 400.0)
    relation = 1 / (1 + np.exp(-(steps - first) / 5)) / 2 + 0.5
    answer = 1 / (1 + np.exp(-(steps - second) / 5)) / 2 + 0.5
    p = np.zeros((len(steps), S, R, R, D))
    targets = np.zeros((S, R), int)
    for s in range(S):
        for r in range(R):
            targets[s, r] = (s + r) % 2
            p[:, s, r, r] = (relation * (1 - answer))[:, None]
            p[:, s, r, r, targets[s, r]] = relation * answer
            p[:, s, r, 1 - r] = ((1 - relation) / D)[:, None]
    loss = -np.log(relation * answer)
    probabilities = p.reshape(len(steps), S * R, R * D)
    return xr.Dataset(
        {"loss": ("step", loss), "probabilities": (("step", "token", "class"), probabilities)},
        {"step": steps},
    )


def test_stages_are_found_where_they_are():
    found = stages(a_run(100.0, 300.0), S, R, D)
    # Each loss begins at log 2 and is halved at a probability of 2^-1/2, where the sigmoid is sqrt 2 - 1.
    level = np.sqrt(2) - 1
    halved = 5 * np.log(level / (1 - level))
    assert float(found.relation_step) == pytest.approx(100 + halved, abs=0.05)
    assert float(found.fact_step) == pytest.approx(300 + halved, abs=0.05)
    assert float(found.plateau) == pytest.approx(np.log(D), abs=1e-6)
    assert float(found.plateau_within) == pytest.approx(np.log(D), abs=1e-6)


@pytest.mark.parametrize(("first", "second"), [(100.0, 108.0), (300.0, 100.0)])
def test_without_a_plateau_between_there_is_none(first, second):
    found = stages(a_run(first, second), S, R, D)
    assert np.isnan(float(found.plateau))
    assert np.isfinite(float(found.relation_step) + float(found.fact_step))


def test_what_is_not_learnt_has_no_step():
    assert np.isnan(float(stages(a_run(100.0, 1e3), S, R, D).fact_step))


def test_intervals_are_those_of_the_textbook():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 9))
    fit = stats.linregress(x, y)
    half = stats.t.ppf(0.975, 7) * fit.stderr
    np.testing.assert_allclose(
        slope_of(x, y), (fit.slope, fit.slope - half, fit.slope + half), rtol=1e-12
    )
    row = mean_row("y", y)
    low, high = stats.t.interval(0.95, 8, y.mean(), stats.sem(y))
    np.testing.assert_allclose(row.interval, (low, high), rtol=1e-12)
    assert mean_row("y", [2.0]).interval == (2.0, 2.0)


def test_small_starts_take_as_much_longer_as_tokens_grow():
    result = engram.study("facts", tiny=True)
    known = [row for row in result.rows if row.reference is not None]
    assert [row.quantity.split()[2:4] for row in known] == [["the", "relation"], ["the", "fact"]]
    assert result.is_met
    assert all(row.error < 0.05 * row.reference for row in known)
    held = result.data["matrix"].held
    assert (held.isel(size=-1) > 0).all()


def test_a_network_holds_whole_subjects():
    done = []
    held = network_holds([3], 5, R, D, 1, lambda *each: done.append(each)).held.item()
    assert held % R == 0
    assert 0 < held <= 30
    assert done == [(1, 1)]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (["W"], "models.0: must be a table"),
        ([{"dynamics": {"kind": "gd"}, "lable": "x"}], "models.0: unknown 'lable'"),
        ([{"label": "x"}], "must have `dynamics`"),
        ([{"dynamics": {"steps": 3}}], "models.0.dynamics: must be a table with `kind`"),
    ],
)
def test_a_wrong_model_is_refused_before_anything_is_computed(models, words):
    with pytest.raises(InputError, match=words):
        engram.study("facts", tiny=True, models=models)


def test_the_example_runs(capsys):
    runpy.run_path(str(EXAMPLE))
    out = capsys.readouterr().out
    assert "softmax attention: the relation first" in out
    assert "Adam: " in out
