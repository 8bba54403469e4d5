"""Lyapunov exponents and the central flow: laws at fixed points, on cycles, in chaos, and on the edge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import engram
from engram import memory
from engram._precision import in_double
from engram.capacity import loss_minimiser
from engram.dynamics import CentralFlow, GradientDescent, lyapunov_exponent, run
from engram.memory import MemorySystem
from engram.problem import Problem
from engram.systems import FactoredSystem
from engram.theory import cycles

LENGTHS, PROBS = np.array([1.0, -8.0, -0.5]), np.array([0.679, 0.021, 0.3])
LINE = Problem(LENGTHS[:, None] * np.eye(1, 2), np.eye(2), PROBS, [0, 0, 0])


@in_double
def exponents(problem, starts, rates, **lengths):
    """The exponents of several starts and rates in one program, and their errors."""
    system = MemorySystem(problem)
    one = lambda start, rate: lyapunov_exponent(system, start, rate, **lengths)[:2]
    return jax.jit(jax.vmap(one))(np.asarray(starts), np.asarray(rates))


def test_exponent_at_the_minimiser_is_that_of_the_slowest_direction():
    problem = engram.on_sphere(0, 6, 2, 2)
    W = loss_minimiser(problem).weights
    h = np.asarray(memory.spectrum(problem, W, restricted=True))
    rates = np.linspace(0.2, 0.95, 6) * 2 / h[0]
    values, errors = exponents(problem, [W] * 6, rates, skip=4000, steps=64)
    # The part of the other direction falls by the ratio of both multipliers each step; rounding is left.
    multipliers = np.sort(abs(1 - rates[:, None] * h), axis=1)
    tolerance = 1e-10 + (multipliers[:, 0] / multipliers[:, 1]) ** 4000
    assert (abs(values - np.log(multipliers[:, 1])) <= tolerance).all()
    assert (errors <= tolerance).all()


def test_exponents_of_cycles_and_of_chaos_are_those_of_the_map_of_the_line():
    # The theory's rate is the product with |u_1 - u_2|^2 = 2.
    rates = np.array([0.98, 1.08, 1.17]) * cycles.edge(LENGTHS, PROBS)
    g = cycles.descend(1.35, rates, LENGTHS, PROBS, skip=4000, keep=8192)
    starts = g[0][:, None, None] * np.array([[0.5, 0.0], [-0.5, 0.0]])
    values, errors = exponents(LINE, starts, rates / 2, skip=64, steps=8192)
    for k, period in enumerate((2, 4)):
        cycle = cycles.cycle(g[0][k], rates[k], LENGTHS, PROBS, period)
        assert values[k] == pytest.approx(np.log(abs(cycle.multiplier)) / period, abs=1e-9)
        assert values[k] < 0
        assert errors[k] < 1e-9
    # Of chaos two paths part, and have averages in common, each within its error.
    slopes = np.log(abs(1 - rates[2] * cycles.curvature(g[:, 2], LENGTHS, PROBS)))
    means = slopes.reshape(16, -1).mean(1)
    assert values[2] > 5 * errors[2]
    spread = np.hypot(errors[2], means.std(ddof=1) / 4)
    assert values[2] == pytest.approx(means.mean(), abs=4 * spread)


@in_double
def test_projections_of_updates_are_those_of_the_bases():
    problem = engram.on_sphere(1, 2, 3, 4)
    B, A = memory.update_bases(problem)
    V = np.random.default_rng(0).normal(size=(4, 4))
    onto = MemorySystem(problem).movable()
    np.testing.assert_allclose(onto(V), B @ B.T @ V @ A @ A.T, atol=1e-14)


@in_double
def flow(system, start, rate, steps, **options):
    now = lambda system, _, carry: (carry.inner, system.sharpness(carry.inner.state))
    go = lambda start: run(
        system, CentralFlow(rate, steps, **options), start, at=jnp.arange(steps + 1), record=now
    )
    return jax.tree.map(np.asarray, jax.jit(go)(start).records)


def test_central_flow_is_gradient_flow_below_the_edge_and_stays_there_above():
    problem = engram.on_sphere(1, 12, 3, 3)
    system = FactoredSystem(problem, 2, start_size=0.5, imbalance=2.0)
    start = system.start()
    centre, sharpness = flow(system, start, 2.1, 60, substeps=4)
    edge, at = 2 / 2.1, sharpness > 0.999 * 2 / 2.1
    assert 10 < at.argmax() < 60  # it sharpens until it is there
    np.testing.assert_allclose(sharpness[at], edge, rtol=1e-6)
    np.testing.assert_array_equal(centre.variance[: at.argmax()], 0)
    assert (centre.variance[at][1:] > 0).all()
    # Below the edge it is Euler's scheme for gradient flow, which is descent with smaller steps.
    before = int(at.argmax()) - 1
    steps = engram.simulate(
        system, GradientDescent(2.1 / 4, 4 * before), record=["weights"], every=4 * before
    )
    A, B = centre.state["A"][before], centre.state["B"][before]
    np.testing.assert_allclose(A @ B.T, steps.weights[-1], rtol=1e-9, atol=1e-12)


def test_a_two_cycle_is_at_rest_for_the_flow_of_finite_amplitude():
    problem = engram.on_sphere(0, 6, 2, 2)
    best = loss_minimiser(problem).weights
    rate = 1.3 * 2 / float(memory.sharpness(problem, best))
    run = engram.simulate(problem, GradientDescent(rate, 2000), space="weights", record=["weights"])
    last, before, earlier = (run.weights.values[k] for k in (-1, -2, -3))
    np.testing.assert_allclose(last, earlier, atol=1e-10)  # it ends on a cycle of period two
    centre, _ = flow(MemorySystem(problem), best, rate, 300, substeps=4, amplitude="finite")
    np.testing.assert_allclose(centre.state[-1], (last + before) / 2, atol=1e-7)
    assert centre.variance[-1] == pytest.approx(((last - before) ** 2).sum() / 4, rel=1e-7)


@in_double
def test_no_part_is_sharper_than_the_whole():
    system = FactoredSystem(engram.on_sphere(1, 12, 3, 3), 2, start_size=1.0)
    state = system.draw_start(0.5, 0)
    parts = system.part_sharpness(state)
    assert set(parts) == {"A", "B"}
    assert max(map(float, parts.values())) <= float(system.sharpness(state)) * (1 + 1e-9)
    # The loss is convex in either factor, and that of W seen through the other.
    assert min(map(float, parts.values())) > 0
