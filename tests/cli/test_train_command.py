"""`engram train`, as one types it."""

import tomllib

import numpy as np
import pytest
import xarray as xr

pytestmark = pytest.mark.usefixtures("one_size")
SMALL = ("--dim", 8, "--sequences", 6, "--length", 30, "--matrices", "wo2", "--dtype", "float64")


def log_of(folder):
    return xr.open_zarr(folder / "log.zarr", consolidated=False).load()


def test_a_training_is_summarised_and_resumed(here, tmp_path):
    out, plot = tmp_path / "run", tmp_path / "run.png"
    done = here("train", *SMALL, "-r", 5, "--steps", 4, "--out", out, "--plot", plot)
    assert done.returncode == 0, done.stderr
    assert "loss " in done.stdout
    assert "positive margins at that step: W_O^2" in done.stdout
    assert "accuracy on 256 sequences never trained on" in done.stdout
    assert plot.stat().st_size > 10_000
    config = tomllib.loads((out / "config.toml").read_text())
    assert config["transformer"]["matrices"] == ["wo2"]
    assert config["dynamics"] == {"kind": "gd", "learning_rate": 5.0, "steps": 4}
    assert (out / "start.npz").exists()
    first = log_of(out)
    assert {"loss", "accuracy", "margins_wo2", "margins_wk2", "margins_wk1"} <= set(first)
    assert first.sizes["step"] == 5
    # Its own config continues it, to more steps if asked.
    assert here("train", out / "config.toml", "--out", out).returncode == 0
    assert here("train", out / "config.toml", "--out", out, "--steps", 6).returncode == 0
    longer = log_of(out)
    np.testing.assert_array_equal(longer.loss[:5], first.loss)
    # And repeats it elsewhere.
    other = tmp_path / "other"
    assert here("train", out / "config.toml", "--out", other).returncode == 0
    np.testing.assert_array_equal(log_of(other).loss, longer.loss)


def test_the_picture_of_a_log(here, tmp_path):
    out = tmp_path / "run"
    assert here("train", *SMALL, "-r", "5,50", "--steps", 3, "--out", out).returncode == 0
    assert log_of(out).sizes["run"] == 2
    done = here("plot", out / "log.zarr", "--out", tmp_path / "log.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log.png").stat().st_size > 10_000


def test_starts_from_a_file(here, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    seed = ("--seed", 5)
    assert here("train", *SMALL, *seed, "-r", 5, "--steps", 2, "--out", first).returncode == 0
    done = here(
        "train", "--start", first / "start.npz", "--matrices", "wo2", "--dtype", "float64",
        "-r", 5, "--steps", 2, "--out", second,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(log_of(second).loss, log_of(first).loss)
    # What was drawn from a file is not drawn again from a config.
    spec = second / "config.toml"
    done = here("train", spec, "--out", tmp_path / "third")
    assert done.returncode == 2
    assert "Give the start.npz beside it as --start" in done.stderr
    done = here("train", spec, "--start", second / "start.npz", "--out", tmp_path / "third")
    assert done.returncode == 0, done.stderr
    done = here("train", "--start", second / "start.npz", "--dim", 9, "--out", tmp_path / "fourth")
    assert done.returncode == 2
    assert "--dim must be 8, as in" in done.stderr
    done = here(
        "train", "--start", second / "start.npz", "--sequences", 99, "--matrices", "wo2", "--steps", 1,
        "--out", tmp_path / "fifth",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--sequences is 6, as in" in done.stderr


def test_a_nonfinite_loss_is_reported_with_its_step(here, tmp_path):
    done = here(
        "train", "--dim", 8, "--sequences", 6, "--length", 30, "--matrices", "wo2", "-r", 1e39,
        "--steps", 5, "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 0
    assert "not finite after step" in done.stdout
    assert log_of(tmp_path / "run").attrs["status"] == "not finite"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--matrices", "wq1"], "transformer.matrices"),
        (
            ["-r", "fast"],
            "--learning-rate must be a number, or numbers with commas between, got 'fast'",
        ),
        (["--dim", "0"], "`dim` must be at least 1, got 0"),
        (["--dynamics", "flow"], "dynamics"),
        (["--dynamics", "sgd"], "batch_size"),
        (["--corpus", "none.txt"], "none.txt"),
        (["--start", "none.npz"], "none.npz is not there"),
        (["--matrices", ""], "transformer.matrices"),
        (["--seed", 2**64], "`seed` must be below 2**63"),
        (["--plot", "run.gif"], "`--plot` must end in .png"),
        (["--coordinator", "127.0.0.1:1"], "--coordinator, --processes and --process go together"),
        (["none.toml"], "SPEC cannot be read: none.toml"),
    ],
)
def test_wrong_usage_is_one_clear_error(here, tmp_path, monkeypatch, args, said):
    monkeypatch.chdir(tmp_path)
    done = here("train", *args, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run" / "config.toml").exists()
