"""What a flow refuses before it runs, flows of states that are no matrix, and the method that solves them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import engram
from engram import dynamics
from engram._checks import InputError
from engram.dynamics import _adaptive
from engram.system import AbstractSystem, Look


class Springs(AbstractSystem):
    """Two springs of unlike strength, as a transformer has several matrices: L = a^2 / 2 + 3 |b|^2 / 2."""

    law: jax.Array

    def look(self, state, law=None):
        return Look((jnp.square(state["a"]) + 3 * jnp.square(state["b"]).sum()) / 2)

    def grad(self, state, law=None, look=None):
        return {"a": state["a"], "b": 3 * state["b"]}


@pytest.mark.usefixtures("x64")
def test_flows_move_states_with_several_parts():
    start = {"a": jnp.asarray(2.0), "b": jnp.asarray([1.0, -1.0])}
    times = np.array([0.0, 0.5, 2.0])
    flow = engram.GradientFlow(times, solver="explicit")
    found = dynamics.run(
        Springs(jnp.ones(1)), flow, start, at=times, record=lambda state: state
    ).records
    np.testing.assert_allclose(found["a"], 2 * np.exp(-times), rtol=1e-9)
    decay = np.exp(-3 * times)
    np.testing.assert_allclose(found["b"], np.stack([decay, -decay], axis=1), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rtol": 0.0}, "`rtol` must be positive and finite, got 0.0"),
        ({"rtol": float("nan")}, "`rtol` must be positive and finite, got nan"),
        ({"atol": -1e-9}, "`atol` must be positive and finite, got -1e-09"),
        ({"atol": "small"}, "`atol` must be a number, got 'small'"),
        ({"max_steps": 0}, "`max_steps` must be at least 1, got 0"),
        ({"max_steps": 10**30}, r"`max_steps` must be below 2\*\*31"),
    ],
)
def test_settings_of_the_solver_are_checked(options, said):
    with pytest.raises(InputError, match=said):
        engram.GradientFlow([0.0, 1.0], **options)


def test_the_explicit_method_has_order_eight():
    A, b, error, c = _adaptive._TABLEAU
    np.testing.assert_allclose(A.sum(axis=1), c, rtol=1e-14)
    linear = np.ones(len(c))
    for order in range(1, 9):
        np.testing.assert_allclose(b @ c ** (order - 1), 1 / order, rtol=1e-13)
        np.testing.assert_allclose(b @ linear, 1 / math.factorial(order), rtol=1e-12)
        # The second solution has order 7: their difference sees the eighth derivative, and none before.
        assert (abs(error @ linear) < 1e-15) == (order < 8)
        linear = A @ linear


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("solver", ["explicit", "implicit"])
def test_programs_of_flows_can_be_kept_in_a_cache(solver):
    """JAX keeps a program only if it never calls back to the host."""
    flow = engram.GradientFlow([0.0, 1.0], solver=solver)
    start = {"a": jnp.asarray(2.0), "b": jnp.asarray([1.0, -1.0])}
    solve = lambda start: flow.solve(Springs(jnp.ones(1)), start, flow.times, lambda state: state)
    assert "callback" not in str(jax.make_jaxpr(solve)(start))


@pytest.mark.usefixtures("x64")
def test_a_flow_that_is_not_finite_ends_and_says_so():
    start = {"a": jnp.asarray(jnp.inf), "b": jnp.asarray([1.0, -1.0])}
    flow = engram.GradientFlow([0.0, 1.0], solver="explicit")
    path = jax.jit(
        lambda start: flow.solve(Springs(jnp.ones(1)), start, flow.times, lambda state: state)
    )(start)
    assert path.status == dynamics.Status.NOT_FINITE
    assert path.num_steps < 100
    assert path.num_recorded == 1
    assert np.isnan(path.records["b"][1]).all()
