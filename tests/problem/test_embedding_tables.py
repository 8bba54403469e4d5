"""Problems from a model's tables."""

import numpy as np
import pytest

import engram
from engram import Problem

E, U = np.eye(3, 4), np.eye(3, 2)


def test_counts_become_frequencies_and_targets():
    pairs = np.array([[2, 1, 1], [0, 4, 0], [0, 0, 0]])
    problem = Problem.from_embeddings(E, U, counts=pairs, names=["a", "b", "c"])
    np.testing.assert_allclose(problem.probs, [0.5, 0.5, 0])
    np.testing.assert_allclose(problem.targets, [[0.5, 0.25, 0.25], [0, 1, 0], [1 / 3] * 3])
    assert problem.class_names == ("a", "b", "c")
    likeliest = Problem.from_embeddings(E, U, pairs.argmax(axis=1), counts=pairs)
    assert likeliest.targets.tolist() == [0, 1, 0]
    np.testing.assert_allclose(likeliest.probs, [0.5, 0.5, 0])


def test_without_counts_tokens_are_equally_frequent_and_their_own_classes():
    problem = Problem.from_embeddings(E, U)
    assert problem.targets.tolist() == [0, 1, 2]
    np.testing.assert_allclose(problem.probs, [1 / 3] * 3)
    counted = Problem.from_embeddings(E, U, counts=[1, 2, 1])
    np.testing.assert_allclose(counted.probs, [0.25, 0.5, 0.25])


def test_pairs_of_a_text_are_counted():
    counts = engram.problem.count_pairs([0, 1, 0, 1, 2], 3)
    assert counts.tolist() == [[0, 2, 0], [1, 0, 1], [0, 0, 0]]
    assert engram.problem.count_pairs([[0, 1], [2, 1]], 3, 2).tolist() == [[0, 1], [0, 0], [0, 1]]
    for bad in ([0], [0, 3], [-1, 0], [0.5, 1.0]):
        with pytest.raises(engram.InputError, match="`tokens` must"):
            engram.problem.count_pairs(bad, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"counts": [1, 2]}, r"`counts` must have shape"),
        ({"counts": [1, -2, 1]}, "`counts` must not be negative"),
        ({"counts": [0, 0, 0]}, "not all zero"),
        ({"counts": [1, np.nan, 1]}, "`counts` must be finite"),
        ({"counts": np.ones((3, 4))}, r"`counts` must have shape"),
        ({"outputs": np.eye(2)}, "`targets` must be given"),
    ],
)
def test_bad_counts_are_refused(given, message):
    with pytest.raises(engram.InputError, match=message):
        Problem.from_embeddings(**({"inputs": E, "outputs": U} | given))
