"""Trainings in real processes: killed and resumed, and shared by two that talk over loopback."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import xarray as xr

from engram.transformer import open_log

SIZES = ["--dim", "8", "--sequences", "8", "--length", "24", "--dtype", "float64", "--devices", "1"]


def command(out, *options):
    return [sys.executable, "-m", "engram", "train", *SIZES, "--out", str(out), *options]


def log_of(folder):
    return xr.open_zarr(folder / "log.zarr", consolidated=False).load()


def newest_step(folder):
    return max((int(path.stem[-8:]) for path in folder.glob("checkpoint-*.npz")), default=0)


def wait_for_step(folder, step, process):
    """Wait until a process has written a checkpoint of this step or a later one."""
    began = time.monotonic()
    while newest_step(folder) < step:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() - began < 120
        time.sleep(0.02)


def test_a_killed_training_resumes_to_the_same_numbers(tmp_path, surroundings, here):
    options = ["--matrices", "wk2", "-r", "5", "--steps", "400"]
    done = here("train", *SIZES, "--out", tmp_path / "whole", *options)
    assert done.returncode == 0, done.stderr
    # Checkpoints every moment, so that the kill falls between, or into, any of them.
    cut, hurry = tmp_path / "cut", ["--checkpoint-seconds", "0.05"]
    pipes = {"stderr": subprocess.PIPE, "text": True, "env": surroundings}
    run = subprocess.Popen(command(cut, *options, *hurry), **pipes)
    wait_for_step(cut, 10, run)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert newest_step(cut) < 400
    done = subprocess.run(command(cut, *options), **pipes, timeout=300)
    assert done.returncode == 0, done.stderr
    first, second = log_of(cut), log_of(tmp_path / "whole")
    assert second.sizes["step"] == 401
    for name in second.data_vars:
        np.testing.assert_array_equal(first[name], second[name])


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def two_processes(surroundings, out, *options):
    place = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2", "--process"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    pair = [
        subprocess.Popen(command(out, *options, *place, str(k)), **pipes, env=surroundings)
        for k in (0, 1)
    ]
    try:
        yield pair
    finally:
        for process in pair:
            with process:  # closes the pipes of one that was killed, which nobody reads to the end
                process.kill()


def test_two_processes_compute_the_gradient_of_one(tmp_path, surroundings, here):
    options = ["--matrices", "wk2", "-r", "5", "--steps"]
    with two_processes(os.environ, tmp_path / "two", *options, "3") as pair:
        output = [process.communicate(timeout=300) for process in pair]
    assert [process.returncode for process in pair] == [0, 0], output
    alone = here("train", *SIZES, "--out", tmp_path / "one", *options, "3")
    assert alone.returncode == 0, alone.stderr
    two, one = log_of(tmp_path / "two"), log_of(tmp_path / "one")
    for name in one.data_vars:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-11, atol=1e-12)
    # When one of them is killed, the other keeps what was done, and says so.
    hurry = ["--checkpoint-seconds", "0.05"]
    with two_processes(surroundings, tmp_path / "two", *options, "20000", *hurry) as pair:
        wait_for_step(tmp_path / "two", 10, pair[0])
        pair[1].kill()
        _, errors = pair[0].communicate(timeout=300)
    assert pair[0].returncode == 2
    assert "another process of this training has ended" in errors
    assert "start all processes again to resume" in errors
    assert "Traceback" not in errors
    kept = open_log(tmp_path / "two")
    assert kept.recorded == newest_step(tmp_path / "two")
    np.testing.assert_array_equal(kept.loss[:3], two.loss[:3])
