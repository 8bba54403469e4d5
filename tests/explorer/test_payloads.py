"""What the page gets: the library's own numbers, and the lines that give them again."""

import functools
import json
import re
import types
from pathlib import Path

import numpy as np
import pytest
from contract import unpack

import engram
from engram import capacity, planes
from engram._checks import InputError
from engram.explorer import _pushes, payloads
from engram.explorer._jobs import Job, MustCompile
from engram.explorer._plane import round_levels
from engram.explorer._presets import PRESETS
from engram.explorer._requests import State, read_request
from engram.explorer._simulations import python_lines
from engram.figures import case_of, reference

TWO = {"kind": "two", "correlation": 0.95, "p1": 0.75}
GD = [{"method": "gd", "rate": 10.0}]


def sphere(tokens, classes, dim, seed=0):
    sizes = {"tokens": tokens, "classes": classes, "dim": dim}
    return {"kind": "sphere", **sizes, "exponent": 1.0, "seed": seed}


def ask(problem=TWO, runs=GD, steps=34, parts=("plane", "runs"), own=None, **more):
    state = {"problem": problem, "runs": runs, "steps": steps, **more}
    request = {"client": "test", "parts": list(parts), "state": state}
    request = read_request(json.dumps(request).encode())
    return unpack(payloads.compute(request, own or {}))


def lines_of(own=None, **state):
    return python_lines(State.model_validate(state), own or {})


def test_a_payload_unpacks_to_what_was_packed():
    arrays = {"a": np.array([[1.5, -0.0], [np.nan, np.inf]]), "none": np.zeros((0, 2))}
    packed = payloads.pack({"x": float("nan"), "y": [np.float64(2), {"z": None}]}, arrays)
    header, found = unpack(packed)
    assert header == {"x": None, "y": [2.0, {"z": None}]}
    for name, values in arrays.items():
        assert found[name].tobytes() == values.tobytes()
    size = int.from_bytes(packed[:4], "little")
    assert (4 + size) % 8 == 0  # a Float64Array begins at a multiple of eight


RUNS = [
    {"method": "gd", "rate": 10.0},
    {"method": "gd", "rate": 0.5, "changes": [{"step": 7, "rate": 30.0}, {"step": 90, "rate": 1.0}]},
    {"method": "flow", "rate": 3.0},
    {"method": "sgd", "rate": 2.0, "batch": 4, "seed": 5},
    {"method": "momentum", "rate": 1.0},
    {"method": "adam", "rate": 0.3},
]  # fmt: skip
STATES = [
    {"problem": TWO, "runs": RUNS[:4], "steps": 34, "start": {"a": 0.3, "b": -1.2}},
    {"problem": TWO, "runs": RUNS[4:], "steps": 34},
    {"problem": TWO, "runs": [RUNS[0], RUNS[2]], "steps": 3000},
    {"problem": {"kind": "paper", "name": "fig4-81"}, "runs": RUNS[:1], "steps": 60},
    {"problem": sphere(5, 5, 3), "runs": RUNS[:1], "steps": 40, "start": {"scale": 2.0, "seed": 3}},
]


@pytest.mark.parametrize("state", STATES)
def test_the_python_lines_give_the_same_numbers_bit_for_bit(state, capsys):
    scope = {}
    exec(lines_of(**state), scope)  # our own lines
    assert capsys.readouterr().out.count("last loss") == len(state["runs"])
    _, arrays = ask(**state)
    for k, (asked, run) in enumerate(zip(state["runs"], scope["runs"], strict=True)):
        for name in ("loss", "error", "margins", "time"):
            assert np.array_equal(arrays[f"runs.{k}.{name}"], run[name].values), name
        steps = run.time.values / asked["rate"] if asked["method"] == "flow" else run.step.values
        assert np.array_equal(arrays[f"runs.{k}.step"], steps)
        if f"runs.{k}.path" in arrays:
            plane = planes.memory_plane(scope["problem"])
            path = plane.coordinates(scope["problem"], run.weights.values)[0]
            assert np.array_equal(arrays[f"runs.{k}.path"], path)


@pytest.mark.parametrize("seed", range(4))
def test_sharpness_and_plane_match_the_library(seed):
    rng = np.random.default_rng(seed)
    correlation, p1, rate = rng.uniform(-1, 1), rng.uniform(0.05, 0.95), 10 ** rng.uniform(-1, 1.5)
    start = dict(zip("ab", rng.normal(0, 3, 2).tolist(), strict=True))
    problem = engram.two_tokens(correlation, p1)
    header, arrays = ask(
        {"kind": "two", "correlation": correlation, "p1": p1},
        [{"method": "gd", "rate": rate}], start=start, view={"half": 4.0, "overlay": "sharpness"},
    )  # fmt: skip
    plane = planes.memory_plane(problem)
    run = engram.simulate(
        problem, engram.GradientDescent(rate, 34), start=plane.weights(*start.values()),
        record=("sharpness",),
    )  # fmt: skip
    # Two eigenvalue solvers, both backward stable.
    np.testing.assert_allclose(arrays["runs.0.sharpness"], run.sharpness.values, rtol=1e-12)
    axis = (-4.0, 4.0, len(arrays["plane.sharpness_grid"]))
    grid = planes.landscape(problem, plane, ("sharpness",), first=axis, second=axis)
    assert np.array_equal(arrays["plane.sharpness_grid"], grid.sharpness.values)
    regions = planes.error_regions(problem)
    assert np.array_equal(arrays["plane.sector_error"], regions.error.values)
    direction = capacity.max_margin(problem)
    at = plane.coordinates(problem, direction)[0]
    np.testing.assert_allclose(arrays["plane.max_margin"], at / np.linalg.norm(at), atol=1e-7)
    assert header["plane"]["is_separable"]
    assert header["runs"][0]["thresholds"] == [[0.0, 2 / rate]]


def test_level_lines_lie_on_their_levels():
    _, arrays = ask(parts=("plane",))
    problem = engram.two_tokens(TWO["correlation"], TWO["p1"])
    plane = planes.memory_plane(problem)
    offsets = arrays["plane.level_offsets"].astype(int)
    assert len(offsets) - 1 == len(arrays["plane.level_values"]) > 5
    for k, level in enumerate(arrays["plane.level_values"]):
        for point in arrays["plane.level_points"][offsets[k] : offsets[k + 1] : 7]:
            loss = float(engram.memory.loss(problem, plane.weights(*point)))
            # Linear interpolation between points .25 apart, where the loss curves by at most 1/2 c p |e|^2.
            assert abs(loss - level) < 0.25**2 / 2


@pytest.mark.parametrize(
    ("low", "high"), [(0.2, 1.4), (1e-9, 30), (0.5, 0.5), (0.0, 2.0), (3, 1e4), (0.6531, 0.6544)]
)
def test_levels_are_round_and_inside(low, high):
    levels = round_levels(low, high)
    assert levels == sorted(set(levels))
    assert all(low < level < high for level in levels)
    one_digit = all(float(f"{level:.0e}") == level for level in levels)
    even = np.ptp(np.diff(levels)) < 1e-9 * high if len(levels) > 2 else False
    assert one_digit or even
    assert (len(levels) >= 4) == (low < high)
    assert len(levels) <= 14


def test_the_minimiser_and_what_it_forgets_are_exact():
    header, arrays = ask({"kind": "paper", "name": "fig4-81"}, parts=("plane",))
    case = case_of("fig4", seed=81)
    assert header["plane"]["minimiser_exists"]
    assert not header["plane"]["is_separable"]
    excess = header["plane"]["error_at_minimiser"] - header["plane"]["least_error"]
    assert excess == pytest.approx(3 / 11, abs=1e-12)  # the paper's .2727
    assert len(case["targets"]) == header["plane"]["sizes"][0]
    assert np.shape(arrays["plane.minimiser"]) == (2,)


def test_the_field_points_where_descent_moves():
    _, arrays = ask(parts=("plane",), view={"half": 3.0, "overlay": "gradient"})
    points, field = arrays["plane.field_points"], arrays["plane.field"]
    problem = engram.two_tokens(TWO["correlation"], TWO["p1"])
    plane = planes.memory_plane(problem)
    for at in (0, 50, 224):
        W = np.asarray(plane.weights(*points[at]))
        moved = W - 1e-3 * np.asarray(engram.memory.grad(problem, W))
        step = (plane.coordinates(problem, moved)[0] - points[at]) / 1e-3
        np.testing.assert_allclose(field[at], step, rtol=1e-9, atol=1e-11)


def test_events_are_those_of_the_series():
    header, arrays = ask(runs=[{"method": "gd", "rate": 10.0}])
    events = header["runs"][0]["events"]
    margins, loss = arrays["runs.0.margins"], arrays["runs.0.loss"]
    assert [event["step"] for event in events] == sorted(event["step"] for event in events)
    first = {
        int(e["step"]) for e in events if e["kind"] == "forgotten" and "again" not in e["text"]
    }
    right = margins > 0
    lost = [np.flatnonzero(right[:-1, x] & ~right[1:, x]) + 1 for x in range(2)]
    assert first == {int(steps[0]) for steps in lost}
    spikes = [event for event in events if event["kind"] == "spike"]
    assert len(spikes) == header["runs"][0]["num_spikes"] == 4
    assert int(spikes[0]["step"]) == 1
    assert all(loss[int(e["step"])] > 1.1 * loss[: int(e["step"])].min() for e in spikes)
    assert header["runs"][0]["perfect_from"] == 15


@pytest.mark.parametrize("steps", [34, 1500])  # of the longer run 400 steps are recorded
def test_causes_of_spikes_match_diagnosis_explain(steps):
    header, _ = ask(steps=steps, parts=("causes",))
    problem = engram.two_tokens(TWO["correlation"], TWO["p1"])
    run = engram.simulate(problem, engram.GradientDescent(10.0, steps), every=1)
    explanation = engram.diagnosis.explain(run)
    (causes,) = header["causes"]
    assert [cause["step"] for cause in causes] == [spike.peak for spike in explanation.spikes]
    assert len(causes) == 4
    words = "What lowered its margin: token 0 by 7.12 (inputs overlap by 0.95"
    assert words in str(explanation)
    assert words in causes[0]["text"]
    # All of them are the rare token's: its loss jumps while the other's falls.
    assert all(cause["tokens"] == [1] for cause in causes)


def push_request(own=None, **more):
    state = {"problem": TWO, "runs": [*GD, {"kind": "flow", "learning_rate": 1.0}], "steps": 34}
    request = {
        "client": "test",
        "parts": ["pushes"],
        "state": state | more.pop("state", {}),
        **more,
    }
    return unpack(payloads.compute(read_request(json.dumps(request).encode()), own or {}))


@pytest.mark.parametrize(("step", "first"), [(4, 4), (34, 33)])
def test_pushes_and_the_rest_make_up_the_change_of_every_margin(step, first):
    header, arrays = push_request(step=step)
    assert header["pushes"] == {"run": 0, "first": first, "last": first + 1}
    _, series = ask()
    margins = series["runs.0.margins"]
    push, rest, change = (arrays[f"pushes.{name}"] for name in ("push", "rest", "change"))
    # Some ten additions of numbers of the size of a margin.
    np.testing.assert_allclose(change, margins[first + 1] - margins[first], atol=1e-13)
    np.testing.assert_allclose(push.sum(axis=1) + rest, change, atol=1e-13)
    # In the plane a margin is an inner product with an arrow, and a push one with a part of the step.
    _, drawn = ask(parts=("plane",))
    along = margins - series["runs.0.path"] @ drawn["plane.arrows"].T
    np.testing.assert_allclose(along, 0, atol=1e-13)


def test_pushes_of_a_file_are_those_of_its_run(tmp_path):
    problem = engram.two_tokens(TWO["correlation"], TWO["p1"])
    run = engram.simulate(problem, engram.GradientDescent(10.0, 34))
    part = {"kind": "replay", "name": "0123abcd"}
    header, arrays = push_request({"0123abcd": run}, step=7, state={"problem": part})
    assert header["pushes"]["first"] == 7
    np.testing.assert_allclose(arrays["pushes.push"], push_request(step=7)[1]["pushes.push"])


def test_pushes_that_are_not_known_are_refused(monkeypatch):
    with pytest.raises(InputError, match="flow makes no steps"):
        push_request(run=1)
    with pytest.raises(InputError, match="one of the 2 runs, got 2"):
        push_request(run=2)
    monkeypatch.setattr(_pushes, "_MOST_WORK", 80)  # of two tokens in two dimensions
    with pytest.raises(InputError, match="takes too long beyond step 10 here, got 20"):
        push_request(step=20)


def test_a_run_from_a_file_is_shown_as_it_was_recorded(tmp_path):
    problem = engram.two_tokens(TWO["correlation"], TWO["p1"])
    run = engram.simulate(problem, engram.GradientDescent(10.0, 34))
    run.encoding["source"] = str(tmp_path / "run.nc")
    own, part = {"0123abcd": run}, {"kind": "replay", "name": "0123abcd"}
    header, arrays = ask(part, steps=1, parts=("plane", "runs", "causes"), own=own)
    for name in ("step", "loss", "error", "margins"):
        assert np.array_equal(arrays[f"runs.0.{name}"], run[name].values), name
    live, series = ask(parts=("runs", "causes"))
    assert np.array_equal(arrays["runs.0.loss"], series["runs.0.loss"])
    assert header["runs"][0]["events"] == live["runs"][0]["events"]
    assert header["causes"] == live["causes"]
    assert header["runs"][0]["unknown"] == {"sharpness": "`sharpness` was not recorded."}
    lines = lines_of(own, problem=part, runs=GD, steps=1)
    assert str(tmp_path / "run.nc") in lines
    assert "diagnosis.explain(run)" in lines
    # Its problem can be trained again, with the page's own controls.
    again, _ = ask({"kind": "own", "name": "0123abcd"}, parts=("plane",), own=own)
    assert again["plane"]["has_plane"]
    with pytest.raises(InputError, match="Run `engram explore FILE` again"):
        ask(part, steps=1)
    with pytest.raises(InputError, match="Run `engram explore FILE` again"):
        lines_of(problem=part, runs=GD, steps=1)


def test_a_recording_is_shown_and_explained(tmp_path):
    problem = engram.two_tokens(TWO["correlation"], TWO["p1"])
    run = engram.simulate(problem, engram.GradientDescent(10.0, 34), record=("weights",))
    recording = engram.analyse(problem, run.weights.values, steps=run.step.values)
    part = {"kind": "replay", "name": "0123abcd"}
    header, arrays = ask(part, steps=1, parts=("runs", "causes"), own={"0123abcd": recording})
    assert np.array_equal(arrays["runs.0.margins"], recording.margins.values)
    explanation = engram.diagnosis.explain(recording)
    assert [each["step"] for each in header["causes"][0]] == [s.peak for s in explanation.spikes]
    assert header["runs"][0]["num_spikes"] == 4


def test_events_report_ties_counts_and_infinite_heights():
    tie = {"kind": "two", "correlation": 0.9, "p1": 0.75}
    header, arrays = ask(tie, [{"method": "sign", "rate": 1.0}])
    perfect = next(e for e in header["runs"][0]["events"] if e["kind"] == "perfect")
    assert arrays["runs.0.margins"][int(perfect["step"])].min() == 0
    assert perfect["text"].endswith("(some by a tie)")
    header, _ = ask(tie, [{"method": "momentum", "rate": 1e6}])
    texts = " ".join(event["text"] for event in header["runs"][0]["events"])
    assert "from a loss that had fallen to zero" in texts
    assert "inf" not in texts
    for seed in range(3):
        header, arrays = ask(sphere(5, 2, 2, seed), [{"method": "gd", "rate": 30.0}])
        right = arrays["runs.0.margins"] > 0
        counts = (right[:-1] & ~right[1:]).sum(0)
        for event in header["runs"][0]["events"]:
            if "times in all" in event["text"]:
                said = int(event["text"].split("(")[1].split()[0])
                assert [counts[token] for token in event["tokens"]] == [said] * len(event["tokens"])


def test_thresholds_follow_changes_of_the_learning_rate():
    changes = [{"step": 20, "rate": 4.0}, {"step": 60, "rate": 1e-5}]
    header, _ = ask(runs=[{"method": "gd", "rate": 8.0, "changes": changes}], parts=("runs",))
    assert header["runs"][0]["thresholds"] == [[0, 0.25], [20, 0.5]]


def test_programs_are_dropped_when_they_take_too_much_memory(monkeypatch):
    from engram.explorer import _compiled

    cleared = []
    monkeypatch.setattr(_compiled, "_compiled", set())
    monkeypatch.setattr(_compiled, "_bytes_without", None)
    monkeypatch.setattr(_compiled, "_MOST_BYTES", 2 * 2**20)
    monkeypatch.setattr(_compiled, "_resident", lambda: 2**30 + 2**20 * len(_compiled._compiled))
    monkeypatch.setattr(_compiled.jax, "clear_caches", lambda: cleared.append(1))
    monkeypatch.setattr(_compiled.eqx, "clear_caches", lambda: None)
    job = Job(60.0, may_compile=True)
    for program in "aabac":
        with _compiled.compiling(job, program) as is_new:
            pass
    assert len(_compiled._compiled) == 3
    with _compiled.compiling(job, "a") as is_new:
        assert not is_new
    with _compiled.compiling(job, "d"):
        pass
    assert len(cleared) == 1
    with pytest.raises(MustCompile), _compiled.compiling(Job(60.0), "a"):
        pass


def test_the_size_of_the_process_is_known_and_falls_again():
    from engram.explorer import _compiled

    if not Path("/proc/self/statm").exists():
        pytest.skip("only Linux says how large a process is")
    before = _compiled._resident()
    blocks = [bytes(10_000) for _ in range(10_000)]  # small enough for the heap
    assert _compiled._resident() - before > 50e6
    del blocks
    _compiled._return_memory()
    assert _compiled._resident() - before < 50e6


def test_programs_are_distinguished_by_shapes_and_not_by_numbers():
    from engram.explorer._compiled import program_of

    two = engram.two_tokens(0.5, 0.75)
    assert program_of(two, 0.5, "gd") == program_of(engram.two_tokens(0.1, 0.2), 0.7, "gd")
    others = [(two, 0.5, "sgd"), (two, 5, "gd"), (engram.two_tokens(0.5, 0.75, dim=3), 0.5, "gd")]
    assert all(program_of(*other) != program_of(two, 0.5, "gd") for other in others)


def test_a_large_hessian_takes_lanczos_at_a_few_steps(monkeypatch):
    from engram.explorer import _runs

    _, dense = ask(steps=60, parts=("runs",))
    monkeypatch.setattr(_runs, "_DENSE", 1)
    header, without = ask(steps=60, parts=("runs",))
    assert header["runs"][0]["has_later"]
    assert "runs.0.sharpness" not in without
    _, few = ask(steps=60, parts=("sharpness",))
    at = few["runs.0.sharpness_step"].astype(int)
    assert at[0] == 0
    assert at[-1] == 60
    assert len(at) == 33
    np.testing.assert_allclose(few["runs.0.sharpness"], dense["runs.0.sharpness"][at], rtol=1e-6)


def test_a_stiff_flow_is_reported_in_words_of_the_page():
    rows = [(1e3, 0, 0, 0.5), (1e3, 0, 1, 0.3), (0, 0.01, 1, 0.2)]
    tokens = [dict(zip(("x", "y", "target", "prob"), row, strict=True)) for row in rows]
    header, _ = ask(
        {"kind": "table", "tokens": tokens}, [{"method": "flow", "rate": 100.0}], 1000, ("runs",)
    )
    assert header["runs"][0]["status"] == "step limit"
    assert "smaller rate or fewer steps" in header["runs"][0]["status_text"]


def test_problems_in_which_nothing_moves_are_drawn():
    same = engram.Problem(np.eye(2), [[1, 0], [1, 0]], [0.5, 0.5], [0, 1])
    state = {"problem": {"kind": "own", "name": "0123abcd"}, "runs": GD, "steps": 20}
    header, arrays = ask(**state, own={"0123abcd": same})
    assert not header["plane"]["has_plane"]
    assert (arrays["runs.0.sharpness"] == 0).all()
    assert np.ptp(arrays["runs.0.loss"]) == 0


def test_runs_that_overflow_are_reported():
    # Squares of the inputs are still numbers, a step of this rate is not.
    huge = engram.Problem([[1e153, 0], [0, 1]], np.eye(2), [0.5, 0.5], [0, 1])
    state = {"problem": {"kind": "own", "name": "0123abcd"}, "steps": 300}
    runs = [{"method": "gd", "rate": 1e6}]
    header, arrays = ask(**state, runs=runs, parts=("runs",), own={"0123abcd": huge})
    assert header["runs"][0]["status"] == "not finite"
    assert header["runs"][0]["ended_at"] < 300
    assert len(arrays["runs.0.loss"]) >= 1


def preset(name, **changes):
    """What the page shows of a preset, changed or not: header, arrays, and the series of each run."""
    chosen = next(each for each in PRESETS if each["id"] == name)["state"]
    header, arrays = ask(**{key: value for key, value in chosen.items() if key != "show"} | changes)
    runs = [
        types.SimpleNamespace(
            **run
            | {key: arrays[f"runs.{k}.{key}"] for key in SERIES if f"runs.{k}.{key}" in arrays}
        )
        for k, run in enumerate(header["runs"])
    ]
    plane = types.SimpleNamespace(
        **header["plane"]
        | {name.removeprefix("plane."): arrays[name] for name in arrays if "plane." in name}
    )
    return plane, runs


SERIES = ("step", "loss", "error", "margins", "sharpness", "path")
near = functools.partial(pytest.approx, rel=0, abs=5e-3)


def returns(path, period, within):
    return np.abs(path[period:] - path[:-period]).max() < within


def forgets(run):
    """How often each token's margin falls from above zero."""
    right = run.margins > 0
    return (right[:-1] & ~right[1:]).sum(axis=0)


def fig2():
    plane, (large, small) = preset("fig2")
    _, (elsewhere, _) = preset("fig2", start={"a": 5.0, "b": -5.0})
    return {
        "Two strongly correlated tokens": plane.sizes == [2, 2, 2],
        "a large and a small learning rate": large.thresholds[0][1] < small.thresholds[0][1],
        "throws the rare token across the wall": forgets(large)[1] > 3 > forgets(large)[0],
        "so that the loss spikes": large.num_spikes == 4 and small.num_spikes == 0,
        "reaches the wedge without error all the same": large.error[-1] == 0,
        "the small one creeps": small.error[-1] > 0 and (np.diff(small.loss) < 0).all(),
        "depends on where training starts": elsewhere.loss.max() < 0.9 * large.loss.max(),
    }


def fig1():
    plane, (run,) = preset("fig1")
    problem = engram.two_tokens(0.5, 0.75)
    weights = planes.memory_plane(problem).weights(*run.path[50])

    def width(correlation):
        """The angle of the sector without error."""
        plane, _ = preset("fig1", problem=TWO | {"correlation": correlation})
        best = int(np.argmin(plane.sector_error))
        return (plane.sector_end[best] - plane.sector_begin[best]) % (2 * np.pi)

    return {
        "two numbers only": engram.memory.loss(problem, weights) == pytest.approx(run.loss[50]),
        "a wide sector without error": width(-0.5) > np.pi / 2,
        "correlated ones a narrow wedge": width(0.95) < width(0.5) < np.pi / 2,
    }


def fig4():
    plane, (run,) = preset("fig4")
    ends = [preset("fig4", start=dict(a=a, b=b))[1][0].path[-1] for a, b in ((-2, 1), (2, -2))]
    return {
        "Three tokens in two dimensions": plane.sizes == [3, 2, 2],
        "cannot all be recalled": not plane.is_separable,
        "an error of .45": plane.error_at_minimiser == near(0.45),
        "another sector has .18": plane.least_error == near(0.18),
        "training ends at the star from anywhere": np.allclose(
            [run.path[-1], *ends], plane.minimiser
        ),
    }


def fig4_sgd():
    plane, (run, plain) = preset("fig4-sgd")
    other = {"method": "sgd", "rate": 0.1, "batch": 16, "seed": 1}
    _, (again,) = preset("fig4-sgd", runs=[other])
    best = int(run.error.argmin())
    return {
        "Ten tokens, SGD with small batches": plane.sizes[0] == 10,
        "a sector with fewer errors on its way": run.error[best] == near(plane.least_error),
        "and leaves it again": run.error[-1] > run.error[best] < run.error[0],
        "the loss is lower elsewhere": run.loss[-1] < run.loss[best],
        "the path trembles": not np.allclose(run.path[100], again.path[100]),
        "the end stays": run.error[-1] == again.error[-1] == plain.error[-1],
    }


def fig5():
    plane, (large, small) = preset("fig5")
    away = np.linalg.norm(small.path - plane.minimiser, axis=1)
    return {
        "Thirty tokens that compete": plane.sizes[0] == 30 and not plane.is_separable,
        "The small rate has 2/η above": small.thresholds[0][1] > plane.sharpness_at_minimiser,
        "creeps up to it": away[-1] < 0.05 < away[34],
        "For the large one 2/η lies below it": large.thresholds[0][1]
        < plane.sharpness_at_minimiser,
        "jumps to and fro for ever": returns(large.path[-9:], 2, 1e-6)
        and not returns(large.path[-9:], 1, 1e-6),
    }


def fig5_separable():
    plane, runs = preset("fig5-separable")
    tops = [int(run.sharpness.argmax()) for run in runs]
    return {
        "Three tokens that can all be recalled": plane.sizes[0] == 3 and plane.is_separable,
        "crosses a ridge of the sharpness": all(
            run.sharpness[0] < run.sharpness[top] > 4 * run.sharpness[-1]
            for run, top in zip(runs, tops, strict=True)
        ),
        # Between two steps, one on either side.
        "where a token's margin is zero": all(
            (run.margins[top - 1] * run.margins[top] < 0).any()
            for run, top in zip(runs, tops, strict=True)
        ),
        "leaves for infinity along the dashed ray": all(
            run.path[-1] @ plane.max_margin > 0.99 * np.linalg.norm(run.path[-1]) for run in runs
        ),
        "every learning rate is stable in the end": all(
            run.sharpness[-1] < run.thresholds[0][1] / 10 for run in runs
        ),
    }


def fig6():
    plane, runs = preset("fig6")
    _, roomy = preset("fig6", problem={"kind": "paper", "name": "fig6-10"})
    rises = [(np.diff(run.loss) > 0).sum() for run in runs]
    last, last_of_ten = ([run.loss[-1] for run in each] for each in (runs, roomy))
    return {
        "Beyond the plane only margins are shown": not plane.has_plane,
        "Large rates oscillate more": rises[0] < rises[1] < rises[2],
        "tokens push each other below zero": forgets(runs[0]).sum() == 0 < forgets(runs[1]).sum(),
        "in these three dimensions the largest ends worst": last[2] == max(last)
        and plane.sizes == [5, 5, 3],
        "for d = 10: with more room the largest ends best": last_of_ten[2] == min(last_of_ten),
    }


def benign_spike():
    _, (large, middle, small) = preset("benign-spike")
    problem = {"kind": "two", "correlation": 0.9, "p1": 0.8}
    header, _ = ask(problem, [{"method": "gd", "rate": 30.0}], 60, ("causes",))
    return {
        "At η = 30 the loss jumps to nine times its lowest value": large.loss[4]
        == pytest.approx(9.35 * large.loss[:4].min(), rel=1e-3),
        "returns within a few steps": large.loss[8] < large.loss[:4].min(),
        "after sixty it is eighty times lower than at η = 3": middle.loss[-1] / large.loss[-1]
        == pytest.approx(80, abs=2)
        and len(large.loss) == 61,
        "which never spiked": middle.num_spikes == small.num_spikes == 0,
        "who pushed whom": [cause["tokens"] for cause in header["causes"][0]] == [[1], [1]],
    }


def forget_frequent():
    plane, (run,) = preset("forget-frequent")
    return {
        "Token 0 comes most often (p = .4)": plane.probs.argmax() == 0 and plane.probs[0] == 0.4,
        "is recalled at the start": run.margins[0, 0] > 0,
        "training forgets it": run.margins[-1, 0] < 0 and plane.forgotten == [0],
        "two rarer tokens that agree with each other": run.margins[-1, 1:].min() > 0,
        "an exact example": plane.error_at_minimiser == pytest.approx(0.4),
        "The error rises from .3 to .4": run.error[[0, -1]] == pytest.approx([0.3, 0.4]),
        "while the loss falls": (np.diff(run.loss) <= 0).all(),
    }


def oscillation():
    plane, runs = preset("oscillation")
    _, (wild,) = preset("oscillation", runs=[{"method": "gd", "rate": 12.0}])
    settled, two, four = (run.path[-9:, 0] for run in runs)
    return {
        "a minimiser of sharpness .48": plane.sharpness_at_minimiser == pytest.approx(0.48),
        "so that 2/.48 = 4.17 is the largest stable": 2 / plane.sharpness_at_minimiser == near(4.17)
        and runs[0].thresholds[0][1] > plane.sharpness_at_minimiser > runs[1].thresholds[0][1],
        "At 4 descent settles": np.ptp(settled) < 0.01,
        "at 5 it ends in a cycle of two points": returns(two, 2, 1e-6)
        and not returns(two, 1, 1e-6),
        "at 8 of four": returns(four, 4, 1e-3) and not returns(four, 2, 1e-3),
        "at 12 it finds no rhythm": not any(
            returns(wild.path[-40:, 0], k, 1) for k in range(1, 20)
        ),
    }


def cycle():
    plane, (run,) = preset("cycle")
    _, (converging,) = preset("cycle", start={"a": 0.5})
    return {
        "Three parallel tokens": plane.sizes[0] == 3,
        "its sharpness is .389": plane.sharpness_at_minimiser == pytest.approx(0.389, abs=1e-3),
        "2/η is .410": run.thresholds[0][1] == pytest.approx(0.410, abs=1e-3),
        "The minimiser is stable": plane.sharpness_at_minimiser < run.thresholds[0][1],
        # Those of claim C46.
        "caught by a cycle of two points": sorted(run.path[-2:, 0])
        == pytest.approx([0.1051918, 1.3475599], abs=1e-6),
        "Move the start to .5 and it converges": np.ptp(converging.path[-2:, 0]) < 1e-6,
    }


def adam():
    plane, (slow, fast, adam) = preset("adam")
    return {
        "Ten tokens in ten dimensions": plane.sizes == [10, 10, 10],
        "frequencies falling like 1/x²": plane.probs[0] / plane.probs
        == pytest.approx(np.arange(1, 11) ** 2),
        "at η = 1 four are not learnt in 100 steps": (slow.margins[100] < 0).sum() == 4,
        "at η = 10 the last is at step 89": fast.perfect_from == 89,
        "recalls all by step 33": adam.perfect_from == 33,
        "ends with all margins above 3": adam.margins[-1].min() > 3 > 0.3 > fast.margins[-1].min(),
    }


def negative():
    _, runs = preset("negative")
    _, correlated = preset("negative", problem=TWO | {"correlation": 0.9})
    return {
        "one step is enough": [run.perfect_from for run in runs] == [1, 1, 1],
        "no learning rate spikes": [run.num_spikes for run in runs] == [0, 0, 0],
        "Slide α up to .9 and the same rates need 6, 9 and 26 steps": [
            run.perfect_from for run in correlated
        ]
        == [6, 9, 26],
    }


def log_growth():
    _, (run, flow) = preset("log-growth")
    at = lambda run, steps: [int(np.abs(run.step - step).argmin()) for step in steps]
    decades = run.margins[at(run, (200, 2000, 20000))]
    late = at(run, (2000, 20000))
    apart = [
        abs(np.interp(step, flow.step, flow.loss) / run.loss[at(run, (step,))[0]] - 1)
        for step in (200, 20000)
    ]
    return {
        "the loss falls like 1/t": np.ptp(run.loss[late] * run.step[late]) < 0.01 * 2,
        # Records lie a few per cent beside the decades.
        "margins grow by the same amount": np.diff(decades, axis=0)
        == pytest.approx(np.log(10), rel=0.02),
        "each time t is ten times larger": run.error[at(run, (200,))[0]] == 0,
        "The gradient flow, at the same time ηt, agrees more and more": apart[1] < 1e-3 < apart[0],
    }


CLAIMS = {
    "fig2": fig2, "fig1": fig1, "fig4": fig4, "fig4-sgd": fig4_sgd, "fig5": fig5,
    "fig5-separable": fig5_separable, "fig6": fig6, "benign-spike": benign_spike,
    "forget-frequent": forget_frequent, "oscillation": oscillation, "cycle": cycle, "adam": adam,
    "negative": negative, "log-growth": log_growth,
}  # fmt: skip


@pytest.mark.parametrize("name", [each["id"] for each in PRESETS])
def test_the_text_of_a_preset_is_true(name):
    text = next(each for each in PRESETS if each["id"] == name)["text"]
    claims = CLAIMS[name]()
    for phrase, holds in claims.items():
        assert phrase in text
        assert holds, phrase
    for phrase in claims:
        text = text.replace(phrase, "")
    known = ("claim C47", "α < 0", "1/t", "d = 10")
    rest = functools.reduce(lambda text, words: text.replace(words, ""), known, text)
    assert not re.findall(r"\d", rest), "a number that nothing here computes"


def test_the_sgd_draw_is_the_papers():
    header, _ = ask({"kind": "paper", "name": "fig4-sgd"}, parts=("plane",))
    case = reference("fig4_sgd")["cases"][0]
    assert header["plane"]["error_at_minimiser"] == pytest.approx(case["err01_at_minimiser"])
    assert header["plane"]["least_error"] == pytest.approx(case["err01_min"])


def test_an_own_problem_is_drawn_and_written_out():
    base, names = engram.on_sphere(3, 4, 3, 3), ("Rome", "<b>", "x" * 99, "'\n")
    problem = engram.Problem(
        base.inputs, base.outputs[:, :2], base.probs, base.targets, names=names
    )
    own = {"0123abcd": problem}
    state = {"problem": {"kind": "own", "name": "0123abcd"}, "runs": GD, "steps": 20}
    header, arrays = ask(**state, own=own)
    assert header["plane"]["sizes"] == [4, 3, 3]
    assert header["plane"]["output_dim"] == 2
    assert header["plane"]["names"] == ["Rome", "<b>", f"{'x' * 39}…", r"'\n"]
    assert not header["plane"]["has_plane"]
    scope = {}
    exec(lines_of(own=own, **state), scope)
    assert np.array_equal(scope["runs"][0].loss.values, arrays["runs.0.loss"])
    assert scope["runs"][0].token.values.tolist() == [*names]
    with pytest.raises(InputError, match="session that showed it has ended"):
        ask(**state)
