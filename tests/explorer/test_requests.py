"""What may be asked for: tables of the registry within bounds, old links, and clear words for the rest."""

import json

import pytest

from engram._checks import InputError
from engram.explorer._requests import MOST_STEPS, State, read_request
from engram.explorer.payloads import compute

TWO = {"kind": "two", "correlation": 0.95, "p1": 0.75}
GD = {"kind": "gd", "learning_rate": 1.0}


def read(**change):
    state = {"problem": TWO, "runs": [GD], "steps": 34} | change
    return read_request(
        json.dumps({"client": "test", "parts": ["runs"], "state": state}).encode()
    ).state


def sphere(tokens, **more):
    return {"family": "sphere", "num_tokens": tokens, "num_classes": 2, "dim": 2} | more


def one(kind, rate=1.0, **fields):
    return {"runs": [{"kind": kind, "learning_rate": rate, **fields}]}


def old(method, rate, **fields):
    return {"runs": [{"method": method, "rate": rate, **fields}]}


def test_old_links_mean_the_same():
    short = [
        {"method": "gd", "rate": 10, "batch": 4, "seed": 0, "changes": [{"step": 3, "rate": 1}]},
        {"method": "sgd", "rate": 2.0, "batch": 16, "seed": 5},
        {"method": "sgd", "rate": 2.0},
        {"method": "flow", "rate": 3.0},
    ]
    runs = read(runs=short).runs
    changes = [{"step": 3, "rate": 1}]
    assert runs == read(runs=[
        {"kind": "gd", "learning_rate": 10.0, "changes": changes},
        {"kind": "sgd", "learning_rate": 2.0, "batch_size": 16, "seed": 5},
        {"kind": "sgd", "learning_rate": 2.0, "batch_size": 4},
        {"kind": "flow", "learning_rate": 3.0},
    ]).runs  # fmt: skip
    assert runs[0].table == {"kind": "gd", "learning_rate": 10.0}
    assert runs[3].table == {"kind": "flow"}
    assert runs[3].rate == 3.0
    before = {"kind": "sphere", "tokens": 5, "classes": 3, "dim": 4, "exponent": 1.0, "seed": 2}
    assert read(problem=before).problem.table == {
        "family": "sphere", "num_tokens": 5, "num_classes": 3, "dim": 4, "exponent": 1.0, "seed": 2,
    }  # fmt: skip


CHANGES = [{"step": 3, "rate": 1}]
BAD = [
    ({"steps": 0}, "steps: input should be greater than or equal to 1, got 0"),
    ({"steps": MOST_STEPS + 1}, "steps: input should be less than or equal to 20000"),
    ({"steps": 2.5}, "steps: input should be a valid integer"),
    ({"runs": []}, "runs: list should have at least 1 item"),
    ({"runs": [GD] * 5}, "runs: list should have at most 4 items"),
    (one("gd", -1), "runs.0.learning_rate: must be at least 0, got -1."),
    (one("gd", 1e-9), "runs.0.learning_rate: must be at least 1e-06 here, got 1e-09"),
    (one("gd", [1.0, 1e9]), "runs.0.learning_rate: must be at most 1000000.0 here"),
    (old("gd", None), "runs.0.learning_rate: must be a number or a list or a table, got None"),
    (one("flow", None), "runs.0.learning_rate: must be a number from 1e-06"),
    (one("flow", [1.0]), "runs.0.learning_rate: must be a number from 1e-06"),
    (old("lbfgs", 1), "runs.0.kind: must be 'gd'"),
    (one(["gd"]), "runs.0.kind: must be 'gd'"),
    ({"runs": [{"kind": "adam"}]}, "runs.0: kind 'adam' needs learning_rate. Give it."),
    (one("adam", momentum=0.5), "runs.0: kind 'adam' does not take momentum. Leave it out."),
    (one("adam", b1=1.0), "runs.0.b1: must be below 1, got 1.0"),
    (one("adam", sampling=["batches"]), "runs.0.sampling: must be 'everything'"),
    (one("adam", sampling="epochs"), "runs.0: kind 'adam' needs batch_size, counts."),
    (one("sgd", batch_size=65), "runs.0.batch_size: must be at most 64 here"),
    (one("gd", steps=10**9), "runs.0.steps: is set by the page. Leave it out."),
    (one("flow", solver="implicit"), "runs.0.solver: is set by the page."),
    (one("x" * 300), "runs.0: a text must have at most 200 characters, got 300"),
    (one("gd", [[[[[[1]]]]]]), "runs.0: a field nests too deep"),
    (one("gd", 10**400), "runs.0.learning_rate"),
    (one("gd", seed=-1), "runs.0.seed: input should be greater than or equal to 0"),
    (one("sign", changes=CHANGES * 2), "runs.0.changes: must come at increasing steps, got [3, 3]"),
    (one("flow", changes=CHANGES), "the learning rate of flow cannot change during the run"),
    (one("gd", changes=[{"step": 3, "rate": 0}]), "runs.0.changes.0.rate: input should be"),
    ({"runs": [3]}, "runs.0: input should be an object"),
    ({"problem": TWO | {"correlation": 1.5}}, "problem.correlation: must be at most 1"),
    ({"problem": TWO | {"num_tokens": 3}}, "family 'two' does not take num_tokens"),
    ({"problem": {"kind": "file", "path": "/etc/passwd"}}, "problem.family: 'file' cannot be chosen"),
    ({"problem": sphere(3, dim=33)}, "problem.dim: must be at most 32 here"),
    ({"problem": sphere(51)}, "problem.num_tokens: must be at most 50 here, got 51"),
    ({"problem": sphere("3")}, "problem.num_tokens: must be a whole number, got '3'"),
    ({"problem": {"kind": "own", "name": "../../etc"}}, "problem.name: string should match pattern"),
    ({"problem": 3}, "problem: input should be an object, got 3"),
    ({"system": {"kind": "matrix"}}, "'network' or 'attention', got 'matrix'"),
    ({"system": {"layer_norm": 1}}, "system.layer_norm: must be true or false, got 1"),
    ({"record": ["flavour"]}, "record.0.kind: must be 'loss'"),
    ({"record": ["scores"]}, "record.0.kind: 'scores' cannot be chosen here"),
    ({"record": ["grad_norm"] * 5}, "record: list should have at most 4 items"),
    ({"record": [{"kind": "grad_norm", "x": 1}]}, "record.0.x: no such field, got 1."),
    ({"events": [{"kind": "events"}]}, "events.0.kind: 'events' cannot be chosen here"),
    ({"events": [3]}, "events.0: input should be an object, got 3"),
    ({"view": {"half": 0}}, "view.half: input should be greater than or equal to 0.01"),
    ({"extra": 1}, "extra: extra inputs are not permitted"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), BAD, ids=[said for _, said in BAD])
def test_errors_name_the_field_and_the_value(change, said):
    with pytest.raises(InputError) as fault:
        read(**change)
    assert said in str(fault.value)
    assert "\n" not in str(fault.value)
    assert len(str(fault.value)) < 1500


LATE = [
    (
        {"problem": {"kind": "table", "tokens": [{"x": 1, "y": 0, "target": 0, "prob": 0.5}]}},
        "sum to 1",
    ),
    ({"problem": sphere(3, probs=[0.1] * 5000)}, "`probs` must"),
    ({"runs": [{"kind": "gd", "learning_rate": [1.0] * 5000}]}, "one number per step, got shape"),
    ({"system": {"kind": "memory", "layer_norm": True}}, "Start from small random weights"),
    (one("adam", sampling="batches", batch_size=4, weight_decay=-0.0, eps=1e300), None),
    (one("adamw", sampling="replayed", batches=[[99]] * 34), "`batches` must name samples"),
]


@pytest.mark.parametrize(("change", "said"), LATE)
def test_values_refused_by_the_library_get_a_clear_message(change, said):
    from engram.explorer._requests import Request

    request = Request(client="test", parts=["runs"], state=read(**change))
    if said is None:
        assert compute(request, {})
        return
    with pytest.raises(InputError, match=said):
        compute(request, {})


def test_everything_in_the_catalogue_can_be_requested():
    from engram.explorer._controls import catalogue

    offered = catalogue()
    for name, entry in offered["dynamics"].items():
        parts = {"optimizer": "plain"} if "optimizer" in entry["parts"] else {}
        fields = entry["fields"] | (offered["optimizer"]["plain"]["fields"] if parts else {})
        table = {field: about["usual"] for field, about in fields.items() if about["is_required"]}
        state = read(runs=[{"kind": name} | parts | table])
        assert state.runs[0].table.keys() <= {"kind", *parts, *table}
    for name, entry in offered["problem"].items():
        needed = {
            field: about["usual"]
            for field, about in entry["fields"].items()
            if about["is_required"]
        }
        assert read(problem={"kind": name} | needed).problem.table["family"] == name
    read(record=list(offered["observable"])[:4])
    assert "file" not in offered["problem"]
    assert json.loads(json.dumps(offered)) == offered  # literals only
    assert State.model_fields.keys() >= {"system", "record", "events"}
