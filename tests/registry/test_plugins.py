"""What a user registers in a file of their own is used by name everywhere, and is nowhere else."""

import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
import xarray as xr

import engram
from engram import dynamics as D
from engram._errors import InputError
from engram.registry import KINDS, entries, find, load_plugin, make, register, table, unregister
from engram.specs import read_spec, simulate_spec

PLUGIN = Path(__file__).with_name("plugin.py")
TWO = engram.two_tokens(0.95, 0.75)


@pytest.fixture(autouse=True)
def own():
    """The plugin's names, which go with the test."""
    known = {kind: dict(entries(kind)) for kind in KINDS}
    load_plugin(str(PLUGIN))
    yield sys.modules["plugin"]
    for kind, before in known.items():
        entries(kind).clear()
        entries(kind).update(before)


def test_simulate_takes_names_and_tables(own):
    descent = {"kind": "lion", "learning_rate": 0.1, "steps": 60, "sampling": "turns", "each": 2}
    run = engram.simulate(
        TWO,
        descent,
        record=("loss", "entropy", {"kind": "power", "exponent": 0.5}),
        events=[own.Worst()],
    )
    same = D.Descent(own.Lion(0.1), own.Turns(2), steps=60)
    direct = engram.simulate(TWO, same, record=("loss",))
    np.testing.assert_array_equal(run.loss, direct.loss)
    np.testing.assert_allclose(run.power, np.sqrt(run.loss), rtol=1e-14)
    assert run.entropy.dims == ("step", "token")
    assert run.entropy.attrs == {
        "long_name": "Entropy of the recall of each token.",
        "symbol": "H(q)",
    }
    assert run.worst_loss > run.loss.max()


def test_a_system_by_name_learns_both_factors(own):
    run = engram.simulate(
        {"family": "fan", "num_tokens": 3},
        {"kind": "gd", "learning_rate": 1.0, "steps": 20},
        system={"kind": "product", "rank": 1},
        record=("loss", "effective_rank"),
    )
    assert run.final_A.shape == (2, 1)
    assert run.effective_rank[-1] == pytest.approx(1.0)
    with jax.enable_x64(True):
        problem = own.fan(3)
    system = own.Factored(problem, problem.law, rank=1)
    direct = engram.simulate(system, engram.GradientDescent(1.0, 20), record=("loss",))
    np.testing.assert_allclose(run.loss, direct.loss, rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("optimizer", {"optimizer": "lion", "learning_rate": 0.1, "beta": 0.5}),
        ("sampling", {"sampling": "turns", "each": 3, "order": "down", "is_odd": True}),
        ("observable", {"kind": "power", "exponent": 0.5}),
        ("event", {"kind": "worst"}),
        ("dynamics", {"kind": "polyak", "steps": 5, "most": 2.0}),
        (
            "dynamics",
            {"kind": "lion", "learning_rate": 0.1, "beta": 0.5, "steps": 4, "weight_decay": 0.0},
        ),
    ],
)
def test_user_defined_objects_survive_a_round_trip(kind, given):
    thing = make(kind, given)
    assert table(thing) == given
    assert eqx.tree_equal(make(kind, table(thing)), thing)


def test_specs_check_their_fields():
    tables = {"dynamics": {"kind": "lion", "learning_rate": -1.0, "beta": 1.0, "b1": 0.5}}
    with pytest.raises(InputError) as refused:
        read_spec(tables, "spec.toml")
    for fault in (
        "dynamics.learning_rate: must be at least 0, got -1.0",
        "dynamics.beta: must be below 1, got 1.0",
        "dynamics: kind 'lion' does not take b1. Leave it out.",
        "dynamics: kind 'lion' needs steps. Give it.",
    ):
        assert fault in str(refused.value)


def test_the_command_line_takes_a_plugin(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = here(
        "simulate", "--plugin", PLUGIN, "--tokens", "fan", "--num-tokens", 4, "--set", "problem.angle=2.0",
        "--dynamics", "lion", "-r", 0.1, "-t", 30, "--set", "dynamics.beta=0.5", "--record", "loss",
        "--record", "entropy", "--set", 'run.events=["events", "worst"]', "--system", "product",
        "--set", "system.rank=1", "--out", "run.nc",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with xr.open_dataset("run.nc", engine="h5netcdf") as run:
        assert {"entropy", "worst_loss", "num_spikes", "final_A"} <= set(run.data_vars)
        assert '"module": "plugin"' in run.attrs["plugins"]
    again = here("simulate", "run.nc")
    assert again.returncode == 0, again.stderr
    assert "the same as run.nc, bit for bit" in again.stdout


def test_a_file_made_with_a_plugin_needs_it_again(tmp_path):
    command = [sys.executable, "-m", "engram", "simulate"]
    made = [
        "--plugin",
        str(PLUGIN),
        "--dynamics",
        "lion",
        "-r",
        "0.1",
        "-t",
        "5",
        "--out",
        "run.nc",
    ]
    subprocess.run([*command, *made], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run([*command, "run.nc"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"--plugin {PLUGIN}" in done.stderr


def test_a_sampling_may_draw_at_the_start():
    problem = engram.orthonormal(6, 6)
    descent = {"kind": "gd", "learning_rate": 3.0, "steps": 6}
    drawn = (
        {"kind": "descent", "optimizer": "plain", "sampling": "shuffled"}
        | descent
        | {"kind": "descent"}
    )
    runs = [engram.simulate(problem, drawn, key=seed, record=("margins",)) for seed in (1, 1, 2)]
    first = [run.first_learnt.values.tolist() for run in runs]
    assert first[0] == first[1] != first[2]
    for learnt in first:  # each token in a step of its own
        assert sorted(learnt) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(InputError, match="draws random numbers: pass `key`"):
        engram.simulate(problem, drawn)


def test_a_user_defined_system_starts_at_random(own):
    problem = engram.on_sphere(0, 3, 3, 4)
    tables = {
        "problem": {"family": "sphere", "num_tokens": 3, "num_classes": 3, "dim": 4},
        "system": {"kind": "product"},
        "dynamics": {"kind": "gd", "learning_rate": 1.0, "steps": 5},
        "run": {"start_scale": 0.5, "seed": 3},
    }
    run = simulate_spec(read_spec(tables, "spec.toml"))
    system = own.Factored(problem, problem.law)
    with jax.enable_x64(True):
        start = system.start()
        noise = system.noise(start, jax.random.key(3))
        np.testing.assert_allclose(run.start_A, start["A"] + 0.5 * noise["A"], rtol=1e-15)
    del tables["dynamics"]["learning_rate"], tables["run"]["start_scale"]
    scales = {"start_scale": [0.0, 0.5], "learning_rate": [1.0]}
    found = engram.sweep(tables | {"axes": scales, "sweep": {"observables": ["final_loss"]}})
    calm = engram.simulate(system, engram.GradientDescent(1.0, 5), record="loss")
    np.testing.assert_allclose(found.final_loss[0, 0], calm.loss[-1], rtol=1e-9)
    assert abs(found.final_loss[1, 0] - found.final_loss[0, 0]) > 1e-3


@pytest.mark.parametrize("threads", [1, 2])
def test_sweeps_take_names(threads):
    found = engram.sweep(
        {
            "problem": {"family": "fan", "num_tokens": 3},
            "system": {"kind": "product"},
            "dynamics": {"kind": "lion", "steps": 20, "sampling": "turns", "order": "down"},
            "axes": {
                "learning_rate": [0.05, 0.1],
                "beta": [0.0, 0.5],
                "rank": [1, 2],
                "angle": [1.0, 2.0],
            },
            "sweep": {"observables": ["final_loss", "first_perfect", "entropy", "worst"]},
        },
        threads=threads,
    )
    cell = {"learning_rate": 0.1, "beta": 0.5, "rank": 2, "angle": 2.0}
    run = engram.simulate(
        {"family": "fan", "num_tokens": 3, "angle": 2.0},
        {
            "kind": "lion",
            "learning_rate": 0.1,
            "beta": 0.5,
            "steps": 20,
            "sampling": "turns",
            "order": "down",
        },
        system={"kind": "product", "rank": 2},
        record=("loss", "entropy"),
        events=[True, make("event", "worst")],
    )
    there = found.sel(cell)
    np.testing.assert_allclose(there.final_loss, run.loss[-1], rtol=1e-9)
    np.testing.assert_allclose(there.entropy, run.entropy[-1], rtol=1e-9)
    np.testing.assert_allclose(there.worst_loss, run.worst_loss, rtol=1e-9)
    np.testing.assert_allclose(there.first_perfect, run.first_perfect)


def test_tables_of_python_are_checked_as_those_of_files():
    good = {"kind": "lion", "learning_rate": 0.1, "steps": 3, "sampling": "turns"}
    for change, said in (
        ({"beta": 1.0}, "`beta` of dynamics 'lion': must be below 1, got 1.0"),
        ({"beta": float("nan")}, "`beta` of dynamics 'lion': must be a finite number, got nan"),
        ({"beta": True}, "`beta` of dynamics 'lion': must be a number, got True"),
        ({"each": 1.5}, "`each` of dynamics 'lion': must be a whole number, got 1.5"),
        ({"order": "x"}, "`order` of dynamics 'lion': must be 'up' or 'down', got 'x'"),
        ({"is_odd": 1}, "`is_odd` of dynamics 'lion': must be true or false, got 1"),
        (
            {"sampling": {"kind": "turns"}},
            "`sampling` of dynamics 'lion': must be 'everything', 'batches'",
        ),
        ({"sampling": "turn"}, "got 'turn'. Did you mean 'turns'?"),
        ({"each_": 1}, "`each_` of dynamics 'lion': no such field, got 1. Did you mean 'each'?"),
    ):
        with pytest.raises(InputError) as refused:
            engram.simulate(TWO, good | change)
        assert said in str(refused.value)
    with pytest.raises(InputError, match="`rank` of system 'product': must be at least 1, got 0"):
        engram.simulate(TWO, good, system={"kind": "product", "rank": 0})
    with pytest.raises(InputError, match="`record` has 'power' twice"):
        engram.simulate(TWO, good, record=("power", {"kind": "power", "exponent": 3.0}))


def test_a_name_that_hides_a_result_is_refused(own):
    class Loss(D.AbstractFold):
        def init(self, system, state):
            return {"loss": np.zeros(()), "num_spikes": np.full((), 7)}

        def update(self, folded, index, moment):
            return folded

    run = engram.simulate(TWO, engram.GradientDescent(10.0, 9), events=[True, Loss()])
    assert run.loss.dims == ("step",)
    assert (int(run.event_loss), int(run.loss_num_spikes)) == (0, 7)
    assert run.num_spikes != 7


def test_taken_or_invalid_names_are_refused():
    with pytest.raises(InputError, match="`kind` must be one of problem, system"):
        register("optimiser", "mine")
    with pytest.raises(InputError, match="`name` must be a word, got 'a b'"):
        register("optimizer", "a b")
    for kind, name in (("optimizer", "adam"), ("dynamics", "gd"), ("optimizer", "flow")):
        with pytest.raises(InputError, match=f"`name` = {name!r} is taken"):
            register(kind, name)(lambda learning_rate: None)
    with pytest.raises(InputError, match="`steps` of optimizer 'mine' is a word of the table"):
        register("optimizer", "mine")(lambda learning_rate, steps: None)
    with pytest.raises(
        InputError, match="optimizer 'lionn' is not registered. Did you mean 'lion'"
    ):
        find("optimizer", "lionn")
    with pytest.raises(InputError, match="'adam' is built in and cannot be removed"):
        unregister("optimizer", "adam")
    unregister("optimizer", "lion")
    assert "lion" not in entries("optimizer")


def test_plugins_that_cannot_be_loaded_get_one_line(here, tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "json.py").write_text("")
    for name, said in (
        ("absent.py", "is not a file"),
        ("broken.py", "cannot be loaded (ZeroDivisionError: division by zero, in "),
        ("json.py", "would hide the module 'json'"),
        ("no_such_module", "cannot be loaded (ModuleNotFoundError"),
    ):
        source = tmp_path / name if name.endswith(".py") else name
        done = here("simulate", "--plugin", source)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_an_error_in_a_plugin_is_one_line_that_says_where(here, tmp_path):
    path = tmp_path / "own_that_fails.py"
    path.write_text(
        "from engram.registry import register\n\n\n"
        '@register("observable", "fails", help="Fails.")\ndef fails(moment):\n    return 1 // 0\n'
        '@register("observable", "nothing", help="Returns None.")\ndef nothing(moment):\n    pass\n'
    )
    for name, parts in {
        "fails": [
            f"error: in {path}, line 6: ZeroDivisionError: integer division or modulo by zero. "
        ],
        "nothing": [str(path), " were in use: see what they return. "],
    }.items():
        done = here("simulate", "--plugin", path, "--record", name, "--steps", 2)
        assert done.returncode == 2
        for part in [*parts, "ENGRAM_TRACEBACK=1 shows all of it."]:
            assert part in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def test_the_whole_traceback_is_shown_when_it_is_asked_for(here, tmp_path):
    path = tmp_path / "own_that_does_not_load.py"
    path.write_text("import math\n\nmath.sqrt(-1)\n")
    done = here("simulate", "--plugin", path)
    assert f"(ValueError: math domain error, in {path}, line 3)" in done.stderr
    assert done.stderr.count("\n") == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGRAM_TRACEBACK", "1")
        done = here("simulate", "--plugin", path)
    assert done.returncode == 2
    assert f'File "{path}", line 3' in done.stderr


def test_no_plugin_is_loaded_because_a_file_names_it(tmp_path):
    (tmp_path / "trap.py").write_text("raise SystemExit('loaded')\n")
    spec = {"dynamics": {"kind": "trap", "learning_rate": 1.0, "steps": 5}, "plugins": ["trap"]}
    with pytest.raises(InputError, match="plugins: no such table"):
        read_spec(spec, "spec.toml")
    assert "trap" not in sys.modules
