"""`engram sweep` and `engram plot`: from a spec to a store to a picture."""

import json
import shutil
from pathlib import Path

import pytest
import xarray as xr

import engram
from engram import sweeps
from engram._checks import InputError
from engram.cli import _sweep
from engram.sweeps import _store

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))
SPEC = """
[problem]
family = "two"
[dynamics]
kind = "gd"
steps = 40
[axes]
p1 = [0.6, 0.75]
correlation = { linspace = [0.0, 1.0, 25] }
learning_rate = { logspace = [-1, 1, 24] }
[sweep]
observables = ["first_perfect", "max_loss"]
chunk = 100
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "spec.toml").write_text(SPEC)
    out = folder / "store.zarr"
    _sweep.sweep(folder / "spec.toml", out, workers=None, scheduler=None, threads=1)
    return out


def plot(source, out, **options):
    given = {"x": None, "y": None, "value": None, "at": [], "theory": [], **options}
    _sweep.plot(source, out=out, **given)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid(example):
    plan = sweeps.make_plan(example, None)
    assert len(plan.units()) >= 1
    assert f"engram sweep examples/{example.name}" in example.read_text()


def test_a_map_with_lines_of_theory(store, tmp_path, capsys):
    plot(store, tmp_path / "map.png", x="correlation", y="learning_rate", at=["p1=0.7"],
         theory=["one_step", "spike"])  # fmt: skip
    output = capsys.readouterr().out
    assert "0 of 1200 cells contradict" in output
    assert "p1 = 0.75" in output  # the nearest
    assert (tmp_path / "map.png").stat().st_size > 10_000


def test_slices_and_defaults(store, tmp_path, capsys):
    plot(
        store,
        tmp_path / "slice.pdf",
        x="learning_rate",
        at=["p1=0.6", "correlation=0.9"],
        value="max_loss",
    )
    plot(store, tmp_path / "default.svg")
    assert "p1 = 0.6; correlation = 0.9167" in capsys.readouterr().out  # the nearest
    assert (tmp_path / "slice.pdf").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": "colour"}, "not an axis"),
        ({"value": "height"}, "`value` must be among first_perfect, max_loss"),
        ({"at": ["p1"]}, "AXIS=NUMBER"),
        ({"at": ["correlation=nan"]}, "AXIS=NUMBER, got 'correlation=nan'"),
        ({"at": ["correlation=inf"]}, "AXIS=NUMBER, got 'correlation=inf'"),
        ({"x": "correlation", "y": "correlation"}, "must name different axes"),
        ({"x": "correlation", "at": ["correlation=0.5"]}, "must name different axes"),
        ({"theory": ["magic"]}, "`theory` must be among"),
        ({"theory": ["stability"]}, "needs `convergence`"),
    ],
)
def test_invalid_plot_options_are_reported(store, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        plot(store, tmp_path / "x.png", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_first_variable_of_the_spec_is_drawn(here, tmp_path):
    spec = SPEC.replace(
        '["first_perfect", "max_loss"]', '["max_loss", "final_error", "first_perfect"]'
    )
    (tmp_path / "spec.toml").write_text(spec)
    out = tmp_path / "store.zarr"
    _store._create(out, sweeps.make_plan(tmp_path / "spec.toml", None))
    figure, _ = _sweep._picture(
        out, "learning_rate", None, None, {"p1": 0.6, "correlation": 0.5}, ()
    )
    assert figure.axes[0].get_ylabel() == "highest loss"


def test_unplottable_sources_are_reported(tmp_path):
    with pytest.raises(InputError, match="is not there"):
        plot(tmp_path / "absent.zarr", tmp_path / "x.png")
    with pytest.raises(InputError, match="must end in .png"):
        plot(tmp_path / "absent.zarr", tmp_path / "x.bmp")


def test_a_run_can_be_plotted(here, tmp_path):
    assert here("simulate", "-t", 20, "--out", tmp_path / "run.nc").returncode == 0
    plot(tmp_path / "run.nc", tmp_path / "run.png")
    assert (tmp_path / "run.png").exists()
    with pytest.raises(InputError, match="for sweeps"):
        plot(tmp_path / "run.nc", tmp_path / "run.png", x="step")


def test_options_that_exclude_each_other(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    with pytest.raises(InputError, match="Give one of them"):
        _sweep.sweep(
            tmp_path / "spec.toml",
            tmp_path / "s.zarr",
            workers=2,
            scheduler="tcp://h:1",
            threads=None,
        )
    with pytest.raises(InputError, match="must end in .zarr"):
        _sweep.sweep(
            tmp_path / "spec.toml", tmp_path / "s.nc", workers=None, scheduler=None, threads=None
        )


def test_workers_of_another_version_are_refused(monkeypatch):
    pytest.importorskip("distributed")
    from engram.sweeps import _cluster

    class Client:
        def wait_for_workers(self, number, timeout):
            assert (number, timeout) == (1, _cluster._PATIENCE)

        def run(self, function, on_error):
            dead = ConnectionError("Stream is closed")
            return {"tcp://b": dead, "tcp://a": {"engram": "0.0.0", "jax": function()["jax"]}}

    with pytest.raises(
        InputError, match=f"has engram 0.0.0, this process has {engram.__version__}"
    ):
        _cluster.check_workers(Client())

    def wait(self, number, timeout):
        raise TimeoutError

    monkeypatch.setattr(Client, "wait_for_workers", wait)
    with pytest.raises(InputError, match="no workers"):
        _cluster.check_workers(Client())


def test_interrupting_a_sweep_prints_the_command_to_resume(here, tmp_path, monkeypatch):
    from engram import sweeps

    folder = tmp_path / "my sweeps"
    folder.mkdir()
    (folder / "spec.toml").write_text(SPEC)

    again = f"engram sweep '{folder}/spec.toml' --out '{folder}/s.zarr' --threads 1"
    for cells, said in (
        (0, f"interrupted; no unit was done yet. Run again: {again}"),
        (1200, f"interrupted; 1,200 cells are kept. To resume: {again}"),
    ):

        def stop(*args, cells=cells, **options):
            options["progress"](cells, 2000)
            raise KeyboardInterrupt

        monkeypatch.setattr(sweeps, "sweep", stop)
        done = here("sweep", folder / "spec.toml", "--out", folder / "s.zarr", "--threads", 1)
        assert done.returncode == 130
        assert said in done.stderr


def test_a_damaged_store_is_reported_in_one_line(here, store, tmp_path):
    bad = shutil.copytree(store, tmp_path / "bad.zarr")
    (bad / "max_loss" / "zarr.json").write_text("{")
    for command in (
        ("plot", bad, "--out", tmp_path / "x.png"),
        ("sweep", store.with_name("spec.toml"), "--out", bad),
    ):
        done = here(*command)
        assert (done.returncode, done.stderr[:6]) == (2, "error:")
        assert "bad.zarr is damaged" in done.stderr


def spoilt_log(run, name):
    if name == "attributes":
        path = run / "log.zarr" / "zarr.json"
        about = json.loads(path.read_text())
        path.write_text(json.dumps(about | {"attributes": {}}))
    else:
        shutil.rmtree(run / "log.zarr" / name)


def test_a_damaged_training_cannot_be_plotted(here, tmp_path):
    config = engram.transformer.Config(dim=8, sequences=6, length=30, seed=3)
    engram.transformer.train(config, engram.GradientDescent(1.0, 2), out=tmp_path / "whole")
    assert here("plot", tmp_path / "whole", "--out", tmp_path / "x.png").returncode == 0
    for name in ("attributes", "accuracy", "loss", "margins_wo2"):
        bad = shutil.copytree(tmp_path / "whole", tmp_path / name)
        spoilt_log(bad, name)
        done = here("plot", bad, "--out", tmp_path / "y.png")
        assert (done.returncode, done.stderr[:6]) == (2, "error:"), name
        assert str(bad) in done.stderr


def test_files_that_lack_what_their_picture_needs_are_reported(here, tmp_path):
    here("simulate", "-t", 3, "--out", tmp_path / "run.nc")
    data = xr.load_dataset(tmp_path / "run.nc", engine="h5netcdf")
    data.assign_attrs(figure="fig3").to_netcdf(tmp_path / "figure.nc", engine="h5netcdf")
    text = data.loss.astype(str).astype("S")
    data.assign(loss=text).to_netcdf(tmp_path / "text.nc", engine="h5netcdf")
    for name in ("figure.nc", "text.nc"):
        done = here("plot", tmp_path / name, "--out", tmp_path / "y.png")
        assert (done.returncode, done.stderr[:6]) == (2, "error:"), name
        assert f"{name} does not hold what its picture needs" in done.stderr
