"""`engram simulate` as it is typed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest
import xarray as xr

import engram
from engram.specs import _build


@pytest.fixture
def run(here):
    return lambda *args: here("simulate", *args)


@pytest.mark.settings
def test_defaults_show_the_spike(run, tmp_path):
    done = run("--out", tmp_path / "run.nc", "--plot", tmp_path / "run.png")
    assert done.returncode == 0, done.stderr
    assert "first at step 2, kept from step 15" in done.stdout
    assert "1.34866 at most" in done.stdout
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as data:
        direct = engram.simulate(engram.two_tokens(0.95, 0.75), engram.GradientDescent(10.0, 34))
        np.testing.assert_array_equal(data.loss, direct.loss)
        np.testing.assert_allclose(data.problem_inputs, [[1, 0], [0.95, np.sqrt(0.05 * 1.95)]])
    assert (tmp_path / "run.png").read_bytes()[:4] == b"\x89PNG"


def test_a_spec_file_and_options_over_it(run, tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(
        '[problem]\nfamily = "sphere"\nnum_tokens = 5\nnum_classes = 5\ndim = 10\nseed = 1\n'
        '[dynamics]\nkind = "sgd"\nlearning_rate = 1.0\nsteps = 30\nbatch_size = 4\n'
        '[run]\nrecord = ["loss", "margins"]\nseed = 2\n'
    )
    done = run(spec, "--steps", "12", "--out", tmp_path / "a.nc")
    assert done.returncode == 0, done.stderr
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as data:
        assert data.sizes["step"] == 13
        direct = engram.simulate(
            engram.on_sphere(1, 5, 5, 10), engram.StochasticGradientDescent(1.0, 12, 4), key=2
        )
        np.testing.assert_array_equal(data.loss, direct.loss)


def test_every_fault_of_a_spec_is_reported_at_once(run, tmp_path):
    spec = tmp_path / "bad.toml"
    spec.write_text(
        '[problem]\nfamily = "two"\ncorrelation = 1.5\np1 = "x"\n'
        '[dynamics]\nkind = "gdd"\nsteps = -3\n[run]\nrecord = ["los"]\nfoo = 1\n'
    )
    done = run(spec)
    assert done.returncode == 2
    for place in (
        "6 faults",
        "problem.correlation",
        "problem.p1",
        "dynamics.kind",
        "dynamics.steps",
        "run.record: must be 'loss', 'batch_loss'",
        "run.foo: no such field",
    ):
        assert place in done.stderr
    assert "Traceback" not in done.stderr


def test_fields_that_would_be_ignored_are_faults(run, tmp_path):
    spec = tmp_path / "more.toml"
    spec.write_text(
        '[problem]\nfamily = "sphere"\nnum_tokens = -1\n'
        '[dynamics]\nkind = "gd"\nlearning_rate = 1.0\nsteps = 5\nmomentum = 0.9\nlayer_norm = true\n'
    )
    done = run(spec)
    assert done.returncode == 2
    for text in (
        "problem.num_tokens",
        "family 'sphere' needs num_classes, dim",
        "kind 'gd' does not take momentum",
    ):
        assert text in done.stderr


def test_weight_decay_of_adamw_is_decoupled(run, monkeypatch):
    asked = []

    def simulate(problem, dynamics, **options):
        asked.append(dynamics)
        raise KeyboardInterrupt  # what would run is known

    monkeypatch.setattr(_build, "simulate", simulate)
    run("--dynamics", "adamw", "-r", 0.1, "-t", 5, "--weight-decay", 0.5)
    run("--dynamics", "adam", "-r", 0.1, "-t", 5, "--weight-decay", 0.5)
    adamw = engram.PracticalDescent(engram.dynamics.adamw(0.1, weight_decay=0.5), 5)
    adam = engram.PracticalDescent(engram.dynamics.adam(0.1), 5, weight_decay=0.5)
    assert eqx.tree_equal(asked, [adamw, adam])


def test_unusable_input_is_one_line(run, tmp_path):
    (tmp_path / "cut.toml").write_text("[problem\n")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "list.toml").write_text("problem = 3\n")
    for args, message in (
        ((tmp_path / "absent.toml",), "SPEC cannot be read"),
        ((tmp_path / "cut.toml",), "SPEC is not TOML"),
        ((tmp_path / "bytes.toml",), "SPEC cannot be read"),
        ((tmp_path / "list.toml",), "problem"),
        (("--dynamics", "sgd", "-r", "1", "-t", "5"), "needs batch_size"),
        (("--out", tmp_path / "run.txt"), "`--out` must end in .nc"),
        (("--problem-file", tmp_path / "absent.npz", "-r", "1", "-t", "3"), "is not a file"),
        (("--correlation", "2"), "problem.correlation"),
    ):
        done = run(*args)
        assert done.returncode == 2, (args, done.stdout, done.stderr)
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def _cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads Linux's process table")
def test_ctrl_c_keeps_what_was_recorded_and_exits_130(tmp_path, surroundings):
    out = tmp_path / "long.nc"
    command = [sys.executable, "-m", "engram", "simulate", "--out", str(out)]
    command += ["-r", "1", "-t", "4000000000", "--points", "400"]
    # A progress bar also where nobody looks: it is drawn once steps are made.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    wide = {"FORCE_COLOR": "1", "COLUMNS": "200"}
    process = subprocess.Popen(command, **pipes, env=surroundings | wide)
    bar = b""
    while b"/4000000000" not in bar:
        bar += os.read(process.stderr.fileno(), 1 << 16)
        assert process.poll() is None, bar.decode()
    before = _cpu_seconds(process.pid)
    os.kill(process.pid, signal.SIGINT)
    _, status, usage = os.wait4(process.pid, 0)
    stderr = (bar + process.stderr.read()).decode()
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert f"interrupted; {out} holds what was recorded" in stderr
    # In processor time, since the machine may be busy: stop, write the file, leave.
    assert usage.ru_utime + usage.ru_stime - before < 3
    with xr.open_dataset(out, engine="h5netcdf") as data:
        assert data.attrs["status"] == "interrupted"
        assert data.sizes["step"] > 0
