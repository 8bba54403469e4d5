"""What specs refuse: values of the wrong type or size, and files that are none."""

import inspect
import json
import tomllib

import equinox as eqx
import numpy as np
import pytest

import engram
from engram import dynamics as D
from engram._checks import InputError
from engram.specs import (
    build_dynamics,
    build_problem,
    read_spec,
    read_toml,
    read_training,
    write_spec,
)
from engram.specs._models import _KIND_NEEDS, OPTIONS, ProblemSpec
from engram.transformer._describe import describe
from engram.transformer._folder import to_toml

DESCENT = {"learning_rate": 1.0, "steps": 5}
SPHERE = {"family": "sphere", "num_tokens": 4, "num_classes": 3, "dim": 5}


def faults(tables, source="spec.toml", read=read_spec):
    with pytest.raises(InputError) as caught:
        read(tables, source)
    return str(caught.value)


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("dynamics", "steps", True),
        ("dynamics", "steps", "5"),
        ("dynamics", "steps", 10**30),
        ("dynamics", "batch_size", 2**32),
        ("dynamics", "learning_rate", "1"),
        ("problem", "dim", "8"),
        ("problem", "dim", 2**32),
        ("problem", "num_tokens", 10**30),
        ("problem", "num_classes", 2**63 - 1),
        ("run", "points", 2**32),
        ("run", "stop", {"loss": float("nan")}),
        ("run", "seed", False),
    ],
)
def test_wrong_types_and_sizes_are_faults(table, field, value):
    tables = {"problem": SPHERE, "dynamics": DESCENT | {"kind": "sgd", "batch_size": 2}, "run": {}}
    tables[table] = tables[table] | {field: value}
    assert f"1 fault in spec.toml:\n  {table}.{field}" in faults(tables)


def test_whole_numbers_serve_as_floats():
    spec = read_spec({"dynamics": {"learning_rate": 1, "steps": 5}}, "spec.toml")
    assert spec.dynamics.learning_rate == 1.0
    assert read_spec({"dynamics": DESCENT, "run": {"stop": {"loss": 1}}}, "spec.toml").run.stop


def test_faults_say_what_is_wrong_and_what_to_do():
    tables = {
        "problem": {"correlation": 0.5, "p1": float("nan"), "probs": ["x"], "targets": "some"},
        "dynamics": DESCENT | {"steps": -1},
        "run": {"stop": 5, "foo": 1},
    }
    said = faults(tables)
    assert "problem.p1: must be a finite number, got nan" in said
    assert "problem.probs.0: must be a number, got 'x'" in said
    assert "targets: must be 'identity', 'mod' or 'random' or a list, got 'some'. Pick" in said
    assert "steps: must be greater than or equal to 0, got -1. Choose a larger one." in said
    assert "run.stop: must be 'perfect' or a table, got 5. Pick one." in said
    assert "run.foo: no such field, got 1. Check its spelling" in said
    assert said.startswith("6 faults")


def test_what_was_typed_is_named_as_it_is_typed():
    problem = {"family": "spheres", "num_tokens": 10**30}
    said = faults({"problem": problem, "dynamics": DESCENT}, OPTIONS)
    assert "--tokens (problem.family): must be 'two'" in said
    assert "--num-tokens (problem.num_tokens): must be less than 2147483648, got 1000000000" in said


@pytest.mark.parametrize("kind", _KIND_NEEDS)
def test_missing_fields_are_told_of_every_kind_beside_other_faults(kind):
    needs = ", ".join(_KIND_NEEDS[kind])
    told = f"dynamics: kind {kind!r} needs {needs}"
    assert told in faults({"dynamics": {"kind": kind, "foo": 1}})
    assert faults({"dynamics": {"kind": kind}}).count(told) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a = " + b"[" * 3000 + b"]" * 3000, "thousands of levels"),
        (b"a = " + b"9" * 4401, "a number of thousands of digits"),
        (b"a = 0x" + b"f" * 9000, "whole numbers below 2**63: .*: a is beyond"),
        (b"[dynamics]\nsteps = 999999999999999999999999", "dynamics.steps is beyond"),
        (b".".join([b"a"] * 4000) + b" = 1", "nests too deep"),
        (b"# " + b"x" * 2**22, "has more than 4 MiB"),
        (b"\0", "is not TOML"),
    ],
)
def test_strange_files_are_refused(tmp_path, text, said):
    path = tmp_path / "spec.toml"
    path.write_bytes(text)
    with pytest.raises(InputError, match=said.replace("**", r"\*\*")):
        read_toml(path)


def test_training_is_as_strict():
    tables = {"transformer": {"dim": "8", "zero_start": 1}, "dynamics": DESCENT}
    said = faults(tables, read=read_training)
    assert "transformer.dim: must be a whole number, got '8'" in said
    assert "transformer.zero_start: must be true or false, got 1" in said
    tables = {"transformer": {"matrices": ["wo2"]}, "dynamics": DESCENT | {"learning_rate": [1, 2]}}
    config, runs, _ = read_training(tables, "spec.toml")
    assert config.matrices == ("wo2",)
    assert len(runs) == 2
    for name in ("dim", "sequences"):
        for size in (2**32, 10**30):
            said = faults({"transformer": {name: size}, "dynamics": DESCENT}, read=read_training)
            assert f"`{name}` must be at most" in said
    said = faults({"transformer": {"dim": 2**31 - 1}, "dynamics": DESCENT}, read=read_training)
    assert "would need about" in said
    tables = {"transformer": {"foo": 1}, "dynamics": {"kind": "adam", "learning_rate": [1, 2]}}
    assert "dynamics: kind 'adam' needs steps" in faults(tables, read=read_training)


def test_faults_of_a_problem_file_name_the_option(tmp_path):
    np.savez(tmp_path / "p.npz", inputs=np.eye(2))
    for name, said in (("p.npz", "lacks the arrays"), ("none.npz", "is no file")):
        spec = ProblemSpec(family="file", path=str(tmp_path / name))
        with pytest.raises(InputError, match=rf"--problem-file \(problem.path\): {said}"):
            build_problem(spec)


OPTIMIZERS = {
    name: make
    for name, make in vars(D).items()
    if inspect.isfunction(make) and inspect.signature(make).return_annotation is D.Optimizer
}


def descents(name):
    """With default numbers, and with every number halved."""
    usual = dict(inspect.signature(OPTIMIZERS[name]).parameters)
    usual.pop("learning_rate")
    halved = {key: parameter.default / 2 for key, parameter in usual.items()}
    coupled = {} if name == "adamw" else {"weight_decay": 0.02}
    yield engram.PracticalDescent(OPTIMIZERS[name](0.3), 7)
    yield engram.PracticalDescent(OPTIMIZERS[name](0.3, **halved), 7, 2, **coupled)


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "sgd"])
def test_an_optimizer_is_the_same_after_a_round_trip(name):
    for descent in descents(name):
        config = tomllib.loads(to_toml({"dynamics": describe([descent])}))
        _, (from_config,), _ = read_training(config, "config.toml")
        assert eqx.tree_equal(from_config, descent)
        stored = write_spec(read_spec(config, "spec.toml"))
        again = build_dynamics(read_spec(json.loads(stored), "run.nc").dynamics)
        assert eqx.tree_equal(again, descent)


def test_plain_descent_keeps_its_numbers_or_is_refused():
    whole, batches = (engram.PracticalDescent(D.sgd(0.3), 7, size) for size in (None, 2))
    for descent, same in (
        (whole, engram.GradientDescent(0.3, 7)),
        (batches, engram.StochasticGradientDescent(0.3, 7, 2)),
    ):
        _, (from_config,), _ = read_training({"dynamics": describe([descent])}, "config.toml")
        assert eqx.tree_equal(from_config, same)
    decayed = engram.PracticalDescent(D.sgd(0.3), 7, weight_decay=0.1)
    said = faults({"dynamics": describe([decayed])}, read=read_training)
    assert "kind 'gd' does not take weight_decay" in said


@pytest.mark.parametrize(
    ("kind", "field"),
    [("adam", "momentum"), ("adam", "decay"), ("rmsprop", "b1"), ("sign", "eps"), ("gd", "b2")],
)
def test_numbers_of_another_optimizer_are_refused(kind, field):
    tables = {"dynamics": DESCENT | {"kind": kind, field: 0.5}}
    assert f"kind {kind!r} does not take {field}" in faults(tables)
