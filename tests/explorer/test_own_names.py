"""Names of a user's own, from one file: asked for, drawn, written as Python, and refused in words."""

import json
import logging
import subprocess
import sys
from typing import Any, Literal

import httpx
import numpy as np
import pytest
from contract import unpack

import engram
from engram._checks import InputError
from engram.dynamics import AbstractSampling
from engram.explorer import _runs, payloads
from engram.explorer._controls import catalogue
from engram.explorer._requests import read_request
from engram.explorer._simulations import make_dynamics, python_lines
from engram.registry import make, register, unregister

pytestmark = pytest.mark.usefixtures("own_names")

RING = {"kind": "ring", "num_tokens": 6, "turn": 0.3}
LION = {"kind": "lion", "learning_rate": 0.1, "beta": 0.8, "sampling": "alternating", "period": 3}
FACTORED = {"kind": "product", "rank": 2, "scale": 0.4}


def request(parts=("plane", "runs"), **state):
    state = {"problem": RING, "runs": [LION], "steps": 20} | state
    body = {"client": "test", "parts": parts, "state": state}
    return read_request(json.dumps(body).encode())


def ask(parts=("plane", "runs"), **state):
    return unpack(payloads.compute(request(parts, **state), {}))


STATES = [
    {},
    {"runs": [{"kind": "polyak", "most": 5.0}], "record": ["entropy", "product_norm"]},
    {"system": FACTORED, "record": ["entropy"], "events": [{"kind": "worst", "above": 0.1}]},
    # Of the smallest system, since a flow compiles for long.
    {
        "system": {"kind": "loss_only"},
        "runs": [{"kind": "flow", "learning_rate": 1.0}],
        "events": ["worst"],
    },
    {"runs": [{"kind": "descent", "optimizer": "lion", "learning_rate": 0.2}], "steps": 1500},
]


@pytest.mark.parametrize("state", STATES)
def test_numbers_and_python_lines_match_the_library(state, own_names):
    header, arrays = ask(**state)
    lines = python_lines(request(**state).state, {})
    assert f"engram.registry.load_plugin({str(own_names)!r})" in lines
    scope = {}
    exec(lines, scope)
    (run,) = scope["runs"]
    for name in {"loss", "error", "margins", "time"} - header["runs"][0]["unknown"].keys():
        assert np.array_equal(arrays[f"runs.0.{name}"], run[name].values, equal_nan=True), name
    for name in state.get("record", []):
        assert np.array_equal(arrays[f"runs.0.record.{name}"], run[name].values), name
    events = header["runs"][0]["found"]
    if state.get("events"):
        assert events == [
            f"worst: worst_loss = {float(run.worst_loss):.5g}",
            f"worst: worst_step = {int(run.worst_step)}",
        ]
    assert header["runs"][0]["num_spikes"] == int(run.num_spikes)


def test_another_system_has_no_plane_and_its_own_sharpness():
    header, arrays = ask(("plane", "runs", "sharpness"), system=FACTORED)
    assert not header["plane"]["has_plane"]
    assert "runs.0.path" not in arrays
    run = engram.simulate(
        make("problem", {"family": "ring", "num_tokens": 6, "turn": 0.3}),
        LION | {"steps": 20},
        system=FACTORED,
        record=("sharpness",),
    )
    assert np.array_equal(arrays["runs.0.sharpness"], run.sharpness.values)
    header, arrays = ask(problem={"kind": "ring"})
    assert header["plane"]["has_plane"]


def test_unknown_observables_of_a_system_are_reported():
    runs = [{"kind": "gd", "learning_rate": 0.3}]
    parts = ("plane", "runs", "sharpness")
    state = {"system": {"kind": "loss_only"}, "record": ["entropy", "grad_norm"]}
    header, arrays = ask(parts, runs=runs, **state)
    run = header["runs"][0]
    assert run["unknown"]["error"] == "`error` is not defined for a LossOnly."
    assert {"error", "margins", "weights", "entropy"} <= run["unknown"].keys()
    assert {"runs.0.loss", "runs.0.sharpness", "runs.0.record.grad_norm"} <= arrays.keys()
    assert "runs.0.margins" not in arrays
    assert run["events"] == []


def test_thresholds_are_the_optimizers_own():
    def thresholds_of(table):
        (run,) = request(runs=[table]).state.runs
        return _runs._thresholds(run, make_dynamics(run, 20), 20)

    assert thresholds_of(LION) == []
    momentum = {"kind": "momentum", "learning_rate": 0.5, "momentum": 0.5, "weight_decay": 1}
    assert thresholds_of(momentum) == [[0, 2 * 1.5 / 0.5 - 1]]
    cosine = {"schedule": "cosine", "peak": 1.0, "steps": 20}
    pairs = thresholds_of({"kind": "gd", "learning_rate": cosine})
    assert pairs[0] == [0, 2]
    assert len(pairs) == 20


BAD = [
    ({"runs": [LION | {"beta": 2}]}, "runs.0.beta: must be at most 1, got 2"),
    ({"runs": [LION | {"period": 101}]}, "runs.0.period: must be at most 100"),
    ({"runs": [LION | {"b1": 0.5}]}, "runs.0: kind 'lion' does not take b1."),
    (
        {"runs": [LION | {"changes": [{"step": 3, "rate": 1}]}]},
        "of lion cannot change during the run",
    ),
    ({"system": FACTORED | {"rank": 10**9}}, "system.rank: must be at most 20000 here"),
    ({"system": FACTORED | {"rank": 20000}}, "a state of at most 65536 numbers here, got 80000"),
    ({"problem": RING | {"num_tokens": 51}}, "problem.num_tokens: must be at most 50 here"),
    ({"events": ["worse"]}, "Did you mean 'worst'"),
]


@pytest.mark.parametrize(("state", "said"), BAD, ids=[said for _, said in BAD])
def test_bounds_apply_to_registered_names(state, said):
    with pytest.raises(InputError, match=said):
        ask(**state)


def test_errors_in_a_users_code_are_reported_to_the_user(caplog):
    @register("observable", "broken")
    def broken(moment):
        raise RuntimeError("no such thing\nand more")

    said = r"'broken'.* cannot be computed \(RuntimeError: no such thing\). Call `engram.simulate`"
    try:
        with caplog.at_level(logging.CRITICAL), pytest.raises(InputError, match=said):
            ask(record=["broken"])
    finally:
        unregister("observable", "broken")


def test_the_catalogue_lists_registered_names_with_their_fields():
    offered = catalogue()
    assert offered["dynamics"]["lion"]["is_own"]
    beta = offered["dynamics"]["lion"]["fields"]["beta"]
    assert beta["form"] == "number"
    assert (beta["low"], beta["high"], beta["usual"]) == (0, 1, 0.9)
    assert offered["dynamics"]["lion"]["parts"] == ["sampling"]
    assert "steps" not in offered["dynamics"]["polyak"]["fields"]
    assert offered["system"]["memory"]["fields"]["layer_norm"]["form"] == "truth"
    assert offered["problem"]["ring"]["fields"]["num_tokens"]["high"] == 50
    assert offered["sampling"]["alternating"]["fields"]["period"]["form"] == "whole"
    assert {"entropy", "product_norm"} <= offered["observable"].keys()
    assert offered["event"].keys() == {"worst"}


def test_fields_with_few_annotations_have_controls():
    @register("sampling", "plainly")
    class Plainly(AbstractSampling):
        share: Any
        is_odd: bool = False
        mode: Literal["a", "b"] = "b"
        weights: list[float] | None = None

        def law(self, system, inner, index, key):
            return None, inner

    try:
        fields = catalogue()["sampling"]["plainly"]["fields"]
    finally:
        unregister("sampling", "plainly")
    assert {name: field["form"] for name, field in fields.items()} == {
        "share": "text", "is_odd": "truth", "mode": "choice", "weights": "text",
    }  # fmt: skip
    assert [field["usual"] for field in fields.values()] == [1, False, "b", None]
    assert [field["is_required"] for field in fields.values()] == [True, False, False, False]


def test_the_server_offers_names_registered_in_the_session(explorer):
    with httpx.Client(base_url=explorer.url, timeout=60, trust_env=False) as client:
        assert "lion" in client.get("/api/catalogue").json()["dynamics"]


def test_the_command_loads_plugins(own_names):
    command = [sys.executable, "-m", "engram", "explore", "--no-browser"]
    missing = subprocess.run(
        [*command, "--plugin", "nowhere.py"], capture_output=True, text=True, timeout=120
    )
    assert missing.returncode == 2
    assert "plugin nowhere.py is not a file" in missing.stderr
    with subprocess.Popen(
        [*command, "--plugin", str(own_names)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            url = process.stdout.readline().split()[-1]
            answer = httpx.get(f"{url}api/catalogue", trust_env=False, timeout=60)
            assert "lion" in answer.json()["dynamics"]
        finally:
            process.kill()
