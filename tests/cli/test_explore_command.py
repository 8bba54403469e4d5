"""`engram explore`: an address, a page, and an end."""

import re
import signal
import socket
import subprocess
import sys

import httpx
import numpy as np
import pytest

import engram
from engram.cli import _explore


def test_help_says_what_it_does(here):
    done = here("explore", "--help")
    assert done.returncode == 0
    for word in ("--port", "--no-browser", "127.0.0.1"):
        assert word in done.stdout


def test_an_unusable_port_is_reported(here):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = here("explore", "--no-browser", "--port", port)
    assert done.returncode == 2
    assert f"`port` must be free on 127.0.0.1, got {port}" in done.stderr
    assert here("explore", "--port", 70000).returncode == 2


@pytest.mark.parametrize("opens", [True, False])
def test_the_browser_is_opened_or_asked_for(here, monkeypatch, opens):
    seen = []

    def stand_in(url):
        seen.append(httpx.get(url, trust_env=False).status_code)
        return opens

    monkeypatch.setattr(_explore.webbrowser, "open", stand_in)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("engram.explorer.server.Explorer.wait", lambda self: self.stop())
    monkeypatch.setattr("engram.explorer._presets.COMMON_STATES", [])
    done = here("explore")
    assert done.returncode == 0
    assert seen == [200]
    assert ("open that address" in done.stdout) != opens


def test_a_run_from_a_file_has_a_page_of_its_own(here, monkeypatch, tmp_path):
    path = tmp_path / "run.nc"
    assert here("simulate", "--steps", 5, "--out", path).returncode == 0
    monkeypatch.setattr("engram.explorer.server.Explorer.wait", lambda self: self.stop())
    monkeypatch.setattr("engram.explorer._presets.COMMON_STATES", [])
    done = here("explore", path, "--no-browser")
    assert done.returncode == 0
    assert re.search(r"http://127.0.0.1:\d+/#problem=replay&name=[0-9a-f]{8}\n", done.stdout)
    missing = here("explore", tmp_path / "none.nc", "--no-browser")
    assert missing.returncode == 2
    assert "none.nc. Check the name." in missing.stderr


@pytest.mark.parametrize("ending", ["npz", "nc"])
def test_a_problem_from_a_file_is_trained_or_exported(here, monkeypatch, tmp_path, ending):
    path, page = tmp_path / f"mine.{ending}", tmp_path / "page.html"
    engram.on_sphere(3, 12, 4, 5).save(path)
    monkeypatch.setattr("engram.explorer.server.Explorer.wait", lambda self: self.stop())
    monkeypatch.setattr("engram.explorer._presets.COMMON_STATES", [])
    done = here("explore", path, "--no-browser")
    assert done.returncode == 0
    assert re.search(r"http://127.0.0.1:\d+/#problem=own&name=[0-9a-f]{8}\n", done.stdout)
    assert here("explore", path, "--export", page).returncode == 0
    assert '"address":"#problem=own' in page.read_text(encoding="utf-8")


def test_a_problem_that_is_too_large_or_no_problem_is_reported(here, tmp_path):
    engram.on_sphere(3, 201, 4, 5).save(tmp_path / "large.npz")
    large = here("explore", tmp_path / "large.npz", "--no-browser")
    assert large.returncode == 2
    assert "must have num_tokens of at most 200 here, got 201" in large.stderr
    np.savez(tmp_path / "other.npz", weights=np.eye(2))
    other = here("explore", tmp_path / "other.npz", "--no-browser")
    assert other.returncode == 2
    assert "lacks the arrays inputs, outputs, probs, targets" in other.stderr


def test_a_text_browser_does_not_take_over_the_terminal(monkeypatch):
    monkeypatch.setattr(_explore.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert not _explore._has_screen()
    monkeypatch.setenv("BROWSER", "firefox")
    assert _explore._has_screen()


def test_ctrl_c_ends_it():
    command = [sys.executable, "-m", "engram", "explore", "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline()).group()
            assert "engram explorer" in httpx.get(url, trust_env=False).text
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "has ended" in out
    assert err == ""
