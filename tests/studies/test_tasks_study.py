"""The study of tasks: the paper's spike, noise, who is to blame, and a system of one's own."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import engram
from engram import InputError
from engram.particles import AbstractReadout
from engram.problem import Problem
from engram.registry import KINDS, entries, register
from engram.studies import read_study, spec_text
from engram.studies._tasks import two_tasks, with_noise

EXAMPLE = Path(__file__).parents[2] / "examples" / "study_tasks.py"


@pytest.fixture
def restored():
    """Names that a test registers go with it."""
    known = {kind: dict(entries(kind)) for kind in KINDS}
    yield
    for kind, before in known.items():
        entries(kind).clear()
        entries(kind).update(before)


@pytest.fixture(scope="module")
def result():
    return engram.study("tasks", tiny=True)


def test_the_papers_spike_and_the_threshold_of_forgetting_are_met(result):
    known = {row.quantity: row for row in result.rows if row.reference is not None}
    assert len(known) == 4
    assert result.is_met
    threshold = next(row for name, row in known.items() if name.startswith("correlation"))
    low, high = threshold.interval
    assert high - low < 2e-3, "an interval that says something"


def test_noise_moves_a_share_of_the_labels_and_clean_ones_judge():
    problem = engram.on_sphere(0, 6, 4, 5)
    noisy = with_noise(problem, 0.2)
    np.testing.assert_allclose(noisy.targets.sum(1), 1, rtol=1e-15)
    own = np.asarray(noisy.targets)[np.arange(6), problem.targets]
    np.testing.assert_allclose(own, 0.8 + 0.2 / 4, rtol=1e-15)
    np.testing.assert_array_equal(noisy.labels, problem.labels)
    assert noisy.answers is noisy.labels or np.array_equal(noisy.answers, problem.labels)


def test_all_of_a_replayed_is_task_a_again():
    data = two_tasks(3, 2, [4], [1.0], 2.0, 60, 2, lambda done, total: None)
    recalled = data.recalled.values
    assert (data.forgotten.values[recalled == 1] == 0).all()
    assert (data.learnt.values < 1).any(), "nothing of B was seen"


def test_a_copied_spec_with_one_changed_line_has_a_system_of_ones_own(result, restored, tmp_path):
    @register("system", "twice")
    class Twice(AbstractReadout):
        """Scores twice as large: descent as W at half of the temperature."""

        problem: Problem
        law: object

        def __init__(self, problem):
            self.problem, self.law = problem, problem.law

        def scores(self, state):
            return 2 * (self.problem.inputs @ (self.problem.outputs @ state).T)

        def start(self):
            return self.problem.zero_weights

    spec = tmp_path / "mine.toml"
    rows = 'systems = [{label = "twice", system = {kind = "twice"}}, {label = "W"}]'
    lines = spec_text(read_study("tasks", tiny=True, seeds=1)).splitlines()
    spec.write_text("\n".join(rows if line.startswith("systems") else line for line in lines))
    mine = engram.study(spec)
    twice, plain = mine.data["system_00"], mine.data["system_01"]
    assert (twice.attrs["label"], plain.attrs["label"]) == ("twice", "W")
    assert float(plain.perfect_from[0, 0]) == 15
    # Gradients of twice the scores are twice as large, too: a rate of four times that of W.
    four = engram.simulate(
        engram.two_tokens(0.95, 0.75), engram.GradientDescent(40.0, 100), record="margins", at=[100]
    )  # fmt: skip
    assert float(twice.perfect_from[0, 0]) == float(four.perfect_from)
    assert float(twice.least_margin[0, 0]) == pytest.approx(float(four.margins[-1].min()), rel=1e-6)
    assert any(each.startswith("twice, rate 10: perfect from") for each in mine.findings)


def test_a_wrong_line_is_refused():
    with pytest.raises(InputError, match=r"systems.0: unknown 'noise'"):
        engram.study("tasks", tiny=True, systems=[{"noise": 0.1}])


def test_the_example_runs(capsys, restored):
    runpy.run_path(str(EXAMPLE))
    out = capsys.readouterr().out
    assert "W, rate 10: perfect from 15" in out
    assert "capped scores, rate 10:" in out
