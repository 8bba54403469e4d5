"""Sweeps in real processes: killed, resumed, on two workers with one killed; the same bits in the end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import engram

SPEC = """
[problem]
family = "two"
[dynamics]
kind = "gd"
steps = 300
[axes]
p1 = [0.6, 0.7, 0.8, 0.9]
correlation = { linspace = [0.5, 0.999, 8] }
learning_rate = { logspace = [-1, 1, 32] }
[sweep]
observables = ["first_perfect", "final_loss"]
chunk = 32
"""
UNITS = 32


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The sweep in one go."""
    path = tmp_path_factory.mktemp("whole") / "spec.toml"
    path.write_text(SPEC)
    return engram.sweep(path)


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


def command(spec, out, *options):
    return [
        sys.executable,
        "-m",
        "engram",
        "sweep",
        str(spec),
        "--out",
        str(out),
        "--threads",
        "1",
        *options,
    ]


def raw(path):
    return xr.open_zarr(path, consolidated=False, chunks=None).load()


def num_done(path):
    marks = path / "done" / "c"
    return sum(1 for each in marks.rglob("*") if each.is_file()) if marks.exists() else 0


@pytest.mark.slow
def test_killed_twice_it_ends_with_the_same_bits(spec, whole, tmp_path, surroundings):
    out, killed = tmp_path / "s.zarr", 0
    for target in (3, 17):
        process = subprocess.Popen(
            command(spec, out),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=surroundings,
        )
        while num_done(out) < target and process.poll() is None:
            time.sleep(0.005)
        if process.poll() is None:
            process.kill()
            killed += 1
        process.wait()
    assert killed == 2
    before = num_done(out)
    assert 17 <= before < UNITS
    pipes = {"capture_output": True, "text": True, "env": surroundings}
    done = subprocess.run(command(spec, out), **pipes, check=True)
    assert f"computed {UNITS - before} units, reused {before}" in done.stdout
    found = raw(out)
    for name in ("first_perfect", "final_loss"):
        np.testing.assert_array_equal(found[name], whole[name])
    assert (found.done == 1).all()
    # At each kill one unit was being computed and one being written, at most: no other was begun twice.
    assert int(found.attempts.sum()) <= UNITS + 2 * killed


@pytest.mark.slow
def test_a_worker_is_killed_while_starting_and_another_at_work(spec, whole, tmp_path, surroundings):
    pytest.importorskip("distributed")
    out = tmp_path / "s.zarr"
    pipes = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": surroundings,
    }
    process = subprocess.Popen(command(spec, out, "--workers", "2"), **pipes)
    while not (starting := children_of(process.pid)) and process.poll() is None:
        time.sleep(0.01)
    os.kill(starting[0], signal.SIGKILL)
    while num_done(out) < 4 and process.poll() is None:
        time.sleep(0.05)
    workers = children_of(process.pid)
    assert workers, "no worker process was found"
    os.kill(workers[0], signal.SIGKILL)
    output, error = process.communicate(timeout=240)
    assert process.returncode == 0, error
    found = raw(out)
    for name in ("first_perfect", "final_loss"):
        np.testing.assert_array_equal(found[name], whole[name])
    assert (found.done == 1).all()
    assert int(found.attempts.sum()) <= UNITS + 2, output


def children_of(pid):
    """Processes below this one that compute: the workers' own, not their keepers."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                line = Path(f"/proc/{entry}/cmdline").read_text()
            except OSError:
                continue
            if int(fields[1]) == pid and "spawn_main" in line:
                found.append(int(entry))
    return found


def test_an_unwritable_folder_is_reported_in_one_line(spec, tmp_path, here):
    (tmp_path / "file").write_text("")
    done = here("sweep", spec, "--out", tmp_path / "file" / "s.zarr", "--threads", 1)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2
