"""Facts: pairs of a subject and a relation, and answers that tell the relation."""

import jax
import numpy as np
import pytest

import engram
from engram._checks import InputError
from engram.problem import facts

S, R, D = 6, 3, 2


@pytest.mark.parametrize("assign", ["balanced", "random"])
def test_answers_lie_in_the_set_of_their_relation(assign):
    answers = facts(1, S, R, D, 4, assign=assign).targets.reshape(S, R)
    np.testing.assert_array_equal(answers // D, np.tile(np.arange(R), (S, 1)))


def test_balanced_answers_are_as_frequent_but_for_one_and_each_relation_has_its_own_order():
    problem = facts(2, 40, 4, 7, 3)
    answers = problem.targets.reshape(40, 4)
    counts = np.bincount(answers.ravel(), minlength=28)
    assert set(counts) == {40 // 7, 40 // 7 + 1}
    within = answers % 7
    assert all(not np.array_equal(within[:, 0], within[:, r]) for r in range(1, 4))


@pytest.mark.parametrize("embeddings", ["sphere", "orthonormal"])
def test_inputs_are_sums_of_a_subject_and_a_relation(embeddings):
    E = facts(3, S, R, D, 9, embeddings=embeddings).inputs.reshape(S, R, 9)
    mixed = E - E[:1] - E[:, :1] + E[:1, :1]
    np.testing.assert_allclose(mixed, 0, atol=1e-15)
    if embeddings == "orthonormal":
        np.testing.assert_allclose(np.square(E).sum(2), 2, rtol=1e-14)


def test_who_knows_the_relation_alone_loses_the_entropy_of_the_answer():
    problem = facts(4, S, R, D, 9, embeddings="orthonormal")
    E, U = problem.inputs.reshape(S, R, 9), problem.outputs.reshape(R, D, 9)
    relations = E.mean(0) - E.mean((0, 1))  # e_r but for a part that all have
    W = 200 * np.einsum("rdk,rj->kj", U, relations)
    # Of the other relations' answers 200 (1/3 + 2/3) nats are left.
    assert float(engram.memory.loss(problem, W)) == pytest.approx(np.log(D), rel=1e-12)


def test_subjects_follow_zipfs_law_and_relations_are_uniform():
    probs = facts(0, 4, 2, 2, 3, exponent=1.0).probs.reshape(4, 2)
    np.testing.assert_allclose(probs[:, 0], probs[:, 1], rtol=1e-15)
    np.testing.assert_allclose(probs[0] / probs[3], 4, rtol=1e-14)
    assert probs.sum() == pytest.approx(1, abs=1e-15)


def test_a_traced_seed_draws_the_same():
    def arrays(seed):
        problem = facts(jax.random.key(seed), S, R, D, 5)
        return problem.inputs, problem.outputs, problem.targets

    with jax.enable_x64(True):
        traced = jax.jit(arrays)(7)
    for mine, other in zip(traced, arrays(7), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-14)


def test_a_table_of_a_spec_makes_it():
    table = {"family": "facts", "subjects": S, "relations": R, "answers": D, "dim": 5, "seed": 3}
    problem = engram.registry.make("problem", table)
    np.testing.assert_array_equal(problem.targets, facts(3, S, R, D, 5).targets)
    assert problem.names[R] == "s1 r0"
    assert problem.class_names[-1] == "r2 a1"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"relations": 1, "answers": 1}, "at least 2"),
        ({"assign": "even"}, "balanced"),
        ({"embeddings": "orthonormal", "dim": 8}, "`dim` must be at least"),
        ({"subjects": 0}, "subjects"),
        ({"subjects": 10**9, "relations": 10**6}, "GiB"),
    ],
)
def test_wrong_arguments_are_refused_in_words(wrong, words):
    with pytest.raises(InputError, match=words):
        facts(**{"key": 0, "subjects": S, "relations": R, "answers": D, "dim": 9} | wrong)
