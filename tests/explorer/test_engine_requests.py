"""The page's engine knows what it can compute, and refuses what is wrong in the server's words."""

import json

import pytest
from node_engine import NODE, Engine

from engram._checks import InputError
from engram.explorer._controls import KINDS, catalogue
from engram.explorer._presets import PRESETS
from engram.explorer._requests import State, read_request
from engram.explorer._simulations import make_dynamics, make_problem, python_lines

pytestmark = pytest.mark.skipif(NODE is None, reason="no node here: the engine's tests need one")


@pytest.fixture(scope="module")
def engine():
    made = Engine()
    yield made
    made.close()


TWO = {"kind": "two", "correlation": 0.5, "p1": 0.7}
DRAWN = {"kind": "sphere", "num_tokens": 5, "num_classes": 2, "dim": 2}
GD = {"kind": "gd", "learning_rate": 1}


def state(**changes):
    return {"problem": TWO, "runs": [GD], "steps": 34} | changes


def run(kind="gd", **fields):
    return {"runs": [{"kind": kind, "learning_rate": 1} | fields]}


def table(*tokens):
    names = ("x", "y", "target", "prob")
    return {"kind": "table", "tokens": [dict(zip(names, each, strict=True)) for each in tokens]}


BAD = [
    *({"steps": steps} for steps in (0, 20001, 1.5, "x", None)),
    *({"problem": TWO | each} for each in (
        {"correlation": 1.5}, {"correlation": -2}, {"p1": -0.25}, {"dim": 1}, {"dim": 40}, {"p1": "a"},
        {"p1": None},
    )),
    {"problem": {"kind": "two", "p1": 0.5}},
    *({"problem": DRAWN | each} for each in (
        {"num_tokens": 60}, {"num_tokens": 0}, {"num_classes": 1}, {"num_classes": 20}, {"dim": 2.5},
        {"exponent": 9}, {"exponent": -1}, {"seed": -1}, {"seed": 2**31}, {"targets": "identity"},
        {"num_tokens": 60, "dim": 99}, {"probs": [0.5, 0.2, 0.1, 0.1, 0.2]},
    )),
    {"problem": {"kind": "orthonormal", "num_tokens": 5, "num_classes": 2, "dim": 3}},
    {"problem": {"kind": "one_hot", "num_tokens": 50, "num_classes": 2}},
    *(run(learning_rate=rate) for rate in (-3, 0, 1e-7, 12345678, "x", None, [1, 2], [1, -2])),
    {"runs": [{"kind": "gd"}]},
    {"runs": [GD, GD, {"kind": "sgd", "learning_rate": -3, "batch_size": 0}], "steps": 0},
    *(run("sgd", **each) for each in (
        {}, {"batch_size": 0}, {"batch_size": 65}, {"batch_size": 2.5}, {"batch_size": 4, "seed": -1}
    )),
    run("momentum", momentum=1), run("momentum", momentum=-0.1), run("adam", eps=-1e-8),
    run("exact_muon", cutoff=2),
    run("flow", learning_rate=0), run("flow", rtol=0), {"runs": [{"kind": "flow"}]},
    *(run(kind, changes=[{"step": step, "rate": rate} for step, rate in changes]) for kind, *changes in (
        ("gd", (0, 1)), ("gd", (5, 1), (5, 2)), ("gd", (5, 0)), ("flow", (5, 1)), ("gd", (9, 1), (8, 0.5))
    )),
    *({"start": each} for each in (
        {"a": 100000.5}, {"b": "x"}, {"scale": -1}, {"scale": 1000}, {"seed": -1}, {"seed": 1.5}
    )),
    *({"view": each} for each in ({"half": 0}, {"half": -5}, {"x": 1e6 + 0.5}, {"overlay": "x"})),
    *({"problem": each} for each in (
        table((0, 1, 0, 0.5)), table((0, 1, 2, 1)), table((0, "q", 0, 1.5)), table()
    )),
]  # fmt: skip


def said(given):
    """What the server says to a state."""
    request = {"client": "test", "parts": ["plane"], "state": given}
    try:
        read = read_request(json.dumps(request).encode()).state
        make_problem(read.problem, {})
        for each in read.runs:
            make_dynamics(each, read.steps)
    except InputError as error:
        return str(error)
    raise AssertionError(f"not refused: {given}")


def test_refusals_are_worded_as_the_servers(engine):
    states = [state(**changes) for changes in BAD]
    answers = engine.call("index", "answer", *([{"parts": ["plane"], "state": s}] for s in states))
    for given, answer in zip(states, answers, strict=True):
        assert answer["text"] == said(given), given
        assert answer["error"] == "Refused"


def test_every_preset_is_within_the_engine(engine):
    states = [{k: v for k, v in preset["state"].items() if k != "show"} for preset in PRESETS]
    assert all(engine.values("index", "can", *([each] for each in states)))


BEYOND = [
    run("sgf", batch_size=4),
    {"system": {"kind": "memory", "layer_norm": True}},
    {"problem": {"kind": "own", "name": "0123abcd"}},
    {"problem": {"kind": "replay", "name": "0123abcd"}},
    {"record": ["stability_gap"]},
    {"events": ["mine"]},
    run(learning_rate={"schedule": "cosine", "peak": 1, "steps": 3}),
    run("lion"),
    run(beta=0.3),
    {"problem": {"kind": "ring", "num_tokens": 4}},
    {"problem": 3},
    {"runs": None},
]


def test_what_is_beyond_the_engine_is_left_to_the_server(engine):
    states = [state(**changes) for changes in BEYOND]
    assert not any(engine.values("index", "can", *([each] for each in states)))
    questions = [{"parts": ["runs"], "state": each} for each in states]
    questions += [{"parts": ["pushes"], "state": state(**run("adam"))}]
    questions += [{"parts": ["everything"], "state": state()}]
    for answer in engine.call("index", "answer", *([each] for each in questions)):
        assert answer["error"] == "Beyond"


def test_the_engines_bounds_and_fields_are_the_pages(engine):
    (fields,) = engine.values("requests", "described", [])
    offered = catalogue()
    assert {"problem", "dynamics"} < {*KINDS}
    for kind, names in fields.items():
        for name, controls in names.items():
            known = offered[kind][name]["fields"]
            unbounded = {"probs", "targets", "batches"} | (
                {"learning_rate"} if name == "flow" else set()
            )
            assert known.keys() - controls.keys() <= unbounded
            for field in known.keys() & controls.keys():
                assert [known[field]["low"], known[field]["high"]] == controls[field], (name, field)


WRITTEN = [
    *({k: v for k, v in preset["state"].items() if k != "show"} for preset in PRESETS),
    state(
        problem={"kind": "orthonormal", "num_tokens": 3, "num_classes": 3, "seed": 5},
        start={"scale": 1, "seed": 2},
    ),
    state(
        problem=DRAWN | {"probs": [0.125, 0.5, 0.125, 0.125, 0.125], "targets": [0, 1, 1, 0, 1]},
        start={"a": 1e-7},
    ),
    state(**run("descent", optimizer="adam", learning_rate=1e-5, sampling="batches", batch_size=2)),
    state(**run(changes=[{"step": 3, "rate": 1e6}, {"step": 90, "rate": 2}])),
    state(**run("momentum", momentum=0, batch_size=3, seed=7), record=["grad_norm"]),
    state(runs=[{"method": "sgd", "rate": 2}, {"method": "flow", "rate": 0.5}], steps=2000),
]  # fmt: skip


def test_the_python_lines_are_the_servers(engine):
    lines = engine.values("python", "pythonLines", *([each] for each in WRITTEN))
    for given, text in zip(WRITTEN, lines, strict=True):
        assert text == python_lines(State.model_validate(given), {})
