"""The harness measures what it says; the benchmarks run. Speed itself is not tested here."""

import json
import subprocess
import sys
import time

import pytest

from engram.bench import Benchmark, Limits, NoPeer, Side, _harness, measure, processor_seconds


class Clock:
    """A clock that moves only when it is moved."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now

    def calls(self, *durations):
        """Something to call, which takes these times one after the other."""
        left = list(durations)

        def call():
            self.now += left.pop(0)

        return call


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_harness, "time", clock)
    return clock


def test_rates_are_units_over_the_median_and_the_first_call_is_apart(clock, monkeypatch):
    ours, theirs = clock.calls(50, 1, 2, 4, 3, 90), clock.calls(70, 8, 16, 8, 8, 8)
    benchmark = Benchmark(
        "known", "one unit", lambda: (Side(ours, 6), Side(theirs)), against="a peer", flops=3.0
    )
    monkeypatch.setattr(Limits, "seconds", lambda limits, dtype, flops, exps: flops / 12)
    row = measure(benchmark, Limits(), repeats=5)
    assert (row.first, row.peer_first) == (50, 70)
    assert (row.engram, row.peer, row.ratio) == (6 / 3, 1 / 8, 16)
    assert (row.spread, row.peer_spread) == (pytest.approx((4 - 2) / 3), 0)
    assert row.limit_fraction == pytest.approx(0.25 * 2)  # the limit's time per unit over ours
    assert (row.name, row.work, row.against) == ("known", "one unit", "a peer")


def test_a_benchmark_may_use_fewer_rounds_and_no_warm_up(clock):
    ours, theirs = clock.calls(1, 3), clock.calls(10, 30)
    benchmark = Benchmark(
        "cold", "one", lambda: (Side(ours), Side(theirs)), repeats=2, warm_up=False
    )
    row = measure(benchmark, Limits(), repeats=5)
    assert (row.engram, row.peer, row.ratio) == (1 / 2, 1 / 20, 10)
    assert (row.first, row.peer_first, row.limit_fraction) == (None, None, None)


def test_a_missing_peer_says_so():
    def prepare():
        yield Side(lambda: "it works")
        raise NoPeer("no peer here")

    row = measure(Benchmark("alone", "one", prepare, "a peer"), Limits(), repeats=1)
    assert (row.peer, row.ratio, row.against) == (None, None, "")
    assert row.note == "it works; no peer here"


def test_processor_time_stands_still_while_others_work_and_counts_processes_that_ended():
    sleep = Benchmark("s", "one", lambda: 2 * [Side(lambda: time.sleep(0.2))])
    row = measure(sleep, Limits(), repeats=1, clock=processor_seconds)
    assert row.engram > 10  # a fiftieth of 0.2 s, say, not 5 per second
    before = processor_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert processor_seconds() - before > 0.01


def test_limits_are_positive_and_combine():
    limits = Limits()
    one = limits.seconds("float64", 1e6, 0.0)
    assert 0 < one < 1
    assert limits.seconds("float64", 2e6, 0.0) == pytest.approx(2 * one)
    assert limits.seconds("float64", 0.0, 0.0) == 0


def test_the_command_prints_json_with_the_promised_fields(here, monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "true")  # which the command sets to false
    done = here("bench", "many-dimensions", "--json", "--repeats", 1)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert {"name", "work", "engram", "peer", "ratio", "limit_fraction"} <= set(row)
    assert row["name"] == "many-dimensions"
    assert row["engram"] > 0
    assert row["peer"] is not None or "pip install torch" in row["note"]
