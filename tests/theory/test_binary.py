"""Two classes, orthogonal inputs: the formulas against their own equations, and against plain recursion."""

import jax
import numpy as np
import pytest

import engram
from engram._checks import InputError
from engram.theory import HypothesisError, binary, printed

X = np.geomspace(1e-3, 1e4, 29)  # learning rate times rate


def descend(x, steps, start=0.0):
    """m <- m + x / (1 + e^m), written out."""
    m, path = np.full_like(x, start), []
    for _ in range(steps + 1):
        path.append(m)
        m = m + x * np.exp(-np.logaddexp(0.0, m))
    return np.array(path)


@pytest.mark.parametrize("start", [-30.0, 0.0, 5.0])
def test_flow_margin_solves_its_equation(start):
    times = np.concatenate([[0.0], np.geomspace(1e-6, 1e12, 60)])
    m = binary.flow_margin(times, 0.7, start)
    s = 0.7 * times + start + np.exp(start)
    assert m + np.exp(m) == pytest.approx(s, rel=1e-13, abs=1e-13)
    assert m[0] == pytest.approx(start, abs=1e-13)
    assert (np.diff(m) > 0).all()


def test_flow_is_the_expansion_about_its_origin():
    times = np.geomspace(1.0, 1e9, 20)
    s = 0.3 * (times - binary.flow_origin(0.3, 2.0))
    m = np.log(s) - binary.flow_correction(s)
    assert m == pytest.approx(binary.flow_margin(times, 0.3, 2.0), rel=1e-12)


def test_correction_bounds_are_tight():
    s = 1 + np.geomspace(1e-6, 1e12, 2000)
    low, high = binary.flow_correction_bounds(s)
    h = binary.flow_correction(s)
    assert (h >= low * (1 - 1e-9)).all()
    assert (h <= high).all()
    assert (h / high).max() == pytest.approx(1.0, abs=1e-4)
    assert (low / h)[0] == pytest.approx(1.0, abs=1e-5)


def test_descent_bounds_enclose_the_recursion():
    m = descend(X, 2000)
    t = np.arange(2001)[:, None]
    assert (m >= binary.descent_margin_bound(t, X[None], 1.0) - 1e-12 * (1 + m)).all()
    upper = binary.descent_margin_upper_bound(t[1:], X[None], 1.0)
    assert (m[1:] <= upper + 1e-12 * (1 + m[1:])).all()
    assert (m >= binary.weak_log_bound(t, X[None], 1.0) - 1e-12).all()


def test_log_bounds_hold_from_their_thresholds_on_and_are_refused_below():
    m = descend(np.array([2.0, binary.LOG1P_THRESHOLD]), 5000)
    t = np.arange(1, 5001)
    assert (m[1:, 0] >= binary.log_bound(t, 2.0, 1.0)).all()
    assert (m[1:, 1] >= binary.log1p_bound(t, binary.LOG1P_THRESHOLD, 1.0) - 1e-12).all()
    with pytest.raises(HypothesisError, match=r"learning_rate \* rate >= 2 fails: got 1.9"):
        binary.log_bound(3, 1.9, 1.0)
    with pytest.raises(HypothesisError, match=r"2.51286 fails: got 2.5"):
        binary.log1p_bound(3, 2.5, 1.0)


@pytest.mark.parametrize(("x", "first"), [(0.1, 29), (1.0, 5), (1.8, 199)])
def test_the_printed_bound_fails_when_it_is_said_to(x, first):
    m = descend(np.array([x]), 500)[:, 0]
    bound = printed.descent_margin_bound(np.arange(1, 501), x, 1.0)
    assert 1 + np.argmax(m[1:] < bound) == first
    assert first <= binary.log_bound_failure(x, 1.0)


def test_expansion_constant_is_the_remainder():
    for x in (0.5, 2.0, 8.0):
        m = descend(np.array([x]), 20_000)[-1, 0]
        rest = np.exp(m) - x * 20_000 - (x / 2 - 1) * np.log(20_000)
        assert rest == pytest.approx(binary.expansion_constant(x, 1.0), abs=1e-3 * max(1, x))


def test_loss_bounds_order():
    problem = engram.orthonormal(3, 2, probs=[0.6, 0.3, 0.1])
    steps, eta = np.arange(1, 200), 0.5
    flow = binary.flow_loss(eta * steps, problem)
    bound = binary.descent_loss_bound(steps, problem, eta)
    c = binary.rates(problem)
    m = descend(eta * c, 199)[1:]
    loss = (np.logaddexp(0.0, -m) * problem.probs).sum(1)
    assert (loss <= flow * (1 + 1e-12)).all()
    assert (flow <= bound).all()


def test_hypotheses_are_named():
    with pytest.raises(HypothesisError, match=r"`inputs` are orthogonal fails: got 0.5"):
        binary.rates(engram.two_tokens(0.5, 0.75))
    with pytest.raises(HypothesisError, match="M = 2 fails: got 3"):
        binary.rates(engram.orthonormal(3, 3))
    with pytest.raises(HypothesisError, match="s >= 1 "):
        binary.flow_correction_bounds(0.5)
    with pytest.raises(InputError, match="`rate` must be finite"):
        binary.flow_margin(1.0, np.nan)
    with pytest.raises(InputError, match="`times` must be real"):
        binary.flow_margin("soon", 1.0)


def test_formulas_trace_in_double_precision_and_refuse_single(x64):
    slope = jax.grad(lambda t: binary.flow_margin(t, 1.0))(3.0)
    m = binary.flow_margin(3.0, 1.0)
    assert float(slope) == pytest.approx(1 / (1 + np.exp(m)), rel=1e-12)
    mapped = jax.vmap(lambda c: binary.flow_margin(2.0, c))(np.array([1.0, 2.0]))
    assert np.asarray(mapped) == pytest.approx(binary.flow_margin(2.0, [1.0, 2.0]), rel=1e-14)


@pytest.mark.usefixtures("x32")
def test_formulas_refuse_single_precision_traces():
    with pytest.raises(InputError, match="enable_x64"):
        jax.jit(lambda t: binary.flow_margin(t, 1.0))(3.0)


def test_weights_from_margins_have_those_margins_and_keep_the_rest():
    problem = engram.orthonormal(2, 2, dim=4, key=0)
    W0 = np.random.default_rng(0).normal(size=(4, 4))
    W = binary.weights_from_margins(problem, [1.5, -2.0], W0)
    u = problem.outputs[0] - problem.outputs[1]
    assert u @ W @ problem.inputs.T == pytest.approx([1.5, -2.0], abs=1e-12)
    change = W - W0
    assert np.linalg.matrix_rank(change, tol=1e-9) == 1
