"""The harness measures what it says; the works run. Speed itself is not tested here."""

import json
import subprocess
import sys
import time

import pytest

from engram.bench import Limits, Side, Work, measure


def test_ratio_of_known_sleeps():
    work = Work(
        "sleep",
        "a nap",
        lambda: (Side(lambda: time.sleep(0.01), 2), Side(lambda: time.sleep(0.02))),
    )
    found = measure(work, Limits(), repeats=3)
    assert found.ratio == pytest.approx(4, rel=0.3)
    assert found.limit_fraction is None
    assert found.peer is not None


def test_a_missing_peer_says_so():
    work = Work("alone", "one", lambda: (Side(lambda: None), "no peer here"))
    found = measure(work, Limits(), repeats=1)
    assert (found.peer, found.ratio, found.note) == (None, None, "no peer here")


def test_limits_are_positive_and_combine():
    limits = Limits()
    one = limits.seconds("float64", 1e6, 0.0)
    assert 0 < one < 1
    assert limits.seconds("float64", 2e6, 0.0) == pytest.approx(2 * one)
    assert limits.seconds("float64", 0.0, 0.0) == 0


def test_the_command_prints_json_with_the_promised_fields():
    command = [
        sys.executable,
        "-m",
        "engram",
        "bench",
        "many-dimensions",
        "--json",
        "--repeats",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (row,) = json.loads(done.stdout)
    assert {"name", "work", "engram", "peer", "ratio", "limit_fraction"} <= set(row)
    assert row["name"] == "many-dimensions"
    assert row["engram"] > 0
    assert row["peer"] is not None or "engram[bench]" in row["note"]
