"""What the page is told: the library's own numbers, and the lines that give them again."""

import json

import numpy as np
import pytest

import engram
from engram import capacity, planes
from engram._checks import InputError
from engram.explorer import payloads
from engram.explorer._objects import python_lines
from engram.explorer._plane import round_levels
from engram.explorer._presets import PRESETS
from engram.explorer._state import MOST_STEPS, State, read_request
from engram.figures import reference
from engram.figures._reference import case_of

TWO = {"kind": "two", "correlation": 0.95, "p1": 0.75}
GD = [{"method": "gd", "rate": 10.0}]


def sphere(tokens, classes, dim, seed=0):
    sizes = {"tokens": tokens, "classes": classes, "dim": dim}
    return {"kind": "sphere", **sizes, "exponent": 1.0, "seed": seed}


def ask(problem=TWO, runs=GD, steps=34, parts=("plane", "runs"), own=None, **more):
    state = {"problem": problem, "runs": runs, "steps": steps, **more}
    request = {"client": "test", "parts": list(parts), "state": state}
    request = read_request(json.dumps(request).encode())
    return payloads.unpack(payloads.compute(request, own or {}))


def lines_of(own=None, **state):
    return python_lines(State.model_validate(state), own or {})


def test_a_payload_comes_back_as_it_was():
    arrays = {"a": np.array([[1.5, -0.0], [np.nan, np.inf]]), "none": np.zeros((0, 2))}
    packed = payloads.pack({"x": float("nan"), "y": [np.float64(2), {"z": None}]}, arrays)
    header, found = payloads.unpack(packed)
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
def test_sharpness_and_plane_are_the_librarys(seed):
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


def test_the_field_is_where_descent_goes():
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
    # All of them are the rare token's: its loss jumps while the other's falls.
    assert all(event["tokens"] == [1] for event in spikes)
    assert all(loss[int(e["step"])] > 1.1 * loss[: int(e["step"])].min() for e in spikes)
    assert header["runs"][0]["perfect_from"] == 15


def test_a_long_runs_spikes_have_the_same_causes_as_a_short_ones():
    # Among 3000 steps 400 are recorded, and most spikes lie between them.
    start = {"a": -12.910930381013648, "b": -4.477330728619231}
    problem, runs = sphere(3, 2, 2, seed=502), [{"method": "gd", "rate": 36.72533066752786}]
    spikes = [
        [event for event in ask(problem, runs, steps, ("runs",), start=start)[0]["runs"][0]["events"]
         if event["kind"] == "spike"]
        for steps in (1000, 3000)
    ]  # fmt: skip
    assert spikes[0] == spikes[1]
    assert [event["tokens"] for event in spikes[0] if event["step"] == 152] == [[2]]


def test_ties_counts_and_heights_are_told_as_they_are():
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


def test_thresholds_are_those_of_the_steps_made():
    changes = [{"step": 20, "rate": 4.0}, {"step": 60, "rate": 1e-5}]
    header, _ = ask(runs=[{"method": "gd", "rate": 8.0, "changes": changes}], parts=("runs",))
    assert header["runs"][0]["thresholds"] == [[0, 0.25], [20, 0.5]]


def test_programs_are_forgotten_when_they_are_many(monkeypatch):
    from engram.explorer import _programs

    monkeypatch.setattr(_programs, "_MOST", 2)
    monkeypatch.setattr(_programs, "_known", set())
    cleared = []
    monkeypatch.setattr(_programs.jax, "clear_caches", lambda: cleared.append(1))
    monkeypatch.setattr(_programs.eqx, "clear_caches", lambda: None)
    for program in "aabac":
        _programs.note(program)
    assert len(cleared) == 1
    assert _programs._known == {"c"}


def test_a_stiff_flow_is_told_in_words_of_the_page():
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


def test_what_is_not_finite_is_said():
    # Squares of the inputs are still numbers, a step of this rate is not.
    huge = engram.Problem([[1e153, 0], [0, 1]], np.eye(2), [0.5, 0.5], [0, 1])
    state = {"problem": {"kind": "own", "name": "0123abcd"}, "steps": 300}
    runs = [{"method": "gd", "rate": 1e6}]
    header, arrays = ask(**state, runs=runs, parts=("runs",), own={"0123abcd": huge})
    assert header["runs"][0]["status"] == "not finite"
    assert header["runs"][0]["ended_at"] < 300
    assert len(arrays["runs.0.loss"]) >= 1


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset["id"])
def test_presets_are_states_with_two_or_three_sentences(preset):
    State.model_validate({key: value for key, value in preset["state"].items() if key != "show"})
    assert set(preset) == {"id", "title", "text", "state"}
    assert 2 <= preset["text"].count(". ") + preset["text"].endswith(".") <= 4
    assert len(preset["text"]) < 420


def preset(name):
    found = next(each for each in PRESETS if each["id"] == name)
    return {key: value for key, value in found["state"].items() if key != "show"}


def test_what_presets_say_is_so():
    header, arrays = ask(**preset("benign-spike"))
    heights = [event["text"] for event in header["runs"][0]["events"] if event["kind"] == "spike"]
    assert max(float(text.split(", ")[1].split()[0]) for text in heights) == pytest.approx(
        9.35, abs=0.01
    )
    assert arrays["runs.1.loss"][-1] / arrays["runs.0.loss"][-1] == pytest.approx(78.8, abs=0.1)
    assert header["runs"][1]["num_spikes"] == 0

    header, arrays = ask(**preset("forget-frequent"))
    assert header["plane"]["forgotten"] == [0]
    assert arrays["runs.0.error"][0] == pytest.approx(0.3)
    assert arrays["runs.0.error"][-1] == pytest.approx(0.4)
    assert (np.diff(arrays["runs.0.loss"]) <= 0).all()

    header, arrays = ask(**preset("oscillation"))
    assert header["plane"]["sharpness_at_minimiser"] == pytest.approx(0.48)
    settled, two, four = (arrays[f"runs.{k}.path"][-9:, 0] for k in range(3))
    assert np.ptp(settled) < 0.01
    assert np.abs(two[2:] - two[:-2]).max() < 1e-6 < np.ptp(two)
    assert np.abs(four[4:] - four[:-4]).max() < 1e-3 < np.abs(four[2:] - four[:-2]).max()

    header, arrays = ask(**preset("cycle"))
    assert header["plane"]["sharpness_at_minimiser"] == pytest.approx(0.389, abs=1e-3)
    assert header["runs"][0]["thresholds"][0][1] == pytest.approx(0.410, abs=1e-3)
    # The certified cycle of claim C46.
    np.testing.assert_allclose(
        sorted(arrays["runs.0.path"][-2:, 0]), [0.1051918, 1.3475599], atol=1e-6
    )
    _, arrays = ask(**preset("cycle") | {"start": {"a": 0.5}})
    assert np.ptp(arrays["runs.0.path"][-2:, 0]) < 1e-6

    header, _ = ask(**preset("fig4"))
    assert header["plane"]["error_at_minimiser"] == pytest.approx(0.4545, abs=1e-3)
    assert header["plane"]["least_error"] == pytest.approx(0.1818, abs=1e-3)

    header, _ = ask(**preset("negative"))
    assert [run["perfect_from"] for run in header["runs"]] == [1, 1, 1]
    assert [run["num_spikes"] for run in header["runs"]] == [0, 0, 0]

    header, _ = ask(
        **preset("negative") | {"problem": {"kind": "two", "correlation": 0.9, "p1": 0.75}}
    )
    assert [run["perfect_from"] for run in header["runs"]] == [6, 9, 26]

    header, arrays = ask(**preset("fig5"))
    away = np.linalg.norm(arrays["runs.1.path"] - arrays["plane.minimiser"], axis=1)
    assert away[-1] < 0.05 < away[34]
    to_and_fro = arrays["runs.0.path"]
    assert (
        np.abs(to_and_fro[-1] - to_and_fro[-3]).max()
        < 1e-6
        < np.abs(to_and_fro[-1] - to_and_fro[-2]).max()
    )

    for name, ends_worst in (("fig6-3", True), ("fig6-10", False)):
        _, arrays = ask(**preset("fig6") | {"problem": {"kind": "paper", "name": name}})
        last = [arrays[f"runs.{k}.loss"][-1] for k in range(3)]
        assert last[2] == (max(last) if ends_worst else min(last))

    header, arrays = ask(**preset("adam"))
    assert [run["perfect_from"] for run in header["runs"]] == [None, 89, 33]
    slow, fast, adam = (arrays[f"runs.{k}.margins"][-1] for k in range(3))
    assert (slow < 0).sum() == 4
    assert adam.min() > 3 > 0.3 > fast.min()


def test_the_sgd_draw_is_the_papers():
    header, _ = ask({"kind": "paper", "name": "fig4-sgd"}, parts=("plane",))
    case = reference("fig4_sgd")["cases"][0]
    assert header["plane"]["error_at_minimiser"] == pytest.approx(case["err01_at_minimiser"])
    assert header["plane"]["least_error"] == pytest.approx(case["err01_min"])


def test_an_own_problem_is_drawn_and_written_out():
    problem = engram.on_sphere(3, 4, 3, 3)
    own = {"0123abcd": problem}
    state = {"problem": {"kind": "own", "name": "0123abcd"}, "runs": GD, "steps": 20}
    header, arrays = ask(**state, own=own)
    assert header["plane"]["sizes"] == [4, 3, 3]
    assert not header["plane"]["has_plane"]
    scope = {}
    exec(lines_of(own=own, **state), scope)
    assert np.array_equal(scope["runs"][0].loss.values, arrays["runs.0.loss"])
    with pytest.raises(InputError, match="session that showed it has ended"):
        ask(**state)


BAD = [
    ({"steps": 0}, "steps: input should be greater than or equal to 1, got 0"),
    ({"steps": MOST_STEPS + 1}, "steps: input should be less than or equal to 20000"),
    ({"steps": 2.5}, "steps: input should be a valid integer"),
    ({"runs": []}, "runs: list should have at least 1 item"),
    ({"runs": GD * 5}, "runs: list should have at most 4 items"),
    ({"runs": [{"method": "gd", "rate": -1}]}, "runs.0.rate: input should be greater than or equal to 0.00"),
    ({"runs": [{"method": "gd", "rate": None}]}, "runs.0.rate: input should be a valid number"),
    ({"runs": [{"method": "lbfgs", "rate": 1}]}, "runs.0.method: input should be 'gd'"),
    ({"runs": [{"method": "adam", "rate": 1, "changes": [{"step": 3, "rate": 1}]}]}, "only gradient"),
    ({"runs": [{"method": "gd", "rate": 1, "changes": [{"step": 3, "rate": 1}] * 2}]}, "increasing steps"),
    ({"problem": {"kind": "two", "correlation": 1.5, "p1": 0.5}}, "problem.correlation: input should be"),
    ({"problem": {"kind": "file", "path": "/etc/passwd"}}, "problem: input tag 'file'"),
    ({"problem": {"kind": "own", "name": "../../etc"}}, "problem.name: string should match pattern"),
    ({"problem": sphere(51, 2, 2)}, "problem.tokens: input should be less than or equal to 50"),
    ({"view": {"half": 0}}, "view.half: input should be greater than or equal to 0.01"),
    ({"extra": 1}, "extra: extra inputs are not permitted"),
    ({"problem": {"kind": "table", "tokens": [{"x": 1, "y": 0, "target": 0, "prob": 0.5}]}}, "sum to 1"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), BAD, ids=[said for _, said in BAD])
def test_faults_are_named_with_what_was_met(change, said):
    with pytest.raises(InputError) as fault:
        ask(**change)
    assert said in str(fault.value)
