"""The limit of any separable problem: the closed forms are its special cases, and descent goes there."""

import numpy as np
import pytest

import cases
import engram
from engram.capacity import max_margin_multipliers
from engram.theory import HypothesisError, binary, interference, multiclass, separable


def rows_problem(rows, probs):
    """Two classes at distance 1 and every token in the first: the rows are the z of the theorem."""
    return engram.Problem(
        np.asarray(rows, float), np.array([[1.0], [0.0]]), probs, np.zeros(len(rows), int)
    )


def answers(function, problem, *arguments):
    return function(problem, max_margin_multipliers(problem), *arguments)


def support(table):
    return np.asarray(table)[np.isfinite(table)]


@pytest.mark.parametrize("alpha", [-0.9, -0.3, 0.0, 0.6, 0.999])
def test_two_tokens_are_a_special_case(alpha):
    problem = engram.two_tokens(alpha, 0.75)
    a, late = max_margin_multipliers(problem), 1e9
    assert a.sum() == pytest.approx(interference.max_margin_norm(alpha) ** 2, rel=1e-9)
    assert separable.limit_loss_constant(problem, a) == pytest.approx(a.sum(), rel=1e-9)
    margins = support(separable.margin_asymptote(late, problem, a))
    half_gap, half_sum = interference.halves(*margins)
    assert half_gap == pytest.approx(interference.half_gap_limit(alpha, 0.75), abs=1e-8)
    assert half_sum == pytest.approx(interference.half_sum_asymptote(late, alpha, 0.75), rel=1e-9)
    kappa = (1 + alpha) / (1 - alpha)
    assert separable.limit(problem, a).eigenvalues == pytest.approx(sorted([1, kappa]), rel=1e-7)
    exponent = separable.rate(problem, a).exponent
    assert exponent == pytest.approx(interference.half_gap_exponent(alpha), rel=1e-9)
    if alpha == 0:  # where the eigenvalue 1 is double, the half-gap has a logarithm as well
        half_gap, _ = interference.halves(*support(separable.rate(problem, a).logarithms))
        predicted = interference.half_gap_deviation_asymptote(late, 0.0, 0.75)
        assert half_gap * np.log(late) / late == pytest.approx(predicted, rel=1e-9)


def test_orthogonal_inputs_with_two_classes_are_a_special_case():
    inputs = np.diag([1.0, 2.0, 0.5])
    problem = engram.Problem(inputs, np.eye(2, 3), [0.5, 0.3, 0.2], [0, 1, 0])
    c, late, eta, steps = binary.rates(problem), 1e9, 3.0, 10**6
    total = (problem.probs / c).sum()
    assert answers(separable.limit_loss_constant, problem) == pytest.approx(total, rel=1e-12)
    offsets = support(answers(separable.limit, problem).offsets)
    assert offsets == pytest.approx(binary.flow_margin(late, c) - np.log(late), abs=1e-6)
    logarithms = support(answers(separable.rate, problem, eta).logarithms)
    assert logarithms == pytest.approx((eta * c / 2 - 1) / c, rel=1e-12)
    b = answers(separable.rate, problem).loss_logarithm
    loss = total / late * (1 + b * np.log(late) / late)
    assert loss == pytest.approx(binary.flow_loss(late, problem), rel=30 / late)
    # e^m = x t + (x/2 - 1) log t + C + o(1), the expansion of descent.
    x, t = eta * c[0], steps
    predicted = np.log(x * t) + (x / 2 - 1) * np.log(t) / (x * t)
    found = np.log(eta * t) + offsets[0] + logarithms[0] * np.log(t) / (eta * t)
    assert found == pytest.approx(predicted, abs=1e-12)


def test_orthonormal_classes_are_a_special_case():
    problem = engram.orthonormal(3, 4, probs=[0.5, 0.3, 0.2], key=0)
    limit, late = answers(separable.limit, problem), 1e12
    assert limit.weights == pytest.approx(multiclass.limit_direction(problem), abs=1e-12)
    predicted = multiclass.flow_margin(late, multiclass.rates(problem), 4)
    found = answers(lambda q, a: separable.margin_asymptote(late, q, a), problem)
    assert support(found).reshape(3, 3) == pytest.approx(
        np.repeat(predicted[:, None], 3, 1), abs=1e-9
    )
    assert limit.eigenvalues == pytest.approx([1 / 4] * 6 + [1] * 3, rel=1e-12)
    rate = answers(separable.rate, problem)
    assert (rate.exponent, rate.set_by) == (pytest.approx(1 / 4), "eigenvalue")


@pytest.mark.parametrize("name", ["sphere, d > N", "k < d", "a token that never comes"])
def test_the_limit_has_the_properties_that_define_it(name):
    problem = cases.PROBLEMS[name]
    limit = answers(separable.limit, problem)
    a, x = limit.multipliers, np.nonzero(limit.multipliers)[0]
    wrong = np.nonzero(a)[1]
    gaps = problem.outputs[problem.labels[x]] - problem.outputs[wrong]
    z = (gaps[:, :, None] * problem.inputs[x][:, None, :]).reshape(len(x), -1)
    W = limit.weights.ravel()
    assert a[a > 0] @ z == pytest.approx(W, abs=1e-10)
    assert z @ W == pytest.approx(np.ones(len(z)), abs=1e-10)
    A = (z.T * a[a > 0]) @ z
    np.testing.assert_allclose(A @ W, W, atol=1e-9)
    slow = limit.slowest.ravel()
    assert A @ slow == pytest.approx(limit.eigenvalues[0] * slow, abs=1e-9)
    assert np.linalg.norm(slow) == pytest.approx(1, abs=1e-9)
    # log(a / p) lies in the span of the margins, however dependent they are.
    goal = np.log(a[a > 0] / problem.probs[x])
    rho = np.linalg.lstsq(z, goal, rcond=1e-10)[0]
    assert z @ rho == pytest.approx(goal, abs=1e-7)


def test_any_multipliers_give_the_same_limit():
    problem = rows_problem([[1, 1], [1, -1], [1, 0.5], [1.5, 3]], [0.4, 0.3, 0.2, 0.1])
    one, other = np.zeros((2, 4, 2))
    one[:, 1], other[:, 1] = [0.5, 0.5, 0, 0], [0, 1 / 3, 2 / 3, 0]
    first, second = separable.limit(problem, one), separable.limit(problem, other)
    for ours, theirs in zip(first, second, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-12, nan_ok=True)
    assert (first.multipliers[:3, 1] > 0.1).all()


def test_parallel_tokens_share_a_multiplier_by_frequency():
    problem = rows_problem([[1, 0], [1, 0]], [0.7, 0.3])
    assert answers(separable.limit, problem).multipliers[:, 1] == pytest.approx([0.7, 0.3])


def test_a_multiplier_that_is_zero_is_excluded_and_has_no_rate():
    problem = rows_problem([[1, 0], [1, 1], [2, 3]], [0.5, 0.3, 0.2])
    limit = answers(separable.limit, problem)
    assert limit.excluded.tolist() == [[False, False], [False, True], [False, False]]
    assert limit.multipliers[:, 1].tolist() == pytest.approx([1, 0, 0])
    assert limit.offsets[1, 1] == np.inf
    assert np.isnan(limit.offsets[2, 1])
    with pytest.raises(HypothesisError, match="token 1, class 1: .* like 1/log"):
        answers(separable.rate, problem)


@pytest.mark.parametrize("length", [1e-6, 1e6])
def test_a_long_input_has_a_small_multiplier_and_is_not_excluded(length):
    problem = engram.Problem(np.diag([1.0, length]), np.eye(2), [0.5, 0.5], [0, 1])
    limit = separable.limit(problem, np.array([[0.0, 0.5], [0.5 / length**2, 0.0]]))
    assert not limit.excluded.any()
    assert support(limit.multipliers[[0, 1], [1, 0]]) == pytest.approx([0.5, 0.5 / length**2])
    # Orthogonal tokens change one another in nothing: every eigenvalue is that of the clock.
    assert limit.eigenvalues == pytest.approx([1, 1])
    assert limit.offsets[[0, 1], [1, 0]] == pytest.approx(np.log([1, length**2]))


def test_what_is_least_sets_the_rate():
    even = answers(separable.rate, rows_problem([[1, 0.5], [1, -0.5]], [0.7, 0.3]))
    assert (even.exponent, even.loss_exponent) == pytest.approx((0.25, 0.5))
    assert even.set_by == "eigenvalue"
    slack = answers(separable.rate, rows_problem([[1, 0], [1.3, 0.4]], [0.7, 0.3]))
    assert (slack.exponent, slack.loss_exponent) == pytest.approx((0.3, 0.3))
    assert slack.set_by == "slack"
    clock = answers(separable.rate, rows_problem([[1, 2], [1, -2]], [0.7, 0.3]))
    assert (clock.exponent, clock.loss_exponent, clock.set_by) == (1, 1, "clock")


def test_descent_has_the_logarithm_but_for_one_learning_rate():
    problem = rows_problem([[1, 1.5], [1, -1.2], [2.6, 0]], [0.6, 0.3, 0.1])
    a = max_margin_multipliers(problem)
    z, p = np.asarray(problem.inputs), np.asarray(problem.probs)
    free = 2 * separable.rate(problem, a).loss_logarithm
    assert separable.rate(problem, a, free).loss_logarithm == pytest.approx(0, abs=1e-14)
    for eta in (1.0, free):
        v, excess = np.zeros(2), {}
        for step in range(40_001):
            m = z @ v
            if step in (10_000, 40_000):
                t = eta * step
                excess[t] = t * (t * p @ np.log1p(np.exp(-m)) / a.sum() - 1)
            v = v + eta * (p / (1 + np.exp(m))) @ z
        (first, low), (last, high) = excess.items()
        slope = (high - low) / np.log(last / first)
        predicted = separable.rate(problem, a, eta).loss_logarithm
        assert slope == pytest.approx(predicted, abs=0.01 * free)


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ([[0, 1, 1]], r"must have shape \(2, 2\), got \(1, 3\)"),
        ([[0, -1], [1, 0]], "multipliers >= 0 fails: got -1"),
        ([[1, 1], [1, 0]], "only wrong classes .* fails: got 1"),
        ([[0, 0.4], [0.4, 0]], "all margins of sum a z are at least 1 fails: got 0.8"),
        ([[0, 0.5], [0.6, 0]], "margins with a multiplier are 1 fails: got 1.2"),
    ],
)
def test_invalid_multipliers_are_refused(table, match):
    with pytest.raises(ValueError, match=match):
        separable.limit(engram.two_tokens(0.0, 0.75), table)


def test_a_problem_that_is_not_separable_has_no_limit():
    problem = cases.PROBLEMS["not separable"]
    with pytest.raises(ValueError, match="must be separable"):
        max_margin_multipliers(problem)
    refutation = engram.capacity.separate(problem).multipliers
    with pytest.raises(HypothesisError, match="a problem that is not separable has none"):
        separable.limit(problem, refutation)


def test_noisy_targets_are_refused():
    with pytest.raises(HypothesisError, match="targets are certain"):
        separable.limit(cases.PROBLEMS["noisy targets"], np.zeros((6, 4)))
