"""Stories in the documentation: every number in them is what the library computes for the state beside it."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest

import engram
from engram import capacity, diagnosis
from engram.explorer import _requests, _simulations
from engram.explorer._presets import PRESETS

DOCS = Path(__file__).parents[1] / "docs"
STORIES = sorted(DOCS.glob("story-*.md"))
STEP = re.compile(r"````\{step\} ([^\n]+)\n:state: ([^\n]+)\n\n(.*?)````\n", re.S)
VALUE = re.compile(r"\{value\}`([^`<]+) <([^`]+)>`")
SHOWN_ONLY = {"t", "show", "view", "follow", "pushes", "overlay"}  # nothing is computed from them
TRACES = ("loss", "error", "margins", "token_losses", "sharpness")
STEPS = [
    pytest.param(state, body, id=f"{path.stem}: {title}")
    for path in STORIES
    for title, state, body in STEP.findall(path.read_text(encoding="utf-8"))
]


def computed(address):
    """The part of a page's address on which numbers depend, as a state of the library."""
    pairs = [pair.partition("=")[::2] for pair in address.split("&")]
    (preset,) = [each for each in PRESETS if each["id"] == dict(pairs)["preset"]]
    state = dict(preset["state"])
    runs = [value.split(",") for name, value in pairs if name == "run"]
    if runs:
        state["runs"] = [{"kind": kind, "learning_rate": float(rate)} for kind, rate in runs]
    for name, value in pairs:
        if name == "steps":
            state["steps"] = int(value)
        elif name == "start":
            state["start"] = dict(zip("ab", map(float, value.split(",")), strict=True))
        else:
            assert name in SHOWN_ONLY | {"preset", "run"}, name
    return _requests.read_state(state).state


@functools.cache
def names_in(address, record):
    """What the expressions of a step may use, computed as the page does."""
    state = computed(address)
    problem = _simulations.make_problem(state.problem, {})
    start, _ = _simulations.make_start(state, problem)
    runs = []
    for table in state.runs:
        dynamics = _simulations.make_dynamics(table, state.steps)
        options = _simulations.options_of(state, table, dynamics, record)
        runs.append(engram.simulate(problem, dynamics, start=start, **options))
    run = runs[0]
    clock = run["step"].values

    def push(step):
        dynamics = _simulations.make_dynamics(state.runs[0], state.steps)
        return diagnosis.interference(problem, dynamics, at=step, start=start).push.values

    return {
        "np": np, "problem": problem, "runs": runs, "run": run, "rate": state.runs[0].rate,
        "rates": [table.rate for table in state.runs], "step": clock, "push": push,
        "near": lambda step: int(np.abs(clock - step).argmin()),
        "first": lambda mask: int(clock[np.argmax(mask)]),
        **{name: run[name].values for name in record},
    }  # fmt: skip


@pytest.mark.parametrize(("address", "body"), STEPS)
def test_numbers_of_a_story_are_the_librarys(address, body):
    record = tuple(name for name in TRACES if name in body or name == "loss")
    names = names_in(re.sub(r"&(?:t|show|view|pushes)=[^&]*", "", address), record)
    if "least_error" in body:
        names = names | {"least_error": capacity.min_error(names["problem"]).error}
    assert VALUE.search(body)
    for shown, expression in VALUE.findall(body):
        value = float(np.asarray(eval(expression, {}, names)))
        digits = len(shown.partition(".")[2])
        assert f"{value:.{digits}f}" == shown, expression


def test_stories_have_no_number_that_is_not_tested():
    assert len(STORIES) == 3
    for path in STORIES:
        text = path.read_text(encoding="utf-8")
        assert text.count("{step}") == len(STEP.findall(text)) >= 5
        assert not re.search(r"\d", VALUE.sub("", STEP.sub(r"\3", text))), path.name
        assert f"\n{path.stem}\n" in (DOCS / "index.md").read_text(encoding="utf-8")
