"""Symmetries, convexity, blocks: what must hold whatever the numbers are."""

import numpy as np
import pytest

import cases
import engram
from engram import memory, particles


@pytest.fixture(params=cases.PROBLEMS, ids=str)
def problem(request):
    return cases.PROBLEMS[request.param]


def test_scores_are_inner_products(problem):
    W = cases.weights(problem)
    E, U = problem.inputs, problem.outputs
    for x in range(problem.num_tokens):
        for y in range(problem.num_classes):
            assert memory.scores(problem, W)[x, y] == pytest.approx(U[y] @ W @ E[x], abs=1e-12)


def test_probabilities_sum_to_one_and_give_the_losses(problem):
    W = cases.weights(problem)
    q = memory.recall_probs(problem, W)
    np.testing.assert_allclose(q.sum(axis=1), 1, rtol=1e-14)
    rows = np.arange(problem.num_tokens)
    expected = (
        -(problem.targets * np.log(q)).sum(axis=1)
        if problem.is_noisy
        else -np.log(q[rows, problem.targets])
    )
    np.testing.assert_allclose(memory.token_losses(problem, W), expected, rtol=1e-12)
    assert memory.loss(problem, W) == pytest.approx(problem.probs @ expected, rel=1e-12)


def test_permuting_tokens_permutes_everything(problem):
    rng = np.random.default_rng(1)
    W = cases.weights(problem)
    x, y = rng.permutation(problem.num_tokens), rng.permutation(problem.num_classes)
    place = np.argsort(y)
    targets = problem.targets[x][:, y] if problem.is_noisy else place[problem.targets[x]]
    shuffled = engram.Problem(problem.inputs[x], problem.outputs[y], problem.probs[x], targets)
    assert memory.loss(shuffled, W) == pytest.approx(memory.loss(problem, W), rel=1e-13)
    np.testing.assert_allclose(memory.grad(shuffled, W), memory.grad(problem, W), atol=1e-14)
    np.testing.assert_allclose(
        memory.margins(shuffled, W), memory.margins(problem, W)[x], atol=1e-13
    )


def test_moving_all_outputs_together_changes_no_loss(problem):
    # It adds the same number to all scores of a token.
    W = cases.weights(problem)
    moved = engram.Problem(problem.inputs, problem.outputs + 3.0, problem.probs, problem.targets)
    assert memory.loss(moved, W) == pytest.approx(memory.loss(problem, W), rel=1e-11)
    np.testing.assert_allclose(memory.grad(moved, W), memory.grad(problem, W), atol=1e-12)


def test_rotations_act_on_both_sides(problem):
    rng = np.random.default_rng(2)
    W = cases.weights(problem)
    Q, R = (np.linalg.qr(rng.standard_normal((size, size)))[0] for size in W.shape)
    turned = engram.Problem(
        problem.inputs @ R.T, problem.outputs @ Q.T, problem.probs, problem.targets
    )
    assert memory.loss(turned, Q @ W @ R.T) == pytest.approx(memory.loss(problem, W), rel=1e-12)
    np.testing.assert_allclose(
        memory.grad(turned, Q @ W @ R.T), Q @ memory.grad(problem, W) @ R.T, atol=1e-13
    )
    np.testing.assert_allclose(
        memory.spectrum(turned, Q @ W @ R.T), memory.spectrum(problem, W), atol=1e-12
    )


def test_the_loss_is_convex(problem):
    for seed, scale in enumerate((0.0, 1.0, 10.0)):
        values = memory.spectrum(problem, cases.weights(problem, scale, seed))
        assert values.min() >= -1e-14 * max(values.max(), 1)
    A, B = cases.weights(problem, 2.0, 3), cases.weights(problem, 2.0, 4)
    middle = memory.loss(problem, (A + B) / 2)
    assert middle <= (memory.loss(problem, A) + memory.loss(problem, B)) / 2 + 1e-14


def test_the_gradient_is_the_slope(problem):
    W, V = cases.weights(problem), cases.weights(problem, seed=1)
    h = 1e-5  # central differences: h^2 truncation and eps / h rounding, both near 1e-10
    slope = (memory.loss(problem, W + h * V) - memory.loss(problem, W - h * V)) / (2 * h)
    size = np.linalg.norm(V) ** 3
    assert np.vdot(memory.grad(problem, W), V) == pytest.approx(slope, abs=1e-9 * max(1, size))


# Blocks of one token, blocks that fill the tokens exactly, and blocks that leave some over.
@pytest.mark.parametrize(
    ("name", "block_size"),
    [
        ("sphere, d < N < M", 1),
        ("sphere, d < N < M", 3),
        ("sphere, d < N < M", 4),
        ("noisy targets", 4),
    ],
)
def test_blocks_change_nothing_but_rounding(name, block_size):
    problem = cases.PROBLEMS[name]
    W = cases.weights(problem)
    for quantity in ("loss", "grad", "token_losses", "error_rate", "margins", "predict"):
        fn = getattr(memory, quantity)
        np.testing.assert_allclose(
            fn(problem, W, block_size=block_size), fn(problem, W), rtol=1e-12, atol=1e-14
        )
    V = cases.weights(problem, seed=1)
    np.testing.assert_allclose(
        memory.hvp(problem, W, V, block_size=block_size), memory.hvp(problem, W, V), atol=1e-14
    )


def test_ties_go_to_the_lowest_index():
    problem = engram.two_tokens(0.5, 0.75)
    np.testing.assert_array_equal(memory.predict(problem, np.zeros((2, 2))), [0, 0])
    assert memory.error_rate(problem, np.zeros((2, 2))) == 0.25
    np.testing.assert_array_equal(memory.margins(problem, np.zeros((2, 2))), [0, 0])


def test_a_token_that_never_comes_has_a_margin_and_no_force():
    problem = cases.PROBLEMS["a token that never comes"]
    W = cases.weights(problem)
    come = [0, 2, 3, 4]
    without = engram.Problem(
        problem.inputs[come], problem.outputs, problem.probs[come], problem.targets[come]
    )
    assert memory.loss(problem, W) == pytest.approx(memory.loss(without, W), rel=1e-14)
    np.testing.assert_allclose(memory.grad(problem, W), memory.grad(without, W), atol=1e-16)
    assert memory.margins(problem, W).shape == (5,)


def test_one_hot_targets_equal_certain_targets():
    problem = cases.PROBLEMS["sphere, d < N < M"]
    table = np.eye(problem.num_classes)[problem.targets]
    noisy = engram.Problem(problem.inputs, problem.outputs, problem.probs, table)
    for scale in (1.0, 300.0):
        W = cases.weights(problem, scale)
        for name in ("loss", "grad", "token_losses", "error_rate", "margins"):
            np.testing.assert_allclose(
                getattr(memory, name)(noisy, W), getattr(memory, name)(problem, W), rtol=1e-12
            )


def test_layer_norm_ignores_the_size_of_the_weights():
    problem = cases.PROBLEMS["sphere, d > N"]
    W = cases.weights(problem)
    value = memory.loss(problem, W, layer_norm=True)
    assert memory.loss(problem, 7 * W, layer_norm=True) == pytest.approx(value, rel=1e-13)
    # so the gradient is orthogonal to W
    assert np.vdot(W, memory.grad(problem, W, layer_norm=True)) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize(
    ("W", "message"),
    [
        (
            np.zeros((2, 3)),
            r"`W` must have shape \(k, d\) = \(2, 2\), or \(T, k, d\) for a stack, got \(2, 3\)",
        ),
        (np.zeros((2, 2), complex), r"`W` must hold real numbers, got dtype complex128"),
    ],
)
def test_unusable_weights_are_refused(W, message):
    with pytest.raises(ValueError, match=message):
        memory.loss(engram.two_tokens(0.5, 0.75), W)


def test_other_unusable_arguments_are_refused():
    problem, W = engram.two_tokens(0.5, 0.75), np.zeros((2, 2))
    with pytest.raises(
        ValueError, match=r"`V` must have shape \(k, d\) = \(2, 2\), or \(T, k, d\).*, got \(3, 3\)"
    ):
        memory.hvp(problem, W, V=np.eye(3))
    with pytest.raises(
        ValueError, match="`problem` must be a Problem, got ndarray. It comes first"
    ):
        memory.loss(W, problem)
    with pytest.raises(ValueError, match="`block_size` must be at least 1, got 0"):
        memory.loss(problem, W, block_size=0)
    with pytest.raises(ValueError, match=r"`block_size` must be a whole number, got 2.5"):
        memory.loss(problem, W, block_size=2.5)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_layer_norm_neither_underflows_nor_overflows(scale):
    problem = cases.PROBLEMS["sphere, d > N"]
    W = cases.weights(problem)
    value = memory.loss(problem, W, layer_norm=True)
    assert memory.loss(problem, scale * W, layer_norm=True) == pytest.approx(value, rel=1e-13)
    gradient = scale * memory.grad(problem, scale * W, layer_norm=True)
    np.testing.assert_allclose(gradient, memory.grad(problem, W, layer_norm=True), rtol=1e-11)


def test_layer_norm_ignores_a_token_that_never_comes():
    problem = engram.Problem(np.eye(2), np.eye(2), [1.0, 0.0], [0, 1])
    W = np.diag([1.0, 0.0])  # maps the second token to zero
    alone = engram.Problem(np.eye(2)[:1], np.eye(2), [1.0], [0])
    for name in ("loss", "grad", "sharpness"):
        fn = getattr(memory, name)
        np.testing.assert_allclose(
            fn(problem, W, layer_norm=True), fn(alone, W, layer_norm=True), atol=1e-15
        )


@pytest.mark.parametrize("doubt", [1e-3, 1e-8, 1e-12])
def test_nearly_certain_targets_keep_their_digits(doubt):
    table = np.array([[1 - doubt, doubt / 2, doubt / 2]])
    problem = engram.Problem(np.eye(1, 3), np.eye(3), [1.0], table)
    W = np.zeros((3, 3))
    W[0, 0] = 30.0
    q = np.exp(-30.0) / (1 + 2 * np.exp(-30.0))
    expected = 2 * (doubt / 2 - q)  # the others' share asked for, less what they get
    assert memory.grad(problem, W)[0, 0] == pytest.approx(expected, rel=1e-12, abs=0)
    w = particles.weights_to_scores(problem, W)
    assert particles.score_grad(problem, w)[0, 0] == pytest.approx(expected, rel=1e-11, abs=0)
