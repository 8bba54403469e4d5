"""The page's engine agrees with the library: paths, events, sharpness, contours; mutants of it do not."""

import shutil

import numpy as np
import pytest
from node_engine import ENGINE, NODE, Engine

from agreement import Wanted, library
from engram.explorer._presets import PRESETS

pytestmark = pytest.mark.skipif(NODE is None, reason="no node here: the engine's tests need one")


def random_states(count, seed=0):
    """Two tokens under descent, as the first preset has them: the library compiles nothing new for them."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        rates, ends = 10 ** rng.uniform(-2, 2, 2), rng.normal(0, 4, 4).tolist()
        changes = [{"step": int(rng.integers(1, 30)), "rate": 10 ** rng.uniform(-2, 1)}]
        yield {
            "problem": {"kind": "two", "correlation": rng.uniform(-1, 1), "p1": rng.uniform(0, 1)},
            "runs": [{"kind": "gd", "learning_rate": rate} for rate in rates]
            + [{"kind": "gd", "learning_rate": rates[0], "changes": changes}] * (k % 4 == 0),
            "steps": int(rng.integers(33, 64)),
            "start": dict(zip("ab", ends[:2], strict=True)) if k % 3 else {},
            "view": {"x": ends[2], "y": ends[3], "half": 10 ** rng.uniform(-1, 1.5)}
            | {"overlay": ("none", "sharpness", "gradient")[k % 3]},
        }


TWO = {"kind": "two", "correlation": 0.6, "p1": 0.7}
OTHERS = [  # one program each
    {"problem": TWO, "runs": [run], "steps": 40, "start": {"a": -1.5, "b": 0.75}}
    for run in (
        {"kind": "momentum", "learning_rate": 0.7, "batch_size": 3, "seed": 4},
        {"kind": "normalised", "learning_rate": 0.3}, {"kind": "sign", "learning_rate": 0.11},
        {"kind": "adamw", "learning_rate": 0.2, "weight_decay": 0.05},
        {"kind": "muon", "learning_rate": 0.15},
    )
]  # fmt: skip
STATES = {preset["id"]: preset["state"] for preset in PRESETS}
STATES |= {f"two tokens {k}": state for k, state in enumerate(random_states(40))}
STATES |= {state["runs"][0]["kind"]: state for state in OTHERS}


@pytest.fixture(scope="module")
def wanted():
    return {name: Wanted(state) for name, state in STATES.items()}


@pytest.fixture(scope="module")
def engine():
    made = Engine()
    yield made
    made.close()


def ask(engine, *names, folder=ENGINE, **more):
    """The engine's answers to states, each asked for as the page does."""
    usual = {"parts": ["plane", "runs"]} | more
    states = [
        {part: STATES[name][part] for part in STATES[name] if part != "show"} for name in names
    ]
    questions = ([usual | {"state": state}] for state in states)
    return engine.values("index", "answer", *questions, folder=folder)


def test_paths_events_and_planes_are_the_librarys(engine, wanted):
    for name, answer in zip(STATES, ask(engine, *STATES), strict=True):
        assert wanted[name].faults(answer) == [], name
    runs = [(each, k) for each in wanted.values() for k in range(len(each.header["runs"]))]
    calm = [each.calm(k) == len(each.arrays[f"runs.{k}.loss"]) for each, k in runs]
    assert sum(calm) > 0.9 * len(runs)  # few are chaotic


SPIKING = ["fig2", "benign-spike", "fig6"]


@pytest.fixture(scope="module")
def causes():
    return {name: library(STATES[name], ("causes",))[0]["causes"] for name in SPIKING}


def test_causes_of_spikes_are_the_librarys_word_by_word(engine, causes):
    answers = ask(engine, *SPIKING, parts=["causes"])
    assert [answer["header"]["causes"] for answer in answers] == [*causes.values()]
    assert sum(map(len, causes["fig2"])) > 2


def test_pushes_are_the_librarys(engine):
    state = STATES["fig2"]
    header, arrays = library(state, ("pushes",), step=3)
    (answer,) = ask(engine, "fig2", parts=["pushes"], step=3)
    assert answer["header"]["pushes"] == header["pushes"]
    for name, values in arrays.items():
        np.testing.assert_allclose(answer["arrays"][name], values, rtol=1e-12, atol=1e-13)


MUTANTS = {
    "a sign": ("systems.js", "out[N + x] = -law[x]", "out[N + x] = law[x]", "fig2"),
    "a tie": ("systems.js", "(m === 0 && signs[x] > 0)", "m === 0", "fig2"),
    "a mass": ("systems.js", "-scale * wrong[x]", "scale * (mass[own] - 1)", "fig6"),
    "a step": ("descent.js", "index === steps)", "index === steps - 1)", "fig2"),
    "a change of rate": ("descent.js", "Math.min(step, steps)", "step + 1", "two tokens 0"),
    "a record": ("descent.js", "top / (FEW_STEPS - 1)", "top / FEW_STEPS", "log-growth"),
    "a spike": ("events.js", "FACTOR = 1.1", "FACTOR = 1.3", "fig2"),
    "a token": ("events.js", "margins[x] > 0 ? 1 : 0", "margins[x] > 3 ? 1 : 0", "fig2"),
    "an average": ("optimizers.js", "b2 = 0.999", "b2 = 0.99", "adam"),
    "a decay": ("optimizers.js", "g[i] += decay", "g[i] -= decay", "adamw"),
    "a round of Muon": ("optimizers.js", "round < 5", "round < 4", "muon"),
    "a draw": ("random.js", "(key, 0, number)", "(key, 0, number + 1)", "fig4-sgd"),
    "a batch": ("optimizers.js", "reached[x] <= u", "reached[x] <= 0.99 * u", "fig4-sgd"),
    "a coefficient": ("flow.js", "/ 2220607170, 1 / 4]", "/ 2220607171, 1 / 4]", "log-growth"),
    "a record of a flow": ("flow.js", "POINTS = 257", "POINTS = 256", "log-growth"),
    "a corner": ("contours.js", "(c > level ? 4 : 0)", "(c > level ? 2 : 0)", "fig2"),
    "a level": ("plane.js", "[1, 2, 3, 5, 7]", "[1, 2, 3, 5, 8]", "fig2"),
    "a sector": ("capacity.js", "angle - Math.PI / 2", "angle - Math.PI / 3", "fig4"),
    "a sharpness": ("sharpness.js", "c += weight * f * f;", "c += weight * e * f;", "fig4"),
    "a minimiser": ("capacity.js", "-= p * wrong * z[i]", "-= p * p * wrong * z[i]", "fig4"),
    "a threshold": ("optimizers.js", "plain: 2 / rate", "plain: 1 / rate", "fig2"),
    "a direction": ("capacity.js", "(b[1] - a[1]) / area", "(b[1] + a[1]) / area", "fig5-separable"),
    "a draw of inputs": ("random.js", "[13, 15, 26, 6]", "[13, 15, 26, 7]", "adam"),
}  # fmt: skip


@pytest.mark.parametrize("what", MUTANTS)
def test_a_mutant_is_caught(what, engine, wanted, tmp_path):
    file, before, after, name = MUTANTS[what]
    folder = shutil.copytree(ENGINE, tmp_path / "engine")
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after))
    (answer,) = ask(engine, name, folder=folder)
    assert wanted[name].faults(answer)


MISTOLD = {
    "a share": ("causes.js", "p * (after.losses[x] - before", "(after.losses[x] - before"),
    "a rival": ("causes.js", "spike.top, 'last'", "spike.top, 'first'"),
    "a push": ("pushes.js", "coefficients[i] -= eta", "coefficients[i] += eta"),
    "a half": ("events.js", "if (!isHalf || !isEven) return text;", "return text;"),
    "a limit": ("causes.js", "Math.log(M) / slope", "0.5 * Math.log(M) / slope"),
    "a place": ("causes.js", "spike.start - 1", "spike.start"),
}


@pytest.mark.parametrize("what", MISTOLD)
def test_a_mutant_that_tells_other_causes_is_caught(what, engine, causes, tmp_path):
    file, before, after = MISTOLD[what]
    folder = shutil.copytree(ENGINE, tmp_path / "engine")
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after))
    answers = ask(engine, *SPIKING, folder=folder, parts=["causes"])
    assert [answer["header"]["causes"] for answer in answers] != [*causes.values()]
