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
from engram.registry import entries, make, names_of, table
from engram.specs import OPTIONS, build_problem, read_spec, read_toml, read_training, write_spec
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
    assert spec.dynamics["learning_rate"] == 1.0
    assert read_spec({"dynamics": DESCENT, "run": {"stop": {"loss": 1}}}, "spec.toml").run["stop"]


def test_faults_say_what_is_wrong_and_what_to_do():
    tables = {
        "problem": SPHERE
        | {"exponent": float("nan"), "probs": ["x"], "targets": "some", "p1": 0.5},
        "dynamics": DESCENT | {"steps": -1},
        "run": {"stop": 5, "foo": 1},
    }
    said = faults(tables)
    assert "problem: family 'sphere' does not take p1. Leave it out." in said
    assert "problem.exponent: must be a finite number, got nan" in said
    assert "problem.probs.0: must be a number, got 'x'" in said
    assert "targets: must be 'identity', 'mod' or 'random' or a list, got 'some'. Pick" in said
    assert "steps: must be at least 0, got -1. Choose a larger one." in said
    assert "run.stop: must be 'perfect' or a table, got 5. Pick one." in said
    assert "run.foo: no such field, got 1. Check its spelling" in said
    assert said.startswith("7 faults")


def test_faults_name_options_as_they_were_typed():
    problem = {"family": "spheres", "num_tokens": 10**30}
    said = faults({"problem": problem, "dynamics": DESCENT}, OPTIONS)
    assert "--tokens (problem.family): must be 'two'" in said
    assert "--num-tokens (problem.num_tokens): must be at most 2147483647, got 1000000000" in said


NEEDS = {
    "flow": "end or times",
    "sgf": "end or times, learning_rate or noise_scale, batch_size or noise_scale",
    "gd": "learning_rate, steps",
    "central": "learning_rate, steps",
    "sgd": "learning_rate, steps, batch_size",
    "descent": "steps, optimizer",
}


@pytest.mark.parametrize("kind", names_of("dynamics"))
def test_missing_fields_are_reported_with_other_faults(kind):
    fault = f"dynamics: kind {kind!r} needs {NEEDS.get(kind, 'steps, learning_rate')}. "
    assert fault in faults({"dynamics": {"kind": kind, "foo": 1}})
    assert faults({"dynamics": {"kind": kind}}).count(fault) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a = " + b"[" * 3000 + b"]" * 3000, "thousands of levels"),
        (b"a = " + b"9" * 4401, "a number of thousands of digits"),
        (b"a = 0x" + b"f" * 9000, "whole numbers below 2**63: .*: a is beyond"),
        (b"[dynamics]\nsteps = 999999999999999999999999", "dynamics.steps is beyond"),
        (b".".join([b"a"] * 4000) + b" = 1", "is nested too deeply"),
        (b"# " + b"x" * 2**22, "has more than 4 MiB"),
        (b"\0", "is not TOML"),
    ],
)
def test_strange_files_are_refused(tmp_path, text, said):
    path = tmp_path / "spec.toml"
    path.write_bytes(text)
    with pytest.raises(InputError, match=said.replace("**", r"\*\*")):
        read_toml(path)


def test_specs_of_trainings_are_as_strict():
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
    for name, said in (("p.npz", "lacks the arrays"), ("none.npz", "is not a file")):
        spec = {"family": "file", "path": str(tmp_path / name)}
        with pytest.raises(InputError, match=rf"problem.path: {said}"):
            build_problem(spec)


# A value for each field that is required: whatever has a name can then be made.
VALUES = {
    "learning_rate": 0.3, "steps": 7, "batch_size": 2, "correlation": 0.5, "p1": 0.25, "num_tokens": 4,
    "num_classes": 3, "dim": 5, "batches": [[0, 1], [2, 0]], "counts": [2, 1, 1], "lengths": [3, 4],
    "laws": [[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]], "peak": 0.5, "rates": [0.5, 0.1], "changes": [3],
    "rank": 2, "width": 6, "num_relations": 2,
}  # fmt: skip
PARTS = ("system", "dynamics", "optimizer", "sampling", "event")
EVERYTHING = [(kind, name) for kind in PARTS for name in entries(kind) if name != "descent"]


def numbers_of(fields, *, halved=False):
    """A value for every required field; or for every number, another one than usual."""
    found = {name: VALUES[name] for name, field in fields.items() if field.is_required}
    if halved:
        usual = {name: field.default for name, field in fields.items() if field.is_real}
        found |= {name: value / 2 for name, value in usual.items() if isinstance(value, float)}
    return found


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_registered_objects_survive_a_round_trip(kind, name, halved):
    chooser = kind if kind in ("optimizer", "sampling") else "kind"
    given = {chooser: name} | numbers_of(entries(kind)[name].fields, halved=halved)
    given |= {"times": [0.0, 4.0]} if name in ("flow", "sgf") else {}
    given |= {"noise_scale": 0.5} if name == "sgf" else {}
    problem = engram.two_tokens(0.5, 0.5)
    supplied = {"problem": problem, "law": problem.law} if kind == "system" else {}
    thing = make(kind, given, **supplied)
    plain = json.loads(json.dumps(table(thing)))
    assert {key: plain[key] for key in given} == given
    assert eqx.tree_equal(make(kind, plain, **supplied), thing)
    assert table(make(kind, plain, **supplied)) == plain


@pytest.mark.parametrize("sampling", entries("sampling"))
@pytest.mark.parametrize("name", entries("optimizer"))
def test_descents_survive_a_round_trip(name, sampling):
    optimizer = numbers_of(entries("optimizer")[name].fields, halved=True)
    drawn = {"sampling": sampling} | numbers_of(entries("sampling")[sampling].fields)
    coupled = {} if name == "adamw" else {"weight_decay": 0.02}
    given = {"steps": 7} | optimizer | drawn | coupled
    for kind in ({"kind": name}, {"kind": "descent", "optimizer": name}):
        descent = make("dynamics", kind | given)
        assert type(descent) is (D.Descent if "optimizer" in kind else D.PracticalDescent)
        assert eqx.tree_equal(make("dynamics", table(descent)), descent)
        tables = {"dynamics": table(descent)}
        stored = read_spec(json.loads(write_spec(read_spec(tables, "spec.toml"))), "run.nc")
        assert eqx.tree_equal(make("dynamics", stored.dynamics), descent)
        config = tomllib.loads(to_toml(tables))
        assert eqx.tree_equal(read_training(config, "config.toml")[1][0], descent)


def test_well_known_names_survive_a_round_trip():
    for descent in (
        engram.GradientDescent(0.3, 7),
        engram.GradientDescent([0.3, 0.2], 2),
        engram.StochasticGradientDescent(0.3, 7, 2),
        engram.StochasticGradientDescent(0.3, 2, 2, batches=[[0, 1], [1, 1]]),
        engram.PracticalDescent(D.sgd(0.3), 7, 2, weight_decay=0.5),
        engram.PracticalDescent(D.adamw(0.3, weight_decay=0.5), 7),
        engram.GradientFlow([0.0, 1.0, 9.0], rtol=1e-6),
        engram.StochasticGradientFlow([0.0, 1.0], 0.1, 4, time_step=0.25),
    ):
        assert eqx.tree_equal(make("dynamics", json.loads(json.dumps(table(descent)))), descent)


def test_a_misspelt_choice_is_answered_with_its_name():
    said = faults({"problem": {"famly": "two"}})
    assert "problem.famly: no such field, got 'two'. Did you mean 'family'?" in said


@pytest.mark.parametrize("name", entries("schedule"))
def test_schedules_have_names(name):
    schedule = {"schedule": name} | numbers_of(entries("schedule")[name].fields)
    tables = {"dynamics": {"kind": "momentum", "learning_rate": schedule, "steps": 9}}
    made = make("dynamics", read_spec(tables, "spec.toml").dynamics)
    rate = getattr(D, name)(**{key: value for key, value in schedule.items() if key != "schedule"})
    np.testing.assert_allclose(made.learning_rate, [rate(t) for t in range(9)], rtol=1e-6)
    assert made.learning_rate.dtype == np.float64
    assert eqx.tree_equal(make("dynamics", table(made)), made)
    said = faults({"dynamics": DESCENT | {"learning_rate": schedule | {"peek": 1}}})
    assert "schedule.peek: no such field, got 1" in said
    said = faults({"dynamics": DESCENT | {"learning_rate": {"schedule": "cosin"}}})
    assert (
        "schedule.schedule: must be 'warmup', 'cosine' or 'piecewise', got 'cosin'. Did you mean"
        in said
    )


TABLES = [
    entry
    for kind in (*PARTS, "problem", "schedule", "transformer")
    for entry in entries(kind).values()
]


@pytest.mark.parametrize("entry", TABLES, ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_the_catalogue_is_what_the_signatures_say(entry):
    takes = inspect.signature(entry.load()).parameters
    fields = {name: field for name, field in entry.fields.items() if field.argument != ""}
    known = {field.argument or name: field for name, field in fields.items()}
    assert known.keys() | {"problem", "law", *entry.parts} >= takes.keys() >= known.keys()
    for name, field in known.items():
        if field.argument:  # a seed, for which a function has no usual value
            continue
        usual = takes[name].default
        assert field.is_required == (usual is inspect.Parameter.empty), name
        if not field.is_required:
            assert (list(usual) if isinstance(usual, tuple) else usual) == field.default, name


@pytest.mark.parametrize(
    ("kind", "field"),
    [("adam", "momentum"), ("adam", "decay"), ("rmsprop", "b1"), ("sign", "eps"), ("gd", "b2")],
)
def test_numbers_of_another_optimizer_are_refused(kind, field):
    tables = {"dynamics": DESCENT | {"kind": kind, field: 0.5}}
    assert f"kind {kind!r} does not take {field}" in faults(tables)
