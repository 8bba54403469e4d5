"""Memories of several parts: their gradients two ways, what flow conserves, and every dynamics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import engram
from engram import memory, systems
from engram._checks import InputError

EPS = np.finfo(float).eps
PROBLEM = engram.on_sphere(1, 6, 4, 5)
NOISY = engram.Problem(
    PROBLEM.inputs,
    PROBLEM.outputs,
    PROBLEM.probs,
    np.random.default_rng(0).dirichlet(np.ones(4), 6),
)
KINDS = {
    "factored": lambda p: systems.FactoredSystem(p, 3),
    "embedded": systems.EmbeddedSystem,
    "biased": lambda p: systems.BiasedSystem(p, temperature=0.5),
    "network": lambda p: systems.NetworkSystem(p, 7, activation="tanh"),
    "attention": lambda p: systems.AttentionSystem(p, 2, num_noise=2, noise_tokens=3),
}


@pytest.fixture(autouse=True)
def double(x64):
    """All of it in double precision."""


def shaken(system, scale=1.0):
    rng = np.random.default_rng(3)
    return jax.tree.map(lambda x: x + scale * rng.standard_normal(x.shape), system.start())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("problem", [PROBLEM, NOISY], ids=["certain", "noisy"])
def test_the_gradient_is_that_of_the_loss(kind, problem):
    system = KINDS[kind](problem)
    state = shaken(system)
    w = np.asarray(system.scores(state))
    law = np.asarray(problem.law)
    table = law if law.ndim == 2 else law[:, None] * np.eye(4)[problem.labels]
    by_hand = lambda state: -(table * jax.nn.log_softmax(system.scores(state), axis=1)).sum()
    assert system.loss(state) == pytest.approx(float(by_hand(state)), rel=1e-13)
    look = system.look(state)
    assert look.loss == pytest.approx(float(system.loss(state)), rel=1e-15)
    assert np.asarray(look.margins) == pytest.approx(
        [w[x, y] - np.delete(w[x], y).max() for x, y in enumerate(problem.labels)], abs=1e-13
    )
    # A few hundred products, each with a few roundings, of numbers below ten.
    for mine, other in zip(
        *map(jax.tree.leaves, (system.grad(state), jax.grad(by_hand)(state))), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1000 * EPS)


def test_parts_of_the_gradient_are_those_of_the_matrix():
    G = lambda problem, W: np.asarray(memory.grad(problem, W))
    factored = systems.FactoredSystem(PROBLEM, 3)
    state = shaken(factored)
    W = np.asarray(factored.weights(state))
    found = factored.grad(state)
    np.testing.assert_allclose(found["A"], G(PROBLEM, W) @ state["B"], atol=1e-14)
    np.testing.assert_allclose(found["B"], G(PROBLEM, W).T @ state["A"], atol=1e-14)

    embedded = systems.EmbeddedSystem(PROBLEM)
    state = shaken(embedded)
    moved = engram.Problem(state["inputs"], state["outputs"], PROBLEM.probs, PROBLEM.targets)
    np.testing.assert_allclose(embedded.grad(state)["W"], G(moved, state["W"]), atol=1e-13)

    biased = systems.BiasedSystem(PROBLEM, temperature=0.5)
    state = shaken(biased) | {"bias": jnp.zeros(4)}
    sharper = engram.Problem(PROBLEM.inputs, PROBLEM.outputs / 0.5, PROBLEM.probs, PROBLEM.targets)
    np.testing.assert_allclose(biased.grad(state)["W"], G(sharper, state["W"]), atol=1e-13)

    linear = systems.NetworkSystem(PROBLEM, 7, activation="linear")
    state = shaken(linear)
    slope = G(PROBLEM, np.asarray(state["V"] @ state["K"]))
    np.testing.assert_allclose(linear.grad(state)["V"], slope @ state["K"].T, atol=1e-13)
    np.testing.assert_allclose(linear.grad(state)["K"], state["V"].T @ slope, atol=1e-13)


def test_flow_conserves_the_imbalance_of_factors_and_descent_nearly():
    system = systems.FactoredSystem(PROBLEM, 3, start_size=0.5, imbalance=1.5)
    kept = lambda run: run["A"].T @ run["A"] - run["B"].T @ run["B"]
    start = kept(system.start())
    np.testing.assert_allclose(start, 0.25 * (1.5**2 - 1.5**-2) * np.eye(3), atol=4 * EPS)
    end = lambda run: kept({"A": run.final_A.values, "B": run.final_B.values})
    flow = engram.simulate(system, engram.GradientFlow(end=30.0), events=False)
    assert float(flow.loss[-1]) < 0.5 * float(flow.loss[0])
    assert (
        abs(end(flow) - start).max() < 1e-8
    )  # the solver's tolerance 1e-11, over some hundred steps
    away = []
    for rate in (0.02, 0.01):
        descent = engram.GradientDescent(rate, round(2 / rate))
        away.append(abs(end(engram.simulate(system, descent, events=False)) - start).max())
    assert away[0] / away[1] == pytest.approx(2, rel=0.1)  # eta^2 a step, over 1 / eta steps
    balanced = systems.FactoredSystem(PROBLEM, 3)
    np.testing.assert_allclose(kept(balanced.start()), 0, atol=4 * EPS)


@pytest.mark.parametrize(
    ("kind", "fields", "dynamics"),
    [
        ("factored", {"rank": 2}, {"kind": "sgd", "learning_rate": 1.0, "batch_size": 3}),
        ("embedded", {"learn": "inputs"}, {"kind": "adam", "learning_rate": 0.05}),
        ("biased", {}, {"kind": "gd", "learning_rate": 1.0}),
        ("network", {"width": 9}, {"kind": "muon", "learning_rate": 0.05}),
    ],
)
def test_they_run_by_name_under_every_kind_of_dynamics(kind, fields, dynamics):
    run = engram.simulate(
        PROBLEM,
        dynamics | {"steps": 60},
        system={"kind": kind, **fields},
        key=0,
        record=("loss", "margins"),
    )
    assert float(run.loss[-1]) < 0.7 * float(run.loss[0])
    assert "num_spikes" in run


def test_embeddings_that_are_not_learnt_are_those_of_the_problem():
    state = systems.EmbeddedSystem(PROBLEM, learn="outputs").start()
    assert set(state) == {"W", "outputs"}
    np.testing.assert_array_equal(state["outputs"], PROBLEM.outputs)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: systems.FactoredSystem(PROBLEM, 6), "`rank` must be at most 5"),
        (
            lambda: systems.FactoredSystem(PROBLEM, 2, start_size=0),
            "`start_size` must be above zero",
        ),
        (lambda: systems.EmbeddedSystem(PROBLEM, learn="none"), "`learn`"),
        (lambda: systems.BiasedSystem(PROBLEM, temperature=-1), "`temperature` must be above zero"),
        (lambda: systems.NetworkSystem(PROBLEM, 3, activation="sin"), "`activation`"),
    ],
)
def test_what_makes_no_system_is_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()
