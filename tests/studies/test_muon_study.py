"""The study of Muon's first step: what it counts, what it expects, and how it fits."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import engram
from engram.problem import gaussian
from engram.studies._first_steps import count_recalled, first_step, num_recalled
from engram.studies.muon import fitted_slope
from engram.theory import recovery

EXAMPLE = Path(__file__).parents[2] / "examples" / "study_muon.py"
NAMES = ["exact_muon", "muon", "plain"]


@pytest.fixture(scope="module")
def result():
    return engram.study("muon", tiny=True, optimizers=["exact_muon", "sign", "adam"])


@pytest.mark.parametrize("name", ["exact_muon", "sign"])
def test_a_first_step_is_the_first_step_of_a_run(name):
    problem = gaussian(3, 64, 64, 8, exponent=1.5, targets="identity")
    dynamics = {"kind": name, "learning_rate": 1.0, "steps": 1}
    run = engram.simulate(problem, dynamics, record="margins", events=False)
    W = first_step(problem, {"optimizer": name})
    np.testing.assert_allclose(W, run["final_weights"], atol=1e-9)
    recalled = run["margins"].values[-1] > 0
    assert [num_recalled(problem, W, k) for k in (1, 7, 64)] == [
        recalled[:k].sum() for k in (1, 7, 64)
    ]


def test_adams_first_step_is_sign_descents(result):
    counts = result.data["counts"]["recalled"]
    np.testing.assert_array_equal(counts.sel(optimizer="adam"), counts.sel(optimizer="sign"))


def test_theory_expects_what_exact_muon_recalls():
    """Counts add up nearly independent events; the theory itself is right up to a share of order d^-1/2."""
    d, seeds = 32, 6
    counts = count_recalled(d, [1.0], NAMES, seeds, lambda done, total: None).isel(exponent=0)
    p, tokens = recovery.zipf_ranks(d * d, 1.0)
    q = recovery.recall_probabilities(recovery.muon_signals(p, d, tokens), d, d * d)
    allowed = 4 * np.sqrt(tokens @ (q * (1 - q)) / seeds) + counts["expected"].item() / np.sqrt(d)
    exact, newton_schulz, plain = counts["recalled"].mean("seed").values
    assert abs(exact - counts["expected"].item()) < allowed
    assert abs(newton_schulz - counts["expected"].item()) < allowed, "so few are lifted by both"
    assert plain < counts["expected"].item() - allowed


def test_the_limit_is_the_published_exponent(result):
    limit = next(row for row in result.rows if "limit" in row.quantity)
    assert limit.reference == 1.5
    assert limit.is_met
    assert limit.interval[1] - limit.interval[0] < 0.01
    assert not any("nan" in finding for finding in result.findings)


def test_slopes_are_exact_for_power_laws_and_their_intervals_cover():
    dims = np.array([8, 16, 32, 64])
    exact = xr.DataArray(3.0 * dims[:, None] ** 1.5 * np.ones(3), {"dim": dims}, ("dim", "seed"))
    assert fitted_slope(exact) == (pytest.approx(1.5, abs=1e-12), pytest.approx(0, abs=1e-12))
    rng, covered, trials = np.random.default_rng(0), 0, 400
    for _ in range(trials):
        noisy = exact * np.exp(rng.normal(0, 0.05, exact.shape))
        slope, half = fitted_slope(noisy)
        covered += abs(slope - 1.5) <= half
    # 95 %, within four standard errors of the share
    assert abs(covered / trials - 0.95) < 4 * np.sqrt(0.95 * 0.05 / trials)
    assert np.isnan(fitted_slope(exact.isel(seed=[0]))[1])


def test_counts_are_those_among_the_frequent_tokens():
    counts = count_recalled(8, [1.0], ["plain"], 1, lambda done, total: None)
    assert 0 < counts["recalled"].values <= np.ceil(4 * recovery.muon_recall(1.0, 8, 64))


def test_the_example_runs(capsys):
    runpy.run_path(str(EXAMPLE))
    assert "the law: 31.6 times as many" in capsys.readouterr().out


def test_a_slope_needs_two_dimensions():
    with pytest.raises(engram.InputError, match="`dims` must have two values"):
        engram.study("muon", tiny=True, dims=[8])
