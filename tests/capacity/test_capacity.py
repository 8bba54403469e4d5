"""Separability, the fewest errors, the loss's minimiser: each against another account of it."""

import itertools

import numpy as np
import pytest

import engram
import references
from engram import capacity, memory, planes
from engram._checks import InputError
from engram.capacity import _constraints, _least_error, _separability


def draw(rng, N, M, d):
    return engram.Problem(
        rng.normal(size=(N, d)),
        rng.normal(size=(M, d)),
        rng.dirichlet(np.ones(N)),
        rng.integers(0, M, N),
    )


def test_separability_comes_with_a_certificate():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(40):
        problem = draw(rng, 5, 3, 2)
        found = capacity.separate(problem)
        seen.add(found.is_separable)
        assert found.is_separable == capacity.is_separable(problem)
        check_certificate(problem, found)
    assert seen == {True, False}


def check_certificate(problem, found):
    """A witness recalls everything, with the margin it says; multipliers are Gordan's alternative."""
    if found.is_separable:
        assert memory.margins(problem, found.weights).min() == pytest.approx(found.margin, rel=1e-6)
        assert found.margin > 0
        return
    gaps = problem.outputs[problem.targets][:, None] - problem.outputs[None]
    total = np.einsum("xy,xyi,xj->ij", found.multipliers, gaps, problem.inputs)
    assert found.multipliers.min() >= 0
    assert found.multipliers.sum() == pytest.approx(1)
    assert np.abs(total).max() < 1e-8


@pytest.mark.parametrize("steps", [0, 3000])
def test_large_problems_are_decided_as_small_ones_are(monkeypatch, steps):
    rng, seen = np.random.default_rng(7), set()
    for _ in range(20):
        problem = draw(rng, 5, 4, 2)
        decided = capacity.is_separable(problem)
        with monkeypatch.context() as patch:
            patch.setattr(_separability, "_AT_ONCE", -1)
            patch.setattr(_separability, "_DESCENT_STEPS", steps)
            found = capacity.separate(problem)
        assert found.is_separable == decided
        check_certificate(problem, found)
        seen.add(decided)
    assert seen == {True, False}


def test_many_tokens_and_classes_are_decided_by_a_witness(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a linear program was solved")

    monkeypatch.setattr(_separability, "linear_program", refuse)
    problem = engram.on_sphere(0, 60, 60, 32, targets="identity")
    found = capacity.separate(problem)
    check_certificate(problem, found)
    assert memory.error_rate(problem, found.weights) == 0


def test_the_time_limit_gives_an_honest_answer(monkeypatch):
    problem, calls = engram.on_sphere(0, 60, 60, 6, targets="identity"), []
    found = capacity.separate(problem, time_limit=1e-9, progress=lambda *call: calls.append(call))
    assert found == (None, None, 0.0, None, 0.0)
    assert calls[0][0] <= calls[0][1] == 60 * 59
    with pytest.raises(TimeoutError, match="not decided within 1e-09 s. Raise `time_limit`"):
        capacity.is_separable(problem, time_limit=1e-9)
    with pytest.raises(InputError, match="`time_limit` must be positive or None, got 0"):
        capacity.separate(problem, time_limit=0)


def test_separable_exactly_when_a_max_margin_direction_exists():
    rng = np.random.default_rng(1)
    for _ in range(20):
        problem = draw(rng, 4, 3, 2)
        if capacity.is_separable(problem):
            assert memory.error_rate(problem, capacity.max_margin(problem)) == 0
        else:
            with pytest.raises(InputError, match="separable"):
                capacity.max_margin(problem)


def by_brute_force(problem):
    """The least weight of tokens whose removal leaves a separable rest, over all subsets."""
    tokens = range(problem.num_tokens)
    best = 1.0
    for size in range(problem.num_tokens):
        for dropped in itertools.combinations(tokens, size):
            keep = [x for x in tokens if x not in dropped]
            equal = np.full(len(keep), 1 / len(keep))
            rest = engram.Problem(
                problem.inputs[keep], problem.outputs, equal, problem.targets[keep]
            )
            if capacity.is_separable(rest):
                best = min(best, problem.probs[list(dropped)].sum())
    return best


@pytest.mark.parametrize(("N", "M", "d"), [(5, 2, 2), (5, 3, 2), (6, 2, 3)])
def test_fewest_errors_are_those_of_all_subsets(N, M, d):
    rng = np.random.default_rng(2)
    for _ in range(3):
        problem = draw(rng, N, M, d)
        found = capacity.min_error(problem)
        assert found.is_exact
        assert found.error == pytest.approx(by_brute_force(problem), abs=1e-12)
        assert memory.error_rate(problem, found.weights) == pytest.approx(found.error, abs=1e-12)
        wrong = np.flatnonzero(memory.predict(problem, found.weights) != problem.targets)
        assert wrong.tolist() == found.forgotten.tolist()


def test_the_sweep_of_angles_agrees_with_branch_and_bound():
    rng = np.random.default_rng(3)
    for _ in range(20):
        problem = draw(rng, int(rng.integers(1, 10)), 2, 2)
        other = _least_error._branch(problem, _constraints.constraints(problem), 5000)
        assert capacity.min_error(problem).error == pytest.approx(other.error, abs=1e-12)


def test_of_the_best_sectors_the_widest_is_chosen():
    rng = np.random.default_rng(4)
    ties = 0
    for _ in range(20):
        inputs, targets = rng.normal(size=(5, 2)), rng.integers(0, 2, 5)
        problem = engram.Problem(inputs, np.eye(2), np.full(5, 0.2), targets)
        sectors = planes.error_regions(problem)
        widths = (sectors.end - sectors.begin).values
        best = np.flatnonzero(sectors.error.values < sectors.error.values.min() + 1e-9)
        ties += len(best) > 1
        chosen = best[widths[best].argmax()]
        middle = (sectors.begin + sectors.end).values[chosen] / 2
        gamma = np.array([1.0, -1.0]) @ capacity.min_error(problem).weights
        assert gamma @ [np.cos(middle), np.sin(middle)] == pytest.approx(np.linalg.norm(gamma))
    assert ties > 3


def test_a_margin_of_zero_is_forgotten():
    # The same token twice, with both classes, equally often: the loss is least at W = 0.
    result = capacity.calibration(engram.two_tokens(1.0, 0.5))
    assert result.forgotten.tolist() == [0, 1]
    assert (result.error, result.least.error) == (1, 0.5)


def test_opposite_tokens_lose_one_whatever_the_rounding():
    e = np.array([[np.cos(0.3), np.sin(0.3)]])
    problem = engram.Problem(np.concatenate([e, -e, 3 * e]), np.eye(2), [0.5, 0.3, 0.2], [0, 0, 0])
    assert capacity.min_error(problem).error == pytest.approx(0.3)


def test_a_search_cut_short_gives_bounds():
    problem = engram.on_sphere(0, 10, 10, 2, targets="identity")
    cut, whole = capacity.min_error(problem, max_programs=3), capacity.min_error(problem)
    assert whole.is_exact
    assert not cut.is_exact
    assert cut.bound <= whole.error <= cut.error
    assert memory.error_rate(problem, cut.weights) == pytest.approx(cut.error, abs=1e-12)


@pytest.mark.settings
def test_minimiser_has_no_gradient_and_no_better_neighbour():
    rng = np.random.default_rng(4)
    for _ in range(10):
        problem = draw(rng, 8, 3, 2)
        found = capacity.loss_minimiser(problem)
        if not found.exists:
            continue
        assert np.abs(memory.grad(problem, found.weights)).max() < 1e-12
        assert memory.loss(problem, found.weights) == pytest.approx(found.loss, rel=1e-13)
        for _ in range(5):
            near = found.weights + 1e-3 * rng.normal(size=(2, 2))
            assert memory.loss(problem, near) >= found.loss * (1 - 1e-14)


def test_minimiser_is_where_descent_ends():
    problem = engram.Problem(
        [[1.0, 0.0], [-0.8, 0.6], [-0.8, -0.6]], np.eye(2), [0.4, 0.3, 0.3], [0, 0, 0]
    )
    W = np.zeros((2, 2))
    for _ in range(400):
        W = W - memory.grad(problem, W)
    np.testing.assert_allclose(W, capacity.loss_minimiser(problem).weights, atol=1e-10)


def test_separable_problems_have_their_minimiser_at_infinity():
    problem = engram.two_tokens(0.6, 0.75)
    found = capacity.loss_minimiser(problem)
    assert not found.exists
    assert found.loss == 0
    W = capacity.max_margin(problem)
    np.testing.assert_allclose(found.direction, W / np.linalg.norm(W), atol=1e-6)


def test_what_the_direction_leaves_open_is_minimised():
    # Tokens 1 and 2 conflict on the first axis, token 3 is alone on the second.
    problem = engram.Problem(
        [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], np.eye(2), [0.5, 0.3, 0.2], [0, 0, 0]
    )
    found = capacity.loss_minimiser(problem)
    assert not found.exists
    entropy = -(0.5 * np.log(0.5 / 0.8) + 0.3 * np.log(0.3 / 0.8))
    assert found.loss == pytest.approx(entropy, rel=1e-12)
    m = memory.margins(problem, found.direction)
    assert m == pytest.approx([0, 0, m[2]], abs=1e-9)
    assert m[2] > 0
    far = memory.loss(problem, found.weights + 60 * found.direction)
    assert far == pytest.approx(entropy, rel=1e-12)
    result = capacity.calibration(problem)
    assert result.forgotten.tolist() == [1]
    assert result.excess == pytest.approx(0.0, abs=1e-12)


def test_the_most_frequent_token_may_be_forgotten():
    problem = engram.Problem(
        [[1.0, 0.0], [-0.8, 0.6], [-0.8, -0.6]], np.eye(2), [0.4, 0.3, 0.3], [0, 0, 0]
    )
    result = capacity.calibration(problem)
    assert result.forgotten.tolist() == [0]
    assert (result.error, result.least.error, result.excess) == pytest.approx((0.4, 0.3, 0.1))


def test_cover_counts_labellings():
    assert capacity.storage_probability([3, 4, 5, 8], 2) == pytest.approx(
        [0.75, 0.5, 0.3125, 0.0625]
    )
    assert capacity.storage_probability(2 * 7, 7) == pytest.approx(0.5)
    rng = np.random.default_rng(5)
    E = rng.normal(size=(5, 2))
    stored = [
        capacity.is_separable(engram.Problem(E, np.eye(2), np.full(5, 0.2), labels))
        for labels in itertools.product((0, 1), repeat=5)
    ]
    assert np.mean(stored) == capacity.storage_probability(
        5, 2
    )  # for every set in general position


def test_reference_landscapes_of_figure_4():
    cases = [case for case in references.load("fig4")["cases"] if "exact" in case]
    assert [case["seed"] for case in cases] == [39, 81]
    for case in cases:
        result, exact = capacity.calibration(references.problem_of(case)), case["exact"]
        assert result.excess == pytest.approx(exact["excess"], abs=1e-12)
        assert result.least.error == pytest.approx(exact["err01_min"], abs=1e-12)
        assert result.forgotten.tolist() == exact["misclassified_at_minimiser"]
        if exact["loss_min"] is not None:
            assert result.minimiser.loss == pytest.approx(exact["loss_min"], rel=1e-13)


def test_noisy_targets_are_refused():
    with pytest.raises(InputError, match="certain targets"):
        capacity.is_separable(
            engram.Problem(np.eye(2), np.eye(2), [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
        )


def test_what_is_forgotten_at_infinity_is_decided_class_by_class():
    inputs, outputs = [[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [[-1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    problem = engram.Problem(inputs, outputs, [0.1, 0.5, 0.4], [2, 1, 2])
    result = capacity.calibration(problem)
    W = result.minimiser.weights + 1e4 * result.minimiser.direction
    wrong = np.flatnonzero(memory.margins(problem, W) <= 0)
    assert result.forgotten.tolist() == wrong.tolist() == [0]
    assert result.excess == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("length", [1e-3, 1e-5, 1e-9])
def test_the_length_of_a_token_does_not_decide_separability(length):
    problem = engram.Problem([[1.0, 0.0], [0.0, length]], np.eye(2), [0.5, 0.5], [0, 1])
    assert capacity.is_separable(problem)
    assert capacity.min_error(problem).error == 0
    m = memory.margins(problem, capacity.max_margin(problem))
    assert m == pytest.approx([1.0, 1.0], rel=1e-5)


def test_cover_counts_large_numbers_and_refuses_fractions():
    assert capacity.storage_probability([1040, 2000], 520)[0] == pytest.approx(0.5)
    with pytest.raises(InputError, match="whole numbers"):
        capacity.storage_probability(2.5, 2)


def test_of_equally_frequent_tokens_the_first_is_kept_when_the_search_is_cut_short():
    probs = np.zeros(9)
    probs[[1, 8]] = 0.5
    problem = engram.Problem(np.ones((9, 3)), np.eye(3), probs, np.arange(9) // 3)
    found = capacity.min_error(problem, max_programs=1)
    assert found.forgotten.tolist() == [8]
