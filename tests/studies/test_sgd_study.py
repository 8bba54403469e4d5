"""One pass of stochastic descent: prefixes of a pass, the authors' grid, and settings that do not fit."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import engram
from engram import capacity
from engram._errors import InputError
from engram.studies import read_study


@pytest.fixture(scope="module")
def result():
    return engram.study("sgd", tiny=True)


def test_the_first_samples_of_a_pass_are_a_shorter_pass(result):
    whole = result.data["plain_10"].error
    asked = read_study("sgd", tiny=True)
    first = capacity.one_pass_errors(
        10, {"optimizer": "plain"}, False, asked.batch_sizes, [64], asked.learning_rates, asked.num_tokens,
        asked.num_classes, asked.exponent, asked.draws, asked.seed, progress=lambda done, total: None,
    )  # fmt: skip
    np.testing.assert_array_equal(first.error.sel(samples=64), whole.sel(samples=64))
    assert (whole.sel(samples=64) != whole.sel(samples=128)).any()


def test_rates_of_signs_are_divided_by_the_dimension(result):
    assert {name: part.attrs["unit"] for name, part in result.data.items()} == {
        "plain_10": "",
        "sign_10": "/d",
    }
    assert result.findings[0].startswith("Least mean error at d = 10 after 128 samples: ")


def grid(mean):
    """A part as the study has it, at the authors' settings, with a given mean and hardly a spread."""
    values = np.array([mean, mean + 1e-4])[None, None, :, None]
    return xr.Dataset(
        {"error": (("batch", "learning_rate", "draw", "samples"), values)},
        {"batch": [64], "learning_rate": [10.0], "samples": [10240]},
        {"label": "plain", "dim": 10, "unit": ""},
    )


def test_the_stored_grid_is_compared_at_its_own_settings_only():
    assert read_study("sgd").compare({"plain_10": grid(0.04)})[0].is_met
    assert not read_study("sgd").compare({"plain_10": grid(0.06)})[0].is_met
    row = read_study("sgd", exponent=1.5).compare({"plain_10": grid(0.04)})[0]
    assert row.reference is None
    other = grid(0.04).assign_attrs(label="sign")
    assert read_study("sgd").compare({"sign_10": other}) == []


def test_a_pass_ends_with_a_whole_batch():
    with pytest.raises(InputError, match="multiples of `batch_sizes`.*got 100 and 64"):
        engram.study("sgd", samples=[100], batch_sizes=[64])


def test_the_example_prints_what_it_says(capsys):
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "study_sgd.py"))
    assert re.search(r"(?s)adam, b1 0.0, b2 0.9.*at learning rate 10*/d", capsys.readouterr().out)
