"""A file that the tool wrote, run again from its own attributes: the same bits, or a clear no."""

import contextlib
import json
import subprocess
import sys

import jax
import numpy as np
import pytest
import xarray as xr

import engram
from engram.cli import _simulate
from engram.simulation import differences
from engram.specs import read_netcdf, read_spec, spec_of, write_spec

FAMILIES = {
    "two": {"correlation": 0.95, "p1": 0.75},
    "orthonormal": {"num_tokens": 3, "num_classes": 2},
    "one_hot": {"num_tokens": 3, "num_classes": 2, "probs": [0.1, 0.2, 0.7]},
    "sphere": {"num_tokens": 3, "num_classes": 2, "dim": 4, "targets": [0, 1, 1]},
    "gaussian": {"num_tokens": 3, "num_classes": 2, "dim": 4, "exponent": 1 / 3},
    "file": {"path": "absent.npz"},
}
OPTIMIZERS = (
    "momentum",
    "nesterov",
    "normalised",
    "adam",
    "adamw",
    "rmsprop",
    "sign",
    "muon",
    "exact_muon",
)
KINDS = {
    "gd": {"learning_rate": 0.1, "steps": 3},
    "sgd": {"learning_rate": 0.1, "steps": 3, "batch_size": 2},
    "flow": {"end": 1e3},
    "sgf": {"end": 1, "noise_scale": 0.5},
    **{kind: {"learning_rate": 1e-5, "steps": 3} for kind in OPTIMIZERS},
}
RUNS = ({}, {"every": 2, "start_scale": 0.1, "stop": {"loss": float("inf")}}, {"stop": "perfect"})


@pytest.fixture
def run(here):
    """`engram simulate` in this process: its exit code and what it printed."""

    def simulate(*args):
        done = here("simulate", *args)
        return done.returncode, done.stdout + done.stderr

    return simulate


_short: dict[str, bytes] = {}


@pytest.fixture
def short(run, tmp_path):
    """A file with a short run; made once, since writing takes longer than running."""
    path = tmp_path / "short.nc"
    if not _short:
        code, said = run("--out", path)
        assert code == 0, said
        _short["file"] = path.read_bytes()
    path.write_bytes(_short["file"])
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_specs_come_back_as_they_were(family, kind):
    problem, dynamics = {"family": family} | FAMILIES[family], {"kind": kind} | KINDS[kind]
    for run_table in RUNS:
        tables = {"problem": problem, "dynamics": dynamics, "run": run_table}
        spec = read_spec(tables, "the test")
        text = write_spec(spec)
        again = read_spec(json.loads(text), "the text")
        assert again == spec
        assert write_spec(again) == text


SPHERE = ("--tokens", "sphere", "-N", 5, "-M", 4, "-d", 6, "--seed", 3)
SGD = ("--dynamics", "sgd", "-r", 1, "-t", 40, "--batch-size", 4)


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--plot", "run.png"),
        ("--correlation", 0.9, "-r", 10, "-t", 60, "--stop", "perfect", "--every", 7),
        (*SPHERE, *SGD),
        (*SPHERE, "--dynamics", "flow", "--end", 1e4, "--spacing", "log"),
        (*SPHERE, "--dynamics", "sgf", "--end", 2, "-r", 0.1, "--batch-size", 4),
        (*SPHERE, "--dynamics", "adam", "-r", 0.1, "-t", 30, "--start-scale", 0.3, "--points", 9),
    ],
    ids=["gd", "plot", "stop", "sgd", "flow", "sgf", "adam"],
)
def test_the_same_bits(run, args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said = run(*args, "--out", "run.nc")
    assert code == 0, said
    code, said = run("run.nc", "--out", "again.nc")
    assert code == 0, said
    assert "the same as run.nc, bit for bit\n" in said
    _assert_same_files("run.nc", "again.nc")


def test_a_problem_file_is_no_longer_needed(run, tmp_path):
    draws = np.random.default_rng(0)
    table = draws.dirichlet(np.ones(3), size=5)
    arrays = {"inputs": draws.normal(size=(5, 9)), "outputs": draws.normal(size=(3, 9))}
    # Columns first in memory, unlike what comes out of a .nc: the order of sums may depend on it.
    arrays = {name: np.asfortranarray(array) for name, array in arrays.items()}
    np.savez(tmp_path / "p.npz", **arrays, probs=np.full(5, 0.2), targets=table)
    first, again = tmp_path / "run.nc", tmp_path / "again.nc"
    code, said = run("--problem-file", tmp_path / "p.npz", *SGD, "--seed", 8, "--out", first)
    assert code == 0, said
    (tmp_path / "p.npz").unlink()
    code, said = run(first, "--out", again)
    assert code == 0, said
    assert "bit for bit" in said
    _assert_same_files(first, again)


@pytest.mark.parametrize("case", ["adam", "stochastic", "system", "key"])
def test_a_run_made_in_python_is_run_again_from_its_file(run, case, tmp_path):
    problem = engram.on_sphere(0, 5, 4, 6)
    descent = engram.PracticalDescent(engram.dynamics.adam(0.1), 12, 2)
    found = {
        "adam": lambda: engram.simulate(
            problem, descent, key=3, start=np.full((6, 6), 0.1), at=[0, 12]
        ),
        "stochastic": lambda: engram.simulate(
            problem,
            engram.StochasticGradientFlow([0.0, 0.1], 0.1, 4),
            key=5,
            record="loss",
            events=False,
        ),
        "system": lambda: engram.simulate(
            engram.memory.MemorySystem(problem, layer_norm=True), descent, key=1, start=np.eye(6)
        ),
        "key": lambda: engram.simulate(problem, descent, key=jax.random.key(8), stop={"loss": 1.3}),
    }[case]()
    assert found.attrs["format"] == 2
    found.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    code, said = run(tmp_path / "run.nc")
    assert code == 0, said
    assert "run.nc, bit for bit" in said


def test_files_of_other_formats(run, short, tmp_path):
    def as_before(data):
        """As files were before they had a format: without what was found since, and eight spikes at most."""
        for name in ("format", "kind", "events_loss", "events_lost"):
            del data.attrs[name]
        for name in ("event_step", "peak_step", "first_learnt", "max_loss", "spike_end"):
            del data[name]
        spec = json.loads(data.attrs["spec"])
        spec["run"] = {
            name: spec["run"][name] for name in ("record", "space", "seed", "start_scale")
        }
        settings = json.dumps({"learning_rate": 10.0, "steps": 34})
        data.attrs.update(spec=json.dumps(spec), settings=settings)

    _change(short, as_before)
    code, said = run(short)
    assert code == 0, said
    assert "bit for bit" in said
    _change(short, lambda data: data.attrs.update(format=99))
    code, said = run(short)
    assert code == 2
    assert f"{short} has the format 99, and this engram knows those up to 2" in said


def test_another_process_finds_the_same_bits(short):
    command = [sys.executable, "-m", "engram", "simulate", str(short)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"the same as {short}, bit for bit\n")


def test_a_stored_interrupted_run_is_run_to_its_end(run, tmp_path, monkeypatch):
    @contextlib.contextmanager
    def impatient(title):
        def tell(done, total):
            raise KeyboardInterrupt

        yield tell

    first, again = tmp_path / "cut.nc", tmp_path / "whole.nc"
    with monkeypatch.context() as patch:
        patch.setattr(_simulate, "progress_bar", impatient)
        code, said = run("-r", 10, "-t", 600, "--out", first)
    assert code == 130, said
    assert 0 < read_netcdf(first).sizes["step"] < 601
    code, said = run(first, "--out", again)
    assert code == 0, said
    assert f"the same as {first} (which was interrupted, as far as it goes), bit for bit" in said
    assert read_netcdf(again).sizes["step"] == 601
    code, said = run(again)
    assert code == 0, said
    _change(first, lambda data: data.loss.values.__setitem__(3, 0.0))
    code, said = run(first)
    assert code == 1
    assert "as far as it goes): loss differs by" in said


def test_a_difference_is_named_and_measured(run, short, tmp_path):
    _change(short, lambda data: data.loss.values.__setitem__(5, data.loss[5] + 0.25))
    code, said = run(short, "--out", tmp_path / "again.nc")
    assert code == 1
    assert f"not the same as {short}: loss differs by 0.25 at most\n" in said
    assert (tmp_path / "again.nc").exists()


def test_another_version_is_named(run, short):
    _change(short, lambda data: data.attrs.update(engram="0.0.9"))
    code, said = run(short)
    assert code == 0
    there = f"(written by engram 0.0.9, this is {engram.__version__})"
    assert f"the same as {short} {there}, bit for bit" in said


def test_stored_specs_with_meaningless_fields_still_run(run, short):
    text = json.loads(read_netcdf(short).attrs["spec"])
    text["problem"]["targets"], text["dynamics"]["layer_norm"] = "mod", False
    _change(short, lambda data: data.attrs.update(spec=json.dumps(text)))
    code, said = run(short)
    assert code == 0
    assert f"the same as {short}, bit for bit" in said


def test_options_change_all_but_the_problem(run, short, tmp_path):
    other = tmp_path / "other.nc"
    code, said = run(short, "-r", 5, "--every", 4, "--seed", 7, "--out", other)
    assert code == 0, said
    assert "bit for bit" not in said
    data = read_netcdf(other)
    spec = json.loads(data.attrs["spec"])
    assert (spec["dynamics"]["learning_rate"], spec["dynamics"]["steps"]) == (5, 34)
    assert (spec["problem"]["seed"], spec["run"]["seed"]) == (0, 7)
    direct = engram.simulate(
        engram.two_tokens(0.95, 0.75), engram.GradientDescent(5.0, 34), every=4
    )
    np.testing.assert_array_equal(data.loss, direct.loss)
    np.testing.assert_array_equal(data.problem_inputs, read_netcdf(short).problem_inputs)


def test_stored_fields_give_way_to_options_that_exclude_them(run, short):
    data = read_netcdf(short).assign_attrs(
        spec=json.dumps(
            {
                "problem": {"family": "file", "path": "absent.npz"},
                "dynamics": {"kind": "muon", "learning_rate": 1.0, "steps": 5, "momentum": 0.5},
                "run": {"every": 2, "stop": "perfect"},
            }
        )
    )
    over = lambda **given: spec_of(data, short, given)
    adam = over(dynamics={"kind": "adam"}).dynamics
    assert (adam["learning_rate"], adam["steps"], adam.get("momentum")) == (1.0, 5, None)
    assert over(dynamics={"kind": "nesterov"}).dynamics["momentum"] == 0.5
    points = over(run={"points": 5}).run
    assert (points.get("every"), points["points"], points["stop"]) == (None, 5, "perfect")
    flow = over(dynamics={"kind": "flow", "end": 10.0})
    assert not {"every", "stop"} & flow.run.keys()
    assert "steps" not in flow.dynamics
    for args, fault in (
        (("--dynamics", "flow"), "kind 'flow' needs end"),
        (("--momentum", 0.5), "kind 'gd' does not take momentum"),
    ):
        code, said = run(short, *args)
        assert code == 2
        assert fault in said


@pytest.mark.parametrize(
    ("args", "option"),
    [
        (("--correlation", 0.5), "--correlation"),
        (("-N", 3), "--num-tokens"),
        (("--tokens", "sphere"), "--tokens"),
        (("--problem-file", "p.npz"), "--problem-file"),
    ],
)
def test_options_cannot_change_the_stored_problem(run, short, args, option):
    code, said = run(short, *args)
    assert code == 2
    assert said.startswith(f"error: `{option}` cannot change the problem of {short}")


def test_a_figure_is_computed_again(run, tmp_path, monkeypatch):
    data = xr.Dataset(
        {"loss": ("rate", [1.0, np.nan]), "kept": ("rate", [True, False])},
        {"rate": [0.1, 0.2], "name": ("rate", ["slow", "fast"])},
        {"figure": "fig4", "settings": "{}", "list": [1, 2], "engram": engram.__version__},
    )
    path, again = tmp_path / "fig4.nc", tmp_path / "again.nc"
    data.to_netcdf(path, engine="h5netcdf")
    monkeypatch.setattr("engram.figures.compute_again", lambda path, tell: data, raising=False)
    code, said = run(path, "--out", again)
    assert code == 0, said
    assert f"the same as {path}, bit for bit" in said
    _assert_same_files(path, again)
    for args in (("-r", 5), ("--plot", tmp_path / "p.png"), ("--seed", 1)):
        code, said = run(path, *args)
        assert code == 2
        assert "does not go with" in said
    data["loss"][0] = 1.5
    code, said = run(path)
    assert code == 1
    assert "loss differs by 0.5 at most" in said


def test_files_that_are_not_runs_get_one_line(run, short, tmp_path):
    engram.two_tokens(0.5, 0.5).save(tmp_path / "problem.nc")
    (tmp_path / "text.nc").write_text("no NetCDF")
    (tmp_path / "empty.nc").touch()
    (tmp_path / "folder.nc").mkdir()
    whole = short.read_bytes()
    (tmp_path / "half.nc").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "torn.nc").write_bytes(whole[:2000] + bytes(4000) + whole[6000:])
    xr.Dataset({"a": ("t", [1.0])}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    bad = json.loads(read_netcdf(short).attrs["spec"])
    bad["dynamics"]["steps"] = -1
    for name, change in {
        "no_arrays": lambda data: data.drop_vars(["problem_inputs", "probs"]),
        "bad_arrays": lambda data: data.assign(probs=data.probs * 2),
        "no_json": lambda data: data.assign_attrs(spec="{"),
        "no_spec": lambda data: data.assign_attrs(spec="[1]"),
        "number": lambda data: data.assign_attrs(spec=3),
        "bad_spec": lambda data: data.assign_attrs(spec=json.dumps(bad)),
    }.items():
        change(read_netcdf(short)).to_netcdf(tmp_path / f"{name}.nc", engine="h5netcdf")
    for name, message in {
        "absent": "is not a file",
        "text": "cannot be read as NetCDF",
        "empty": "cannot be read as NetCDF",
        "folder": "is not a file",
        "half": "cannot be read as NetCDF",
        "torn": "cannot be read as NetCDF",
        "problem": "is a problem, not a run. Give it as `--problem-file",
        "foreign": "has neither the attribute `spec` nor `figure`",
        "no_arrays": "lacks problem_inputs, probs",
        "bad_arrays": "has no problem that can be used: `probs` must sum to 1, got 2",
        "no_json": "`spec` that can be read",
        "no_spec": "`spec` that can be read",
        "number": "`spec` that can be read",
        "bad_spec": "dynamics.steps",
    }.items():
        code, said = run(tmp_path / f"{name}.nc")
        assert code == 2, (name, said)
        assert message in said
        assert str(tmp_path / f"{name}.nc") in said
        assert said.count("\n") == (2 if name == "bad_spec" else 1)


def test_comparison_of_datasets_is_exact():
    data = xr.Dataset(
        {"a": ("x", [0.0, np.nan, 2.0], {"unit": "m"}), "n": 3},
        {"x": [1, 2, 3], "p": ("x", ["u", "v", "w"])},
        {"list": [1.0], "spec": "{}"},
    )
    assert differences(data, data.copy(deep=True)) == []
    for change, said in (
        (lambda d: d.assign(a=("x", [-0.0, np.nan, 2.0], {"unit": "m"})), "the sign of a zero"),
        (lambda d: d.assign(a=("x", [0.0, 1.0, 2.0], {"unit": "m"})), "by NaN in one only"),
        (lambda d: d.assign(a=d.a + 2.0**-50), "a differs by 8.88e-16 at most"),
        (lambda d: d.assign(a=d.a.astype("f4")), "a is float32, not float64"),
        (lambda d: d.assign(a=d.a.assign_attrs(unit="s")), "a differs in the attribute unit"),
        (lambda d: d.isel(x=slice(2)), "a has the axes {'x': 2}, not {'x': 3}"),
        (lambda d: d.drop_vars("n"), "n is missing"),
        (lambda d: d.assign(m=1), "m is new"),
        (lambda d: d.reset_coords("p"), "p is a coordinate in one only"),
        (lambda d: d.assign_coords(p=("x", ["u", "v", "x"])), "p differs in 1 entries"),
        (lambda d: d.assign_attrs(list=[2.0]), "the attribute list"),
        (lambda d: d.assign_attrs(more=1), "the attribute more"),
    ):
        found = differences(data, change(data))
        assert said in ", ".join(found)


def _change(path, change):
    data = read_netcdf(path)
    change(data)
    data.to_netcdf(path, engine="h5netcdf")


def _assert_same_files(first, again):
    """Compared by xarray and NumPy alone, apart from the comparison under test."""
    with (
        xr.open_dataset(first, engine="h5netcdf") as one,
        xr.open_dataset(again, engine="h5netcdf") as two,
    ):
        xr.testing.assert_identical(one, two)
        assert list(one.attrs) == list(two.attrs)
        for name in one.variables:
            assert one[name].dtype == two[name].dtype
            assert one[name].values.tolist() == two[name].values.tolist() or (
                one[name].values.tobytes() == two[name].values.tobytes()
            )
