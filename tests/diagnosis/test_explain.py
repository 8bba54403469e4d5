"""Spikes are explained: planted culprits come first."""

from dataclasses import replace

import numpy as np
import pytest

import engram
from engram.diagnosis import (
    by_frequency,
    draw_forgetting,
    draw_interference,
    explain,
    forgetting,
    interference,
)
from engram.diagnosis._pictures import _states_at
from engram.diagnosis._sentences import push_rows

N, DIM = 30, 40


def hidden_pair(seed):
    """Two nearly parallel tokens of different classes among orthogonal ones; the frequent one pushes."""
    rng = np.random.default_rng(seed)
    E = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0][:N]
    frequent, rare = rng.permutation(N)[:2]
    E[rare] = 0.98 * E[frequent] + np.sqrt(1 - 0.98**2) * E[rare]
    targets = rng.integers(0, 4, N)
    targets[rare] = (targets[frequent] + 1) % 4
    probs = rng.dirichlet(np.full(N, 5.0))
    probs[frequent] += 0.3
    return engram.Problem(E, np.eye(4, DIM), probs / probs.sum(), targets), frequent, rare


@pytest.mark.parametrize("seed", range(3))
def test_hidden_pair_is_found(seed):
    problem, frequent, rare = hidden_pair(seed)
    explanation = explain(engram.simulate(problem, engram.GradientDescent(600.0, 60)))
    assert explanation.spikes
    worst = max(explanation.spikes, key=lambda spike: spike.height)
    assert worst.risen.tokens[0] == rare
    assert worst.against.tokens[0] == frequent
    assert f"token {frequent} by" in str(explanation)
    assert "(inputs overlap by 0.98, outputs by -2; p = " in str(explanation)


def test_factors_of_a_push_multiply_to_it():
    problem, frequent, rare = hidden_pair(0)
    explanation = explain(engram.simulate(problem, engram.GradientDescent(600.0, 60)))
    rows = push_rows(explanation, explanation.spikes[0])
    assert rows[0][:2] == (str(rare), str(frequent))
    push, *factors = map(float, rows[0][2:])
    assert push == pytest.approx(np.prod(factors), rel=0.02)  # three digits each


def test_the_command_writes_a_page_and_a_graph(tmp_path, here):
    problem, frequent, rare = hidden_pair(0)
    run = engram.simulate(problem, engram.GradientDescent(600.0, 60))
    run.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    files = {name: tmp_path / f"a.{name}" for name in ("html", "png")}
    done = here("explain", tmp_path / "run.nc", "--html", files["html"], "--graph", files["png"])
    assert done.returncode == 0
    assert f"token {frequent} by" in done.stdout
    assert f"<td>{rare}</td><td>{frequent}</td>" in files["html"].read_text()
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    missing = here("explain", tmp_path / "none.nc")
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1
    assert "RUN must be a file of a run" in missing.stderr


def test_mislabelled_frequent_token_is_found():
    rng = np.random.default_rng(0)
    centres = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0][:3]
    E = np.repeat(centres, 5, axis=0) + 0.05 * rng.standard_normal((15, DIM))
    targets = np.repeat(np.arange(3), 5)
    targets[7] = 0  # of the second cluster
    probs = np.full(15, 1.0)
    probs[7] = 8.0
    problem = engram.Problem(E, np.eye(3, DIM), probs / probs.sum(), targets)
    explanation = explain(engram.simulate(problem, engram.GradientDescent(60.0, 40)))
    worst = max(explanation.spikes, key=lambda spike: spike.height)
    assert worst.against.tokens[0] == 7
    assert set(worst.risen.tokens[:2]) <= {5, 6, 8, 9}


def test_a_rising_learning_rate_is_named():
    problem, _, _ = hidden_pair(1)
    rates = np.full(80, 1.0)
    rates[40:] = 300.0
    explanation = explain(engram.simulate(problem, engram.GradientDescent(rates, 80)))
    assert explanation.spikes[0].rates == (1.0, 300.0)
    assert "gone up from 1 to 300" in str(explanation)


def test_two_tokens_are_explained_as_the_paper_does():
    """The frequent token pushes the rare one; the first step is beyond the threshold of theory."""
    run = engram.simulate(engram.two_tokens(0.95, 0.75), engram.GradientDescent(30.0, 60))
    explanation = explain(run)
    assert explanation.num_spikes == int(run.num_spikes) == len(explanation.spikes)
    first = explanation.spikes[0]
    assert (first.first, first.peak) == (0, 1)
    assert first.risen.tokens.tolist() == [1]
    assert first.against.tokens.tolist() == [0]
    assert first.stability.is_crossed
    assert first.stability.threshold == pytest.approx(2 / 30)
    sharpness = engram.memory.sharpness(engram.two_tokens(0.95, 0.75), np.zeros((2, 2)))
    assert first.stability.sharpness == pytest.approx(float(sharpness), rel=1e-9)
    assert "learning rate is above 5.439" in first.foreseen[0]
    assert first.loss_peak / first.loss_before == pytest.approx(first.height)
    assert "<li>" in explanation._repr_html_()
    assert len(explanation.plot().axes) == 3
    assert explanation.table().share.sum("token").values == pytest.approx(1.0)


def test_a_new_rival_does_not_hide_who_pushed():
    """A class far behind overtakes all others in one step: its source pushed, whoever was the rival."""
    E = np.diag([1.0, 1, 1, 1])
    E[1, 0] = 5.0  # a large embedding, close to token 0
    problem = engram.Problem(E, np.eye(3, 4), [0.97, 0.01, 0.01, 0.01], [0, 2, 1, 0])
    start = np.zeros((4, 4))
    start[:3, 0] = 2.0, 1.5, 0.0  # class 1 is the rival of token 0 at first,
    start[1, 1] = 20.0  # and what token 1 recalls
    sampling = engram.dynamics.Replayed([[0, 2, 3, 3], [1] * 4, [0, 2, 3, 3]])
    descent = engram.dynamics.Descent(engram.dynamics.sgd(1.0), sampling, steps=3)
    run = engram.simulate(problem, descent, start=start)
    spike = explain(run).spikes[0]
    assert (spike.first, spike.peak) == (1, 2)
    assert spike.risen.tokens[0] == 0
    assert spike.against.tokens.tolist() == [1]
    assert "then recalled as class 2" in str(explain(run))
    assert "but 100% of the samples in these steps" in str(explain(run))
    # Against the class of before, the same source seems to help.
    first, last = (interference(run, at=1, rival=rival) for rival in ("first", "last"))
    assert first.push[0, 1] > 0 > last.push[0, 1]
    assert (first.rival[0] < 0) & (last.rival[0] > 0)
    for pushes in (first, last):
        total = pushes.push.sum("source") + pushes.rival + pushes.remainder
        np.testing.assert_allclose(total, pushes.change, atol=1e-14)
        np.testing.assert_allclose(pushes.remainder, 0, atol=1e-14)
        np.testing.assert_array_equal(pushes.frequency, [0, 1, 0, 0])


def test_the_sharpest_direction_of_a_preconditioned_method_is_named():
    rates = np.where(np.arange(60) < 30, 0.02, 1.0)
    descent = engram.PracticalDescent(engram.dynamics.rmsprop(rates), 60)
    record = ("loss", "margins", "stability_gap")
    run = engram.simulate(engram.two_tokens(0.95, 0.75), descent, record=record)
    spike = explain(run, most=1).spikes[0]
    known, gap = spike.stability, run.stability_gap.sel(step=spike.first)
    assert known.threshold - known.sharpness == pytest.approx(float(gap), rel=1e-9)
    assert known.is_crossed
    assert known.direction.prod() < 0
    assert "the sharpest direction moves token 1 against token 0" in str(explain(run))


def test_what_other_than_tokens_did_is_told():
    problem, frequent, rare = hidden_pair(0)
    explanation = explain(engram.simulate(problem, engram.GradientDescent(600.0, 60)), most=1)
    (spike,) = explanation.spikes
    fall = -float(spike.against.values.sum() + spike.helping.values.sum())
    told = lambda **parts: str(
        replace(explanation, spikes=(replace(spike, pushes=spike.pushes.assign(parts)),))
    )
    part = spike.pushes.decay
    for name, words in {
        "decay": "Weight decay lowered",
        "noise": "Noise on W lowered",
        "remainder": "A remainder, which no push accounts for, lowered",
    }.items():
        text = told(**{name: part - 100 * fall})
        assert f"{words} its margin by {100 * fall:.3g}." in text
        assert f"token {frequent} by" not in text  # which did little beside it
        assert words not in told(**{name: part - 1e-3 * fall})


def test_who_becomes_surer_than_its_noisy_targets_is_found():
    """The frequent token's own step goes too far: its margin rises, and its loss with it."""
    problem, frequent, rare = hidden_pair(0)
    noisy = np.full((N, 4), 0.03) + 0.88 * np.eye(4)[problem.targets]
    problem = engram.Problem(problem.inputs, problem.outputs, problem.probs, noisy)
    rates = np.repeat([2.0, 400.0], [30, 10])
    explanation = explain(engram.simulate(problem, engram.GradientDescent(rates, 40)), most=1)
    (spike,) = explanation.spikes
    assert frequent in spike.surer
    assert spike.risen.tokens[0] == spike.against.tokens[0] == frequent
    rose = float((spike.pushes.change - spike.pushes.rival)[frequent])
    assert f"The margin rose, too, of token {frequent} by {rose:.3g}: surer than" in str(
        explanation
    )
    assert f"What moved their margins the wrong way: token {frequent} by" in str(explanation)
    # Its loss is lowest where it is as sure as its targets.
    assert float(spike.pushes.margin_after[frequent]) > np.log(0.91 / 0.03)


def test_names_that_look_like_formulas_are_drawn_as_they_are():
    problem, frequent, rare = hidden_pair(0)
    names = [f"$\\frac{x}$" for x in range(N)]
    names[frequent], names[rare] = "_often", "$$"
    tables = problem.inputs, problem.outputs, problem.probs, problem.targets
    run = engram.simulate(engram.Problem(*tables, names=names), engram.GradientDescent(600.0, 60))
    explanation = explain(run, most=1)
    figure = explanation.plot()
    legend = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert legend[:2] == [r"\$\$", " _often"]
    pushes = explanation.spikes[0].pushes
    for each in (figure, explanation.graph(), draw_interference(pushes), draw_forgetting(run)):
        each.canvas.draw()


def test_run_without_a_spike_says_so():
    run = engram.simulate(engram.two_tokens(0.1, 0.5), engram.GradientDescent(0.1, 20))
    assert str(explain(run)) == "The loss never spiked."


@pytest.mark.parametrize(
    ("name", "value"), [("spike_step", 1e9), ("event_step", -1.0), ("event_token", 2)]
)
def test_events_that_a_run_cannot_have_had_are_refused(name, value):
    run = engram.simulate(engram.two_tokens(0.95, 0.75), engram.GradientDescent(30.0, 60))
    run[name][0] = value
    with pytest.raises(engram.InputError, match=f"got others in `{name}`") as refusal:
        forgetting(run)
    assert "\n" not in str(refusal.value)


def test_forgetting_names_who_did_it():
    problem, frequent, rare = hidden_pair(0)
    run = engram.simulate(problem, engram.GradientDescent(600.0, 60))
    ledger = forgetting(run)
    lost = (ledger.what == "forgotten") & (ledger.of == rare)
    assert lost.any()
    assert (ledger.by.values[lost] == frequent).all()
    assert (ledger.push.values[lost] < 0).all()
    assert ledger.num_forgotten.values[rare] == lost.sum()
    margins = run.margins.values
    np.testing.assert_array_equal(ledger.is_recalled, margins[-1] > 0)
    summary = by_frequency(ledger, 5)
    assert int(summary.tokens.sum()) == N
    assert float(summary.frequency.sum()) == pytest.approx(1.0)


def test_tasks_one_after_another_are_forgotten():
    """Catastrophic forgetting is read off: the second task's tokens undo the first's."""
    E = np.vstack([np.eye(3), np.eye(3) + 0.2])
    problem = engram.Problem(
        E / np.linalg.norm(E, axis=1, keepdims=True), np.eye(2, 3), np.full(6, 1 / 6), [0] * 3 + [1] * 3
    )  # fmt: skip
    laws = np.array([[1 / 3] * 3 + [0] * 3, [0] * 3 + [1 / 3] * 3])
    sampling = engram.dynamics.Curriculum(laws, [50, 150])
    descent = engram.PracticalDescent(engram.dynamics.sgd(2.0), 200, sampling=sampling)
    run = engram.simulate(problem, descent)
    assert "Samples came from stage 2 (until step 200) of the curriculum." in str(explain(run))
    ledger = forgetting(run)
    lost = ledger.what.values == "forgotten"
    assert set(ledger.of.values[lost]) == {0, 1, 2}
    assert (ledger.step.values[lost] > 50).all()
    assert (ledger.by.values[lost] >= 3).all()
    assert not ledger.is_recalled.values[:3].any()


def test_raster_shows_what_the_margins_say():
    problem, _, _ = hidden_pair(0)
    run = engram.simulate(problem, engram.GradientDescent(600.0, 60))
    states = _states_at(run, np.arange(61))
    np.testing.assert_array_equal(states == 1, run.margins.values.T > 0)
