"""`engram reproduce` from within: exit codes, interruptions, and what it leaves behind."""

import dataclasses
import signal
import subprocess
import sys
import time

import pytest

from engram import audits, figures
from engram._checks import InputError
from engram.cli import _reproduce
from engram.figures import fig1_level_lines as fig1


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(fig1, "SCALES", {"quick": fig1.Settings(num=50), "paper": fig1.Settings()})


def left(out):
    return sorted(path.name for path in out.iterdir())


def test_out_of_tolerance_is_exit_1_and_said(tmp_path, monkeypatch, capsys):
    true = fig1.compare

    def spoilt(data):
        first, *rest = true(data)
        return [dataclasses.replace(first, ours=first.ours + 1e-6), *rest]

    monkeypatch.setattr(fig1, "compare", spoilt)
    with pytest.raises(SystemExit) as end:
        _reproduce.reproduce(["fig1"], "quick", tmp_path)
    assert end.value.code == 1
    told = capsys.readouterr()
    assert "7 of 8 within tolerance" in told.out
    assert "not as it should be: fig1: loss" in told.err
    assert "Not as it should be" in (tmp_path / "report.html").read_text()


def test_a_changed_verdict_is_exit_1(tmp_path, monkeypatch, capsys):
    claim = dataclasses.replace(audits.select(["C01"])[0], verdict="FALSE-AS-PRINTED")
    monkeypatch.setattr(audits, "select", lambda: [claim])
    with pytest.raises(SystemExit) as end:
        _reproduce.reproduce(["claims"], "quick", tmp_path)
    assert end.value.code == 1
    assert "on record FALSE-AS-PRINTED" in capsys.readouterr().err
    assert left(tmp_path) == ["claims.json", "report.html"]


def test_interrupted_it_keeps_what_is_done_and_says_what_is_not(tmp_path, monkeypatch, capsys):
    def stop(settings, tell):
        raise KeyboardInterrupt

    (tmp_path / "fig2.png").write_text("of an older run")
    monkeypatch.setattr(figures.module_of("fig2"), "compute", stop)
    with pytest.raises(SystemExit) as end:
        _reproduce.reproduce(["fig2", "fig1", "fig3"], "quick", tmp_path)
    assert end.value.code == 130
    told = capsys.readouterr().err
    assert "interrupted before fig2, fig3; again: engram reproduce fig1 fig2 fig3 --out" in told
    assert left(tmp_path) == ["fig1.nc", "fig1.pdf", "fig1.png", "fig2.png", "report.html"]
    page = (tmp_path / "report.html").read_text()
    assert "fig2, fig3 not made" in page
    assert 'id="fig2"' not in page  # the older picture is not passed off as this run's


def test_what_a_killed_run_left_is_cleared_away(tmp_path):
    (tmp_path / ".fig1-abcdefgh.nc").write_text("half of an older figure")
    (tmp_path / ".mine").write_text("not ours")
    _reproduce.reproduce(["fig1"], "quick", tmp_path)
    assert left(tmp_path) == [".mine", "fig1.nc", "fig1.pdf", "fig1.png", "report.html"]


def test_twice_gives_the_same_files(tmp_path):
    for _ in range(2):
        _reproduce.reproduce(["fig1"], "quick", tmp_path)
        found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = tmp_path / "again"
    _reproduce.reproduce(["fig1"], "quick", again)
    for name in ("fig1.png", "fig1.pdf", "fig1.nc"):
        assert (again / name).read_bytes() == found[name]


def test_a_writing_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    _reproduce.reproduce(["fig1"], "quick", tmp_path)
    before = (tmp_path / "fig1.png").read_bytes()

    class Picture:
        def savefig(self, path, **options):
            path.write_bytes(b"half")
            raise OSError("disk full")

    monkeypatch.setattr(fig1, "draw", lambda data: Picture())
    with pytest.raises(OSError, match="disk full"):
        _reproduce.reproduce(["fig1"], "quick", tmp_path)
    assert (tmp_path / "fig1.png").read_bytes() == before
    assert not [name for name in left(tmp_path) if name.startswith(".")]


def test_wrong_scale_is_refused_before_any_work(tmp_path):
    with pytest.raises(InputError, match="--scale"):
        _reproduce.reproduce(["fig1"], "huge", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_real_signal_is_heard_whenever_it_comes(tmp_path):
    """Also within a callback, where Python drops the exception; then the next part hears of it."""
    (tmp_path / "report.html").write_text("of an older run")
    for delay in (2.0, 5.0):
        command = [
            sys.executable,
            "-m",
            "engram",
            "reproduce",
            "fig4",
            "fig6",
            "--out",
            str(tmp_path),
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
        assert process.returncode == 130, told
        assert "interrupted" in told
    assert not [name for name in left(tmp_path) if name.startswith(".")]
