"""The command in odd surroundings: Ctrl-C at any moment, poor terminals, closed pipes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ENGRAM = [sys.executable, "-m", "engram"]
CLAIM = "C51"  # quick to check, and stated with a Greek letter


def run(*args, **environment):
    return subprocess.run(
        [*ENGRAM, *args], capture_output=True, text=True, env={**os.environ, **environment}
    )


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def heeds_signals(pid):
    """Whether the first lines of the command have run: Python by itself does not catch SIGTERM."""
    caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads Linux's process table")
@pytest.mark.parametrize("moment", [0.0, 0.4, 1.0, 3.0])
def test_ctrl_c_works_at_any_moment(moment, tmp_path, surroundings):
    out = tmp_path / "out" / "long.nc"
    out.parent.mkdir()
    command = [*ENGRAM, "simulate", "--steps", "300000000", "--out", str(out)]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(
        command, **pipes, env=surroundings | {"JAX_ENABLE_COMPILATION_CACHE": "0"}
    )
    # In processor time, so that the moments are the same on a busy machine.
    while not heeds_signals(process.pid) or processor_seconds(process.pid) < moment:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert [path.name for path in out.parent.iterdir()] in ([], ["long.nc"])


def test_a_terminal_without_greek_letters_gets_question_marks(here):
    poor = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = run("audit", CLAIM, **poor)
    assert done.returncode == 0, done.stderr
    assert "?_k is in [0, M ? 1 ? M_k]" in " ".join(done.stdout.split())
    as_json = here("audit", CLAIM, "--json")
    assert as_json.stdout.isascii()
    assert "\\u03b8_k is in [0" in as_json.stdout


@pytest.mark.parametrize(
    "terminal",
    [{"COLUMNS": "1"}, {"COLUMNS": "10"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}],
    ids=str,
)
def test_small_and_plain_terminals_are_written_to(terminal, here, monkeypatch):
    for name, value in terminal.items():
        monkeypatch.setenv(name, value)
    done = here("audit", CLAIM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "\x1b" not in done.stdout


def test_a_closed_pipe_is_not_a_failed_check():
    shell = f"set -o pipefail; {' '.join(ENGRAM)} audit {CLAIM} | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_window_backend_does_not_matter(tmp_path):
    picture = tmp_path / "a.png"
    done = run("simulate", "--steps", "3", "--plot", str(picture), MPLBACKEND="nonsense")
    assert done.returncode == 0, done.stderr
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("command", ["simulate", "bench", "audit"])
def test_a_folder_is_not_a_picture(command, tmp_path, here):
    folder = tmp_path / "a.png"
    folder.mkdir()
    done = here(command, *([CLAIM] if command == "audit" else []), "--plot", str(folder))
    assert done.returncode == 2
    assert "must be a file, got the folder" in done.stderr


def test_help_names_the_package_that_workers_need(here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "needs dask[distributed]" in here("sweep", "--help").stdout
