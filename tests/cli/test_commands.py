"""The command line, as a user types it."""

import json
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import engram


def run(*args, **options):
    command = [sys.executable, "-m", "engram", *args]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_version_and_help():
    assert run("--version").stdout == f"engram {engram.__version__}\n"
    shown = run("--help")
    assert shown.returncode == 0
    for command in ("reproduce", "bench"):
        assert command in shown.stdout


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['engram', '--help']\n"
        "from engram.cli._main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'numpy', 'xarray', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_reproduce_writes_the_loss_spike(here, tmp_path):
    out = tmp_path / "out"
    done = here("reproduce", "fig2", "--out", out)
    assert done.returncode == 0, done.stderr
    names = ["explorer.html", "fig2.nc", "fig2.pdf", "fig2.png", "report.html"]
    assert sorted(p.name for p in out.iterdir()) == names
    assert f"report: {out}/report.html" in done.stdout
    assert "6.9 times lower" in (out / "report.html").read_text()
    again = here("simulate", out / "fig2.nc")
    assert again.returncode == 0, again.stderr
    assert "bit for bit" in again.stdout
    assert (out / "fig2.png").stat().st_size < 300_000
    with xr.open_dataset(out / "fig2.nc", engine="h5netcdf") as data:
        loss = data.loss.sel(learning_rate=10.0)
        assert float(loss.max()) == np.float64(loss[5])
        assert json.loads(data.attrs["settings"])["correlation"] == 0.95
    assert "1.348664 at t = 5" in done.stdout


def test_wrong_usage_is_one_line_and_exit_2(here, tmp_path):
    done = here("reproduce", "fig99")
    assert done.returncode == 2
    assert done.stderr == (
        "error: FIGURE must be one of fig1, fig2, fig3, fig4, fig5, fig6, fig7, claims, got fig99. "
        "Pick one.\n"
    )
    done = here("bench", "absent")
    assert done.returncode == 2
    assert "got absent" in done.stderr
    assert "Traceback" not in done.stderr
    assert here("nonsense").returncode == 2
    (tmp_path / "file").write_text("")
    done = here("reproduce", "--out", tmp_path / "file" / "out")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "file") in done.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--lr", "--learning-rate"), ("--learning", "--learning-rate"), ("--stpes", "--steps")],
)
def test_a_misspelt_option_is_answered_with_the_one_meant(here, typed, meant, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    done = here("simulate", typed, "10")
    assert done.returncode == 2
    assert meant in done.stderr
