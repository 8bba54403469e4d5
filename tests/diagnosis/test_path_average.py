"""Between records, pushes are a path average, and say how much they leave."""

import functools

import numpy as np
import pytest

import engram
from engram import diagnosis

DESCENT = engram.GradientDescent(20.0, 48)


@functools.cache
def sphere():
    return engram.on_sphere(0, 8, 8, 5)


@functools.cache
def whole():
    return engram.simulate(sphere(), DESCENT, record=("loss", "margins", "weights"))


@functools.cache
def sparse():
    return engram.analyse(sphere(), whole().weights.values[::4], whole().step.values[::4])


def parts(pushes):
    names = ("decay", "noise", "rival", "remainder", "embeddings")
    return pushes.push.sum("source") + sum(pushes[name] for name in names if name in pushes)


def test_between_all_steps_the_path_average_is_exact():
    dense = engram.analyse(sphere(), whole().weights.values)
    exact = diagnosis.interference(whole(), between=(3, 11))
    ours = diagnosis.interference(dense, between=(3, 11))
    room = 1e-11 * float(np.abs(exact.push).max())
    for name in ("push", "remainder", "rival", "change", "strength", "output_overlap"):
        np.testing.assert_allclose(ours[name], exact[name], atol=room)
    assert ours.attrs["fit"] == pytest.approx(1, abs=1e-12)
    one = diagnosis.interference(dense, at=5)
    np.testing.assert_allclose(one.push, diagnosis.interference(whole(), at=5).push, atol=room)


def test_between_sparse_records_parts_add_up_and_the_remainder_is_reported():
    exact = diagnosis.interference(whole(), between=(4, 16))
    ours = diagnosis.interference(sparse(), between=(4, 16))
    np.testing.assert_allclose(
        parts(ours), ours.change, atol=1e-12 * float(np.abs(ours.push.values).sum(axis=1).max())
    )
    assert 0.9 < ours.attrs["fit"] < 1
    assert "path average" in ours.attrs["method"]
    assert 0 < np.abs(ours.remainder).max() < np.abs(ours.change).max()
    # Who pushes whom is the same, and about as much.
    assert np.corrcoef(ours.push.values.ravel(), exact.push.values.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("kind", ["gd", "sgd", "momentum"])
def test_with_independent_inputs_few_records_are_enough(kind):
    """The change of W has one part per token: what all steps did is read off its two ends."""
    problem = engram.on_sphere(3, 6, 4, 9, targets="mod")
    table = {"kind": kind, "learning_rate": 8.0, "steps": 40}
    table |= {"batch_size": 2} if kind == "sgd" else {}
    run = engram.simulate(problem, table, key=0, record=("loss", "margins", "weights"))
    data = engram.analyse(problem, run.weights.values[::20], run.step.values[::20])
    exact = diagnosis.interference(run, between=(0, 40))
    ours = diagnosis.interference(data, between=(0, 40))
    room = 1e-10 * float(np.abs(exact.push.values).max())
    np.testing.assert_allclose(ours.push, exact.push, atol=room)
    np.testing.assert_allclose(ours.remainder, 0, atol=room)
    assert ours.attrs["fit"] == pytest.approx(1, abs=1e-12)
    assert "independent" in ours.attrs["method"]


def test_what_independent_inputs_do_not_span_is_remainder():
    problem = engram.on_sphere(3, 6, 4, 9, targets="mod")
    W = np.random.default_rng(0).standard_normal((2, 9, 9))
    pushes = diagnosis.interference(engram.analyse(problem, W), between=(0, 1))
    np.testing.assert_allclose(parts(pushes), pushes.change, atol=1e-11)
    assert 0.4 < pushes.attrs["fit"] < 0.9  # six of nine dimensions
    np.testing.assert_allclose(pushes.remainder, 0, atol=1e-11)  # which moves no margin


def test_what_gradients_do_not_explain_is_remainder():
    """Weights that wander at random have no pushes to speak of."""
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((3, 5, 5)), axis=0)
    pushes = diagnosis.interference(engram.analyse(sphere(), walk), between=(0, 2))
    np.testing.assert_allclose(parts(pushes), pushes.change, atol=1e-12)
    assert pushes.attrs["fit"] < 0.3
    assert np.abs(pushes.remainder).max() > np.abs(pushes.push.sum("source")).max()


def test_recorded_gradients_set_the_noise_of_batches_apart():
    sgd = engram.StochasticGradientDescent(5.0, 6, batch_size=3)
    run = engram.simulate(sphere(), sgd, key=0, record=("weights",))
    W = run.weights.values
    recorder = engram.Recorder.of(sphere())
    for step in range(6):
        recorder.record(step, W[step], grad=(W[step] - W[step + 1]) / 5.0)  # that of the batch
    recorder.record(6, W[6], grad=0 * W[6])
    pushes = diagnosis.interference(recorder.dataset(), between=(0, 6))
    room = 1e-12 * float(np.abs(pushes.push.values).sum(axis=1).max())
    np.testing.assert_allclose(parts(pushes), pushes.change, atol=room)
    np.testing.assert_allclose(pushes.remainder, 0, atol=10 * room)
    assert pushes.attrs["fit"] == pytest.approx(1, abs=1e-12)
    # The pushes are what full gradients would have done at the same weights.
    tables = (sphere().inputs, sphere().outputs, sphere().targets, sphere().probs)
    expected = 5.0 * engram.probe(W[0], *tables).push
    first = diagnosis.interference(recorder.dataset(), at=0)
    np.testing.assert_allclose(first.push, expected, atol=room)
    assert np.abs(pushes.noise).max() > 0.1


def test_batches_are_attributed_to_the_tokens_that_they_held():
    """One weight per token meets a step on a batch, though no batch was recorded."""
    problem = engram.on_sphere(1, 20, 6, 12)
    sgd = engram.StochasticGradientDescent(5.0, 12, batch_size=2)
    run = engram.simulate(problem, sgd, key=0, record=("margins", "weights"))
    dense = engram.analyse(problem, run.weights.values)
    exact = diagnosis.interference(run, at=6)
    ours = diagnosis.interference(dense, at=6)
    room = 1e-6 * float(
        np.abs(exact.push).max()
    )  # the ridge, over how well the parts are told apart
    np.testing.assert_allclose(ours.push, exact.push, atol=room)
    np.testing.assert_allclose(ours.remainder, 0, atol=room)
    assert ours.attrs["fit"] == pytest.approx(1, abs=1e-6)
    assert (np.abs(ours.push.values).max(axis=0) > room).sum() <= 2
    # What is no token's is left: noise in all entries.
    rng = np.random.default_rng(0)
    recorder = engram.Recorder.of(problem)
    shaken = rng.standard_normal((2, *problem.zero_weights.shape))
    W = run.weights.values[6]
    for step in range(2):
        recorder.record(step, W - step * shaken[0], grad=shaken[step])
    other = diagnosis.interference(recorder.dataset(), between=(0, 1))
    np.testing.assert_allclose(parts(other), other.change, atol=1e-12)
    assert np.abs(other.noise).max() > np.abs(other.push.sum("source")).max()


def test_momentum_is_met_in_part():
    momentum = engram.dynamics.Descent(engram.dynamics.momentum(2.0, 0.9), steps=40)
    run = engram.simulate(sphere(), momentum, record=("loss", "weights"))
    data = engram.analyse(sphere(), run.weights.values[::4], run.step.values[::4])
    pushes = diagnosis.interference(data, between=(8, 24))
    np.testing.assert_allclose(parts(pushes), pushes.change, atol=1e-11)
    assert 0.3 < pushes.attrs["fit"] <= 1


def test_moving_embeddings_have_a_part_of_their_own():
    rng = np.random.default_rng(1)
    start, W = rng.standard_normal((4, 3)), rng.standard_normal((2, 3))
    outputs, targets = rng.standard_normal((3, 2)), [0, 1, 2, 0]
    recorder = engram.Recorder(start, outputs, targets)
    for step in range(3):
        # Only the inputs move: all of the change is theirs.
        recorder.record(step, W, inputs=start + 0.1 * step, outputs=outputs)
    pushes = diagnosis.interference(recorder.dataset(), between=(0, 2))
    np.testing.assert_allclose(pushes.push, 0, atol=1e-12)
    np.testing.assert_allclose(pushes.embeddings + pushes.rival, pushes.change, atol=1e-12)
    np.testing.assert_allclose(pushes.remainder, 0, atol=1e-12)


def test_a_recording_is_explained():
    pair = engram.two_tokens(0.95, 0.75)
    run = engram.simulate(pair, engram.GradientDescent(10.0, 34), record=("loss", "weights"))
    recorder = engram.Recorder(
        pair.inputs, pair.outputs, pair.targets, pair.probs, names=["often", "seldom"]
    )
    for step, W in enumerate(run.weights.values):
        recorder.record(step, W.astype(np.float32), learning_rate=10.0)
    data = recorder.dataset()
    explanation, exact = diagnosis.explain(data), diagnosis.explain(run)
    assert [s.first for s in explanation.spikes] == [s.first for s in exact.spikes]
    for ours, theirs in zip(explanation.spikes, exact.spikes, strict=True):
        assert ours.risen.tokens.tolist() == theirs.risen.tokens.tolist()
        np.testing.assert_allclose(ours.against.values, theirs.against.values, rtol=1e-4)
        assert ours.stability.sharpness == pytest.approx(theirs.stability.sharpness, rel=1e-4)
    said = str(explanation)
    assert "token often by" in said
    assert "accounts for 100% of what W did" in said
    assert "unstable above a sharpness of 0.2" in said
    ours, theirs = diagnosis.forgetting(data), diagnosis.forgetting(run)
    names = np.asarray(["often", "seldom"])
    assert (ours["by"].values == names[theirs["by"].values.astype(int)]).all()


def test_a_rising_learning_rate_that_was_recorded_is_named():
    pair = engram.two_tokens(0.95, 0.75)
    rates = np.r_[np.full(20, 0.5), np.full(20, 20.0)]
    run = engram.simulate(pair, engram.GradientDescent(rates, 40), record=("loss", "weights"))
    recorder = engram.Recorder(pair.inputs, pair.outputs, pair.targets, pair.probs)
    for step in range(0, 40, 2):
        recorder.record(step, run.weights.values[step], learning_rate=rates[step])
    explanation = diagnosis.explain(recorder.dataset())
    assert explanation.spikes[0].rates == (0.5, 20.0)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"between": (4, 6)}, "recorded steps, got 6 as the last. Recorded next to it: 4, 8"),
        ({"between": (8, 4)}, "in their order"),
        ({"at": 48}, "before the last record"),
        ({}, "one of them"),
    ],
)
def test_moments_that_were_not_recorded_are_refused(asked, message):
    with pytest.raises(engram.InputError, match=message):
        diagnosis.interference(sparse(), **asked)
