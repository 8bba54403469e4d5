"""Trainings in real processes: killed and resumed, and shared by two that talk over loopback."""

import signal
import socket
import subprocess
import sys
import time

import numpy as np
import xarray as xr

SIZES = ["--dim", "8", "--sequences", "8", "--length", "24", "--dtype", "float64", "--devices", "1"]


def command(out, *options):
    return [sys.executable, "-m", "engram", "train", *SIZES, "--out", str(out), *options]


def log_of(folder):
    return xr.open_zarr(folder / "log.zarr", consolidated=False).load()


def test_a_killed_training_resumes_to_the_same_numbers(tmp_path, surroundings, here):
    options = ["--matrices", "wk2", "-r", "5", "--steps", "400"]
    # Checkpoints every moment, so that the kill falls between, or into, any of them.
    cut, hurry = tmp_path / "cut", ["--checkpoint-seconds", "0.05"]
    pipes = {"stderr": subprocess.PIPE, "text": True, "env": surroundings}
    run = subprocess.Popen(command(cut, *options, *hurry), **pipes)
    waited = time.monotonic()
    while len(list(cut.glob("checkpoint-*.npz"))) < 2:
        assert run.poll() is None, run.stderr.read()
        assert time.monotonic() - waited < 120
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    reached = max(int(path.stem[-8:]) for path in cut.glob("checkpoint-*.npz"))
    assert reached < 400
    done = subprocess.run(command(cut, *options), **pipes, timeout=300)
    assert done.returncode == 0, done.stderr
    done = here("train", *SIZES, "--out", tmp_path / "whole", *options)
    assert done.returncode == 0, done.stderr
    first, second = log_of(cut), log_of(tmp_path / "whole")
    assert second.sizes["step"] == 401
    for name in second.data_vars:
        np.testing.assert_array_equal(first[name], second[name])


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_two_processes_compute_the_gradient_of_one(tmp_path, surroundings, here):
    options = ["--matrices", "wk2", "-r", "5", "--steps", "3"]
    place = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2", "--process"]
    pair = [
        subprocess.Popen(
            command(tmp_path / "two", *options, *place, str(k)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings,
        )
        for k in (0, 1)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=300) for process in pair]
    finally:
        for process in pair:
            process.kill()
    assert [process.returncode for process in pair] == [0, 0], said
    alone = here("train", *SIZES, "--out", tmp_path / "one", *options)
    assert alone.returncode == 0, alone.stderr
    two, one = log_of(tmp_path / "two"), log_of(tmp_path / "one")
    for name in one.data_vars:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-11, atol=1e-12)
