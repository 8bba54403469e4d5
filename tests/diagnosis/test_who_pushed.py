"""Who pushed whom: rows add up to the change, by three accounts, for every optimizer."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import engram
from engram import dynamics as D
from engram._checks import InputError
from engram.diagnosis import interference
from engram.diagnosis._pushes import Path, _ByCoefficients, _ByStates
from engram.memory import MemorySystem

EPS = np.finfo(float).eps
STEPS = 40
NAMED = {
    name: getattr(D, name)(0.3)
    for name in (
        "momentum",
        "nesterov",
        "normalised",
        "adam",
        "adamw",
        "rmsprop",
        "sign",
        "muon",
        "exact_muon",
    )
}


def sphere():
    return engram.on_sphere(2, 9, 5, 3, targets="random")


def sizes(pushes):
    """What rounding is proportional to: the sizes of all entries of a row."""
    return np.abs(pushes.push).sum("source") + np.abs(pushes.decay) + np.abs(pushes.noise)


def check_sums(pushes, factor=64.0):
    total = (
        pushes.push.sum("source") + pushes.decay + pushes.noise + pushes.rival + pushes.remainder
    )
    np.testing.assert_allclose(
        total, pushes.change, rtol=0, atol=8 * EPS * float(sizes(pushes).max())
    )
    # Nothing is left over but rounding: each step rounds the margins, which are no larger than the sizes.
    assert (np.abs(pushes.remainder) <= factor * EPS * sizes(pushes)).all()
    assert (pushes.rival <= 0).all()


@pytest.mark.parametrize("name", NAMED)
def test_pushes_of_a_named_optimizer_add_up_to_the_change(name):
    pushes = interference(sphere(), engram.PracticalDescent(NAMED[name], STEPS), between=(10, 30))
    check_sums(pushes)
    assert np.abs(pushes.push).max() > 1e-3


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_weight_decay_has_a_column_of_its_own(optimizer):
    descent = engram.PracticalDescent(NAMED[optimizer], STEPS, weight_decay=0.1)
    pushes = interference(sphere(), descent, between=(10, 30))
    check_sums(pushes)
    assert np.abs(pushes.decay).max() > 1e-3


def test_descent_and_batches_add_up_and_follow_theorem_one():
    problem = sphere()
    for descent in (
        engram.GradientDescent(10.0, STEPS),
        engram.StochasticGradientDescent(3.0, STEPS, 4),
    ):
        run = engram.simulate(problem, descent, key=3, record=("loss", "margins", "weights"))
        pushes = interference(run, between=(5, 25))
        check_sums(pushes)
        assert pushes.attrs["deviation"] < 1e-9  # the run is repeated from what its dataset says
    # One step of descent is Theorem 1: - eta p(x') <e_x, e_x'> sum_z beta p_W(z|x'), by hand.
    run = engram.simulate(
        problem, engram.GradientDescent(10.0, STEPS), record=("margins", "weights")
    )
    for options in ({"at": 7.5}, {"between": (2, 7.5)}):
        with pytest.raises(InputError, match="counts steps, got 7.5"):
            interference(run, **options)
    pushes = interference(run, at=7)
    E, U, W = problem.inputs, problem.outputs, run.weights.values[7]
    q = engram.memory.recall_probs(problem, W)
    residual = q - np.eye(5)[problem.targets]
    difference = U[problem.targets] - U[pushes.rival_before.values]
    by_hand = -10.0 * problem.probs * (E @ E.T) * (difference @ (residual @ U).T)
    np.testing.assert_allclose(pushes.push, by_hand, rtol=1e-10, atol=1e-12)
    product = pushes.input_overlap * pushes.output_overlap * pushes.strength
    np.testing.assert_allclose(product, pushes.push, rtol=1e-12, atol=1e-14)


def test_coefficients_and_states_are_two_accounts_of_the_same_pushes():
    problem, descent = sphere(), engram.PracticalDescent(NAMED["nesterov"], STEPS)
    with engram.diagnosis._pushes.jax.enable_x64(True):
        path = Path(MemorySystem(problem), descent, jnp.zeros((3, 3)), None)
        one, other = _ByCoefficients(path).between(4, 20), _ByStates(path).between(4, 20)
    np.testing.assert_allclose(one.push, other.push, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(one.after, other.after, rtol=1e-12, atol=1e-12)


def test_tokens_are_followed_in_chunks_with_the_same_result(monkeypatch):
    moved = sphere(), engram.PracticalDescent(NAMED["adam"], STEPS)
    whole = interference(*moved, at=12)
    monkeypatch.setattr("engram.diagnosis._pushes._NUMBERS", 4 * 9)
    np.testing.assert_allclose(interference(*moved, at=12).push, whole.push, rtol=1e-9, atol=1e-12)


def test_flows_are_accounted_for_by_their_coefficients():
    problem = sphere()
    times = np.linspace(0, 20, 6)
    flow = engram.simulate(problem, engram.GradientFlow(times))
    pushes = interference(flow, between=(4.0, 16.0))
    check_sums(pushes, factor=1e3)
    assert pushes.attrs["deviation"] < 1e-8  # the solver's tolerance
    shaken = engram.StochasticGradientFlow(times / 10, 1.0, 4, noise_scale=0.3)
    pushes = interference(engram.simulate(problem, shaken, key=1), between=(0.4, 1.6))
    check_sums(pushes, factor=1e3)
    assert np.abs(pushes.noise).max() > 1e-3


def test_what_is_not_accounted_for_is_reported():
    problem = sphere()
    unknown = engram.PracticalDescent(optax.lion(0.1), STEPS)
    pushes = interference(problem, unknown, at=3)
    assert not pushes.push.any()
    np.testing.assert_allclose(pushes.remainder + pushes.rival, pushes.change, rtol=0, atol=1e-14)
    # With layer norm margins are not linear in W: the remainder is of second order in the step.
    system, start = MemorySystem(problem, layer_norm=True), np.eye(3)
    left = [
        np.abs(
            interference(system, engram.GradientDescent(eta, 5), at=2, start=start).remainder
        ).max()
        for eta in (1e-3, 5e-4)
    ]
    assert left[0] > 0
    assert left[0] / left[1] == pytest.approx(4, rel=0.2)


def test_noisy_targets_and_names_are_shown():
    problem = engram.Problem(
        np.eye(3), np.eye(3), [0.5, 0.3, 0.2], np.full((3, 3), 0.1) + 0.7 * np.eye(3),
        names=("the", "of", "and"),
    )  # fmt: skip
    pushes = interference(engram.simulate(problem, engram.GradientDescent(1.0, 10)), at=2)
    check_sums(pushes)
    assert pushes.source.values.tolist() == ["the", "of", "and"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "`at` or `between` must be given"),
        ({"at": 1, "between": (1, 2)}, "`at` or `between` must be given"),
        ({"at": STEPS}, "within the run, from 0 to 40"),
        ({"between": (5, 5)}, "the first before the last, got 5 and 5"),
    ],
)
def test_moments_outside_the_run_are_rejected(wrong, message):
    run = engram.simulate(sphere(), engram.GradientDescent(1.0, STEPS), events=False)
    with pytest.raises(engram.InputError, match=message):
        interference(run, **wrong)
