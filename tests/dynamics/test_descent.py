"""Descent is an optimizer times a sampling: each checked by itself, and both by users' own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import cases
import engram
from engram import dynamics as D
from engram import memory
from engram._checks import InputError

PROBLEM = cases.PROBLEMS["sphere, d > N"]
COUNTS = np.array([4, 1, 2, 2, 3])
COUNTED = engram.Problem(PROBLEM.inputs, PROBLEM.outputs, COUNTS / COUNTS.sum(), PROBLEM.targets)


def laws_of(sampling, problem, steps, key=0):
    """The law of each step, as the dynamics sees it."""
    system = memory.MemorySystem(problem)
    with jax.enable_x64(True):
        law = jax.jit(lambda index: sampling.law(system, None, index, jax.random.key(key))[0])
        return np.array([law(index) for index in jnp.arange(steps)])


def test_an_epoch_sees_every_sample_as_often_as_the_data_has_it():
    laws = laws_of(D.Epochs(COUNTS, 3), COUNTED, 12)
    epochs = (3 * laws).reshape(3, 4, 5)
    np.testing.assert_allclose(epochs.sum(axis=1), np.tile(COUNTS, (3, 1)), atol=1e-12)
    assert not np.array_equal(epochs[0], epochs[1])
    other = laws_of(D.Epochs(COUNTS, 3), COUNTED, 12, key=1)
    assert not np.array_equal(laws, other)


def test_samples_that_do_not_fill_a_batch_are_dropped_from_the_epoch():
    laws = np.rint(5 * laws_of(D.Epochs(COUNTS, 5), COUNTED, 8))
    np.testing.assert_allclose(laws.sum(axis=1), 5)
    for epoch in laws.reshape(4, 2, 5).sum(axis=1):
        assert (epoch <= COUNTS).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: D.Epochs([0.5, 0.5], 1), "`counts` must be whole numbers"),
        (lambda: D.Epochs([1, 1], 3), "`batch_size` must be at most the number of samples, 2"),
        (lambda: D.Curriculum([[0.5, 0.5]], [1, 2]), "`lengths` must be one number of steps per law"),
        (lambda: D.Curriculum([[0.5, 0.6]], [1]), "`laws` must sum to 1"),
        (lambda: D.Descent(D.sgd(1.0), "all", steps=3), "`sampling` must be one of"),
        (lambda: D.Descent("adam", steps=3), "`optimizer` must be an optax transformation"),
        (lambda: D.Replayed([1, 2]), "`batches` must be integers of shape"),
    ],
)  # fmt: skip
def test_invalid_samplings_are_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()


@pytest.mark.parametrize(
    ("sampling", "said"),
    [
        (D.Epochs([1, 1, 1, 1, 1], 2), "`counts` must be proportional to the law"),
        (D.Curriculum([[0.5, 0.5]], [3]), "`laws` must have rows of the shape of the law"),
        (D.Replayed([[0, 5]]), "`batches` must name samples of the problem, 0..4, got 5"),
    ],
)
def test_samplings_of_another_problem_are_refused(sampling, said):
    descent = D.Descent(D.sgd(1.0), sampling, steps=1)
    with pytest.raises(InputError, match=said):
        engram.simulate(COUNTED, descent, key=0)


def test_tasks_one_after_another_are_descents_on_problems_one_after_another():
    tasks = np.array([[0.5, 0.5, 0, 0, 0], [0, 0, 0.3, 0.3, 0.4]])
    curriculum = D.Descent(D.sgd(2.0), D.Curriculum(tasks, [15, 25]), steps=40)
    run = engram.simulate(PROBLEM, curriculum, space="weights", record=("loss", "weights"))
    W = np.zeros((8, 8))
    for law, steps in zip(tasks, (15, 25), strict=True):
        one = engram.Problem(PROBLEM.inputs, PROBLEM.outputs, law, PROBLEM.targets)
        part = engram.simulate(one, engram.GradientDescent(2.0, steps), start=W, space="weights")
        W = part.final_weights.values
    np.testing.assert_allclose(run.final_weights, W, atol=1e-12)
    # What is recorded is under the problem's own law, whatever a step has seen.
    for t in (0, 15, 40):
        expected = memory.loss(PROBLEM, run.weights.values[t])
        assert float(run.loss[t]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "plain"),
    [
        (D.momentum, lambda rate: optax.sgd(rate, 0.9)),
        (D.adam, optax.adam),
        (D.rmsprop, lambda rate: optax.rmsprop(rate, decay=0.9, eps=1e-8)),
    ],
)
def test_named_optimizers_take_schedules(make, plain):
    # Exact in single precision, in which optax evaluates it.
    schedule = lambda step: jnp.where(step < 5, 0.5, 0.125)
    named = engram.PracticalDescent(make(schedule), 12)
    whole = engram.PracticalDescent(plain(schedule), 12)
    one, two = (engram.simulate(PROBLEM, each, space="weights") for each in (named, whole))
    np.testing.assert_allclose(one.loss, two.loss, rtol=1e-12)
    rates = [float(schedule(t)) for t in range(12)]
    np.testing.assert_allclose(one.time, np.concatenate([[0], np.cumsum(rates)]), rtol=1e-14)


class Lion(D.AbstractOptimizer):
    """Signs of an average of gradients: an optimizer of a user's own."""

    learning_rate: float
    beta: float = 0.9

    def init(self, state):
        return jax.tree.map(jnp.zeros_like, state)

    def update(self, gradient, memory, state, index, system):
        average = jax.tree.map(lambda m, g: self.beta * m + (1 - self.beta) * g, memory, gradient)
        return jax.tree.map(lambda m: -self.learning_rate * jnp.sign(m), average), average


class Likeliest(D.AbstractSampling):
    """Steps see the most frequent token alone at even steps, all of them at odd ones."""

    def law(self, system, inner, index, key):
        law = jnp.asarray(system.law)
        first = jnp.zeros_like(law).at[jnp.argmax(law)].set(1.0)
        return jnp.where(index % 2 == 0, first, law), inner


def test_user_defined_optimizer_and_sampling():
    descent = D.Descent(Lion(0.1), Likeliest(), steps=6)
    run = engram.simulate(COUNTED, descent, record=("loss", "weights"))
    W, m = np.zeros((8, 8)), np.zeros((8, 8))
    for t in range(6):
        law = np.eye(5)[0] if t % 2 == 0 else COUNTED.probs
        seen = engram.Problem(COUNTED.inputs, COUNTED.outputs, law, COUNTED.targets)
        m = 0.9 * m + 0.1 * memory.grad(seen, W)
        W = W - 0.1 * np.sign(m)
    np.testing.assert_allclose(run.final_weights, W, atol=1e-12)
    assert run.attrs["space"] == "weights"
    assert '"optimizer": "Lion"' in run.attrs["settings"]
    with pytest.raises(InputError, match="Lion acts on the entries of W"):
        engram.simulate(COUNTED, descent, space="particles")
