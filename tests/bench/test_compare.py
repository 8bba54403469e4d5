"""What is called slower is slower beyond noise, and noise alone is called nothing."""

import dataclasses
import json

import numpy as np
import pytest

from engram._checks import InputError
from engram.bench import Measured, compare, read_measured
from engram.bench._harness import median_interval


def row(name, ratio, *, within=0.02, rate=10.0):
    interval = (ratio * (1 - within), ratio * (1 + within))
    return Measured(name, "w", "peer", rate, rate / ratio, ratio, None, 0.1, 0.1, None, None, "",
                    (rate * (1 - within), rate * (1 + within)), interval)  # fmt: skip


def verdicts(then, now):
    return {each.name: each.verdict for each in compare(then, now)}


def test_only_what_leaves_both_intervals_has_moved():
    then = [row("a", 2.0), row("b", 2.0), row("c", 2.0), row("gone", 1.0)]
    now = [row("a", 1.9), row("b", 1.99), row("c", 2.1), row("new", 1.0)]
    assert verdicts(then, now) == {"a": "slower", "b": "same", "c": "faster"}
    (change, *_) = compare(then, now)
    assert change.change == pytest.approx(0.95)
    assert (change.low, change.high) == pytest.approx((0.95 * 0.98 / 1.02, 0.95 * 1.02 / 0.98))


def test_the_speed_of_the_machine_does_not_count_unless_a_peer_is_missing():
    then, now = row("a", 2.0), row("a", 2.0, rate=5.0)
    assert verdicts([then], [now]) == {"a": "same"}
    alone = dataclasses.replace(now, peer=None, ratio=None, ratio_interval=None)
    (change,) = compare([then], [alone])
    assert (change.of, change.verdict, change.change) == ("rate", "slower", 0.5)


def test_runs_that_differ_among_themselves_widen_the_noise():
    assert verdicts([row("a", 2.0), row("a", 1.8)], [row("a", 1.85)]) == {"a": "same"}


def test_the_interval_holds_the_median_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = [
        low <= 0 <= high
        for low, high in (median_interval(rng.standard_cauchy(15)) for _ in range(2000))
    ]
    # Of draws of 15 rounds all but 0.74 % hold it; four standard deviations of 2000 draws.
    assert abs(np.mean(held) - 0.9926) < 4 * np.sqrt(0.0074 / 2000)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"name": "a"}]', "[[]]"])
def test_a_file_of_another_kind_gets_one_line(tmp_path, text):
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(InputError, match="engram bench --json"):
        read_measured(tmp_path / "b.json")


def test_what_was_written_is_read_again(tmp_path):
    rows = [row("a", 2.0), row("b", 3.0)]
    (tmp_path / "b.json").write_text(json.dumps([dataclasses.asdict(each) for each in rows]))
    assert verdicts(read_measured(tmp_path / "b.json"), rows) == {"a": "same", "b": "same"}


def test_the_command_compares_with_a_file(here, tmp_path):
    first = here("bench", "many-dimensions", "--json", "--repeats", 1)
    (tmp_path / "then.json").write_text(first.stdout)
    done = here("bench", "--compare", tmp_path / "then.json", "--json", "--repeats", 1)
    assert done.returncode == 0, done.stderr
    assert [each["name"] for each in json.loads(done.stdout)] == ["many-dimensions"]
    assert "1 compared" in done.stderr
