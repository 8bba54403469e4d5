"""Studies: settings are checked, parts are computed once, what is known is met or said not to be."""

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import engram
from engram._errors import InputError
from engram.cli._main import app
from engram.registry import KINDS, entries, load_plugin, table
from engram.studies import Row, Work, read_study, spec_text

PLUGIN = Path(__file__).with_name("own_study.py")


@pytest.fixture
def own():
    """The plugin with the study "own"; its names go with the test."""
    known = {kind: dict(entries(kind)) for kind in KINDS}
    load_plugin(str(PLUGIN))
    module = sys.modules["own_study"]
    yield module
    del sys.modules["own_study"]
    for kind, before in known.items():
        entries(kind).clear()
        entries(kind).update(before)


@pytest.fixture
def command():
    def run(*words):
        result = CliRunner().invoke(app, ["study", *map(str, words)])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_a_study_is_resumed_from_its_parts(own, tmp_path):
    first = engram.study("own", tiny=True, out=tmp_path)
    assert first.reused == []
    assert {path.name for path in first.files} == {
        f"own.{end}" for end in ("html", "png", "pdf", "json")
    }
    before = (tmp_path / "own.png").read_bytes()
    again = engram.study(tmp_path / "study.toml", out=tmp_path)
    assert again.reused == ["losses"]
    assert (tmp_path / "own.png").read_bytes() == before
    for name, part in first.data.items():
        xr.testing.assert_identical(part, again.data[name])
    (tmp_path / "parts" / "losses.nc").write_bytes(b"cut off")
    shutil.rmtree(tmp_path / "parts" / "squares.zarr")
    third = engram.study("own", tiny=True, out=tmp_path)
    assert third.reused == []
    for name, part in first.data.items():
        xr.testing.assert_identical(part, third.data[name])


def test_parts_are_the_same_in_memory_and_in_a_folder(own, tmp_path):
    here, there = engram.study("own", steps=3), engram.study("own", steps=3, out=tmp_path)
    np.testing.assert_array_equal(here.data["losses"].last, there.data["losses"].last)
    np.testing.assert_array_equal(here.data["squares"].value, [0, 1, 4])
    assert here.files == []
    assert here.rows == there.rows


def test_another_study_does_not_take_over_a_folder(own, tmp_path):
    engram.study("own", tiny=True, out=tmp_path)
    with pytest.raises(InputError, match=r"steps: 5 there, 6 now.*Name another"):
        engram.study("own", steps=6, out=tmp_path)


def test_a_part_is_computed_again_if_what_it_is_made_of_changed(tmp_path):
    times = lambda factor: xr.Dataset({"x": ("n", factor * np.arange(3.0))})
    plus = lambda factor: xr.Dataset({"x": ("n", factor + np.arange(3.0))})
    for function, factor, value, reused in [
        (times, 2.0, 2, []), (times, 2.0, 2, ["x"]), (times, 3.0, 3, []), (plus, 3.0, 4, []),
    ]:  # fmt: skip
        work = Work(tmp_path)
        assert work.keep("x", function, factor=factor).x[1] == value
        assert work.reused == reused
    with pytest.raises(InputError, match="numbers, names, lists and tables"):
        work.keep("x", times, factor=np.arange(3.0))


def test_specs_say_the_settings_and_can_be_changed(own, tmp_path):
    asked = read_study("own", steps=7)
    path = tmp_path / "mine.toml"
    path.write_text(spec_text(asked))
    assert "steps = 7  # Steps of each run." in path.read_text()
    assert read_study(path) == asked
    path.write_text(path.read_text().replace("steps = 7", "steps = 8"))
    assert read_study(path) == dataclasses.replace(asked, steps=8)
    assert table(read_study(table(asked))) == table(asked)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"steps": 0}, "study.steps: must be at least 1, got 0"),
        ({"steps": 2.5}, "must be a whole number, got 2.5"),
        ({"step": 3}, "Did you mean 'steps'"),
        ({"rates": [1.0, -1.0]}, "study.rates.1: must be at least 0, got -1.0"),
    ],
)
def test_settings_are_checked(own, settings, match):
    with pytest.raises(InputError, match=match):
        engram.study("own", **settings)


def test_lists_must_not_be_empty_and_a_spec_is_not_tiny(own, tmp_path):
    with pytest.raises(InputError, match=r"study.rates: must not be empty, got \[\]"):
        engram.study("own", rates=[])
    path = tmp_path / "mine.toml"
    path.write_text(spec_text(read_study("own")))
    with pytest.raises(InputError, match="Leave one out"):
        engram.study(path, tiny=True)


def test_a_part_is_computed_again_if_a_plugin_that_it_names_changed(tmp_path):
    plugin = tmp_path / "slow_descent.py"
    text = """
import engram
from engram.registry import register

@register("optimizer", "slowly")
def slowly(learning_rate: float = 1.0):
    return engram.dynamics.plain(SCALE * learning_rate)
"""
    known = dict(entries("optimizer"))
    part = lambda optimizers: xr.Dataset({"x": len(optimizers)})
    try:
        for scale, reused in (("1.0", []), ("1.0", ["x"]), ("5.0", [])):
            plugin.write_text(text.replace("SCALE", scale))
            entries("optimizer").pop("slowly", None)
            sys.modules.pop("slow_descent", None)
            load_plugin(str(plugin))
            work = Work(tmp_path / "parts")
            work.keep("x", part, optimizers=["sign", {"optimizer": "slowly"}])
            assert work.reused == reused
    finally:
        sys.modules.pop("slow_descent", None)
        entries("optimizer").clear()
        entries("optimizer").update(known)


def test_a_sweep_whose_function_changed_begins_again(tmp_path):
    sweeps = []
    for power in (2, 2, 3):
        values = (
            Work(tmp_path).sweep("p", lambda n, power=power: n**power, {"n": np.arange(3.0)}).value
        )
        sweeps.append(values.values.tolist())
    assert sweeps == [[0, 1, 4], [0, 1, 4], [0, 1, 8]]


def test_other_settings_have_a_folder_of_their_own(own, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["own"], ["own", "--tiny"], ["own", "--tiny", "--set", "rates=[0.5]"]):
        assert command(*words).exit_code == 0
    folders = sorted(path.name for path in (tmp_path / "out" / "studies").iterdir())
    assert len(folders) == 3
    assert folders[0] == "own"


def test_an_unknown_study_is_refused_with_those_that_come_close(own):
    with pytest.raises(InputError, match="Did you mean 'own'"):
        engram.study("owm")


def test_a_row_is_met_where_the_intervals_overlap():
    assert Row("x", 1.0).is_met is None
    assert Row("x", 1.0, 0.8, 1.2, reference=1.3, error=0.1).is_met
    assert not Row("x", 1.0, 0.8, 1.2, reference=1.35, error=0.1).is_met
    assert Row("x", 1.0, reference=1.0).is_met
    assert not Row("x", float("nan"), reference=1.0).is_met


def test_the_command_lists_asks_and_prints_specs(own, command, tmp_path):
    assert "How far descent gets." in command("--list").output
    assert "steps = 50" in command("own", "--spec").output
    result = command("own", "--tiny", "--set", "rates=[0.5]", "--out", tmp_path / "a")
    assert result.exit_code == 0, result.output
    assert "2 of 2 known numbers are met" in result.output
    record = json.loads((tmp_path / "a" / "own.json").read_text())
    assert record["study"] == {"name": "own", "rates": [0.5], "steps": 5}
    assert [row["is_met"] for row in record["rows"]] == [True, True]
    page = (tmp_path / "a" / "own.html").read_text()
    for words in (own.Own.question, own.Own.known[0], own.Own.open[0], *record["findings"]):
        assert words in page


def test_a_number_that_is_not_met_is_a_failed_check(own, command, tmp_path, monkeypatch):
    monkeypatch.setattr(own.Own, "compare", lambda self, data: [Row("x", 1.0, reference=2.0)])
    result = command("own", "--tiny", "--out", tmp_path)
    assert result.exit_code == 1
    assert "0 of 1 known numbers are met" in result.output
