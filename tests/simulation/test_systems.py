"""Systems of one's own: they move, are measured and refuse what they cannot tell, like engram's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import cases
import engram
from engram import memory
from engram._checks import InputError
from engram.dynamics import AbstractFold
from engram.memory import MemorySystem
from engram.particles import MarginSystem, ParticleSystem
from engram.system import AbstractSystem, Look

PROBLEM = cases.PROBLEMS["sphere, d > N"]
TWO = cases.PROBLEMS["two tokens"]


class Factored(AbstractSystem):
    """W = A B, both factors learnt."""

    problem: engram.Problem
    law: jax.Array

    def look(self, state, law=None):
        W = self.weights(state)
        losses = memory.token_losses(self.problem, W)
        law = jnp.asarray(self.law if law is None else law)
        error = memory.error_rate(self.problem, W)
        return Look((law * losses).sum(), error, memory.margins(self.problem, W), losses)

    def grad(self, state, law=None, look=None):
        return jax.grad(self.loss)(state, law)

    def weights(self, state):
        return state["A"] @ state["B"]


class Bowl(AbstractSystem):
    """A quadratic in stretched coordinates, z = x / s: L = <h, x^2> / 2, with x measured as it is."""

    law: jax.Array
    curvatures: jax.Array
    stretch: jax.Array

    def look(self, state, law=None):
        return Look((self.curvatures * (self.stretch * state) ** 2).sum() / 2)

    def grad(self, state, law=None, look=None):
        return self.curvatures * state

    def inner(self, a, b):
        return (self.stretch**2 * a * b).sum()


FACTORED = Factored(TWO, TWO.probs)
START = {"A": np.array([[0.3, -0.1], [0.2, 0.4]]), "B": np.array([[0.5, 0.1], [-0.2, 0.6]])}


def test_factors_follow_the_chain_rule():
    # Independent of autodiff: dL/dA = G B^T and dL/dB = A^T G, with G the gradient in W.
    run = engram.simulate(
        FACTORED,
        engram.GradientDescent(0.5, 30),
        start=START,
        record=("loss", "margins", "weights"),
    )
    A, B = START["A"], START["B"]
    for t in range(31):
        np.testing.assert_allclose(run.weights[t], A @ B, atol=1e-11)
        assert run.loss[t] == pytest.approx(memory.loss(TWO, A @ B), rel=1e-11)
        G = memory.grad(TWO, A @ B)
        A, B = (A, B) if t == 30 else (A - 0.5 * G @ B.T, B - 0.5 * A.T @ G)
    np.testing.assert_allclose(run.final_A, A, atol=1e-11)
    np.testing.assert_allclose(run.final_B, B, atol=1e-11)
    np.testing.assert_array_equal(run.start_A, START["A"])
    assert run.attrs["space"] == "Factored"
    assert {"num_spikes", "perfect_from", "num_forgotten"} <= set(run.data_vars)


def test_sharpness_of_a_state_with_parts_is_the_largest_eigenvalue():
    run = engram.simulate(
        FACTORED, engram.GradientDescent(1.0, 1), start=START, record=("sharpness",), events=False
    )
    with jax.enable_x64(True):
        flat, back = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, START))
        H = jax.hessian(lambda v: FACTORED.loss(back(v)))(flat)
    assert run.sharpness[0] == pytest.approx(np.linalg.eigvalsh(H).max(), rel=1e-9)


@pytest.mark.usefixtures("x64")
def test_sharpness_is_that_of_the_metric_of_the_system():
    bowl = Bowl(jnp.ones(1), jnp.array([1.0, 5.0, 2.0]), jnp.array([1.0, 0.1, 30.0]))
    assert bowl.sharpness(jnp.ones(3)) == pytest.approx(5.0, rel=1e-9)
    z = jnp.array([1.0, 2.0, -1.0])
    # The gradient of L in the metric: <grad, v> is the derivative along v.
    v = jnp.array([0.3, -1.0, 2.0])
    slope = jax.jvp(bowl.loss, (z,), (v,))[1]
    assert bowl.inner(bowl.grad(z), v) == pytest.approx(float(slope), rel=1e-12)


@pytest.mark.parametrize("name", ["scores", "probabilities", "class_margins"])
def test_observables_that_a_system_does_not_define_are_refused_by_name(name):
    asked = "scores" if name == "probabilities" else name
    with pytest.raises(InputError, match=f"`{asked}` is not defined for a Factored"):
        engram.simulate(FACTORED, engram.GradientDescent(1.0, 2), start=START, record=(name,))


def test_a_system_without_tokens_has_a_loss_and_its_events():
    bowl = Bowl(np.ones(1), np.array([1.0, 3.0, 2.0]), np.ones(3))
    unstable = engram.GradientDescent(0.7, 20)  # beyond 2 / 3
    run = engram.simulate(bowl, unstable, start=np.array([0.1, 1.0, 1.0]), record=("loss",))
    assert run.last_rise == 20
    assert "num_forgotten" not in run
    with pytest.raises(
        InputError,
        match="^`error` is not defined for a Bowl. Leave it out, or return it in the system's `look`.$",
    ):
        engram.simulate(bowl, unstable, start=np.ones(3))
    with pytest.raises(InputError, match="`error` is not defined for a Bowl"):
        engram.simulate(bowl, unstable, start=np.ones(3), record=("loss",), stop="perfect")
    with pytest.raises(InputError, match="`record` = 'alignment' needs a problem"):
        engram.simulate(bowl, unstable, start=np.ones(3), record=("alignment",))
    with pytest.raises(InputError, match="`start` must be given: a Bowl has none"):
        engram.simulate(bowl, unstable, record=("loss",))
    with pytest.raises(InputError, match="`space` belongs to a Problem"):
        engram.simulate(bowl, unstable, start=np.ones(3), record=("loss",), space="weights")
    with pytest.raises(InputError, match="problem as a table must say its `family`"):
        engram.simulate({}, unstable)
    with pytest.raises(InputError, match="`problem` must be a Problem or a system, got int"):
        engram.simulate(3, unstable)


@pytest.mark.parametrize("kind", ["weights", "particles", "margins"])
def test_problems_and_their_systems_give_the_same_runs(kind):
    W = cases.weights(TWO, 0.3)
    descent = engram.StochasticGradientDescent(2.0, 40, 2)
    record = ("loss", "scores", "weights", "grad_norm")
    named = engram.simulate(TWO, descent, start=W, space=kind, key=0, record=record)
    if kind == "weights":
        given = engram.simulate(MemorySystem(TWO), descent, start=W, key=0, record=record)
    else:
        system = {"particles": ParticleSystem, "margins": MarginSystem}[kind](TWO, W)
        given = engram.simulate(system, descent, key=0, record=record)
    for name in named.data_vars:
        np.testing.assert_array_equal(named[name], given[name], err_msg=str(name))


def test_layer_norm_is_the_systems_for_every_dynamics():
    W = cases.weights(PROBLEM, 0.3)
    system = MemorySystem(PROBLEM, layer_norm=True)
    record = ("loss", "margins", "scores")
    options = {"start": W, "record": record}
    sgd = engram.PracticalDescent(engram.dynamics.sgd(0.5), 20)
    old = engram.simulate(PROBLEM, sgd, system={"kind": "memory", "layer_norm": True}, **options)
    new = engram.simulate(system, engram.GradientDescent(0.5, 20), **options)
    for name in record:
        np.testing.assert_allclose(new[name], old[name], rtol=1e-12)
    np.testing.assert_allclose(
        new.scores[0], memory.scores(PROBLEM, W, layer_norm=True), rtol=1e-12
    )
    # The loss does not depend on the length of W e_x, so the flow keeps sum |W|^2.
    flow = engram.simulate(system, engram.GradientFlow([0.0, 1.0, 20.0]), events=False, start=W)
    assert np.linalg.norm(flow.final_weights) == pytest.approx(np.linalg.norm(W), rel=1e-9)
    assert flow.loss[-1] < flow.loss[0]
    with pytest.raises(InputError, match="must not map a token to zero with layer norm"):
        engram.simulate(system, engram.GradientDescent(0.5, 20))


def test_dynamics_of_a_system_are_compared():
    runs = {"slow": engram.GradientDescent(0.5, 20), "fast": engram.GradientDescent(1.0, 10)}
    found = engram.simulation.compare(FACTORED, runs, num=11, start=START, record=("loss",))
    assert found.loss.dims == ("dynamics", "time")
    alone = engram.simulate(FACTORED, runs["fast"], start=START, record=("loss",))
    np.testing.assert_array_equal(found.loss.sel(dynamics="fast"), alone.loss)


class Longest(AbstractFold):
    """The largest weight that any step has seen, and when: `init` and `update` are enough."""

    def init(self, system, state):
        return {"size": jnp.zeros(()), "when": jnp.zeros((), int)}

    def update(self, folded, index, moment):
        size = jnp.abs(moment.system.weights(moment.state)).max()
        grows = size > folded["size"]
        return {
            "size": jnp.where(grows, size, folded["size"]),
            "when": jnp.where(grows, index, folded["when"]),
        }


@pytest.mark.parametrize("at", [None, [0, 100, 200]])  # step by step, and in bursts
def test_a_user_defined_event_sees_every_step(at):
    options = {"record": ("weights",), "space": "weights"}
    descent = engram.GradientDescent(10.0, 200)
    every = engram.simulate(TWO, descent, **options)
    sizes = np.abs(every.weights.values).max(axis=(1, 2))
    alone = engram.simulate(TWO, descent, at=at, events=Longest(), **options)
    assert float(alone["size"]) == sizes.max()
    assert int(alone["when"]) == sizes.argmax()
    assert "num_spikes" not in alone
    both = engram.simulate(TWO, descent, at=at, events=[True, Longest()], **options)
    xr.testing.assert_identical(both["size"], alone["size"])
    assert int(both.num_spikes) == int(every.num_spikes) > 0


def test_invalid_events_are_refused():
    for events, said in (
        ("spikes", "event 'spikes': must be 'events', got 'spikes'"),
        ([1], "`events` must be True, False, a fold"),
    ):
        with pytest.raises(InputError, match=said):
            engram.simulate(TWO, engram.GradientDescent(1.0, 2), events=events)
        engram.simulate(TWO, engram.GradientFlow([0.0, 1.0]), events=Longest())


def test_noise_on_all_entries_reaches_each_part():
    flow = engram.StochasticGradientFlow([0.0, 0.01], noise_scale=0.5, time_step=0.01)
    ends = [
        engram.simulate(FACTORED, flow, start=START, key=key, record=(), events=False)
        for key in range(200)
    ]
    moved = np.array([[end.final_A - START["A"], end.final_B - START["B"]] for end in ends])
    # One step: a drift of the order of dt, and independent noise of size 0.5 sqrt(dt) on each entry.
    deviations = moved.std(axis=0)
    np.testing.assert_allclose(deviations, 0.05, rtol=5 / np.sqrt(2 * 200))
