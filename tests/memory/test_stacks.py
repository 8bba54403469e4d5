"""A stack of weights is mapped over: what comes out are the results of each, stacked."""

import inspect

import jax
import numpy as np
import pytest

import cases
from engram import memory
from engram._checks import InputError

PROBLEM = cases.PROBLEMS["not separable"]
STACK = np.stack([cases.weights(PROBLEM, 0.5, seed) for seed in range(3)])
NAMES = [
    name
    for name, fn in vars(memory).items()
    if inspect.isfunction(fn) and "W" in inspect.signature(fn).parameters
    and name not in ("project_on_updates", "hvp")
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_stack_gives_each_of_its_results(name):
    fn = getattr(memory, name)
    together, apart = fn(PROBLEM, STACK), [fn(PROBLEM, W) for W in STACK]
    # Mapped products may round otherwise; eigenvectors are known up to that and their sign.
    for i, one in enumerate(apart):
        each = jax.tree.map(lambda x, i=i: x[i], together)
        for found, expected in zip(jax.tree.leaves(each), jax.tree.leaves(one), strict=True):
            if name == "top_eigenpairs":
                found, expected = np.abs(found), np.abs(expected)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_directions_are_stacked_alone_or_with_the_weights():
    V = np.stack([cases.weights(PROBLEM, seed=seed) for seed in range(5, 8)])
    both, one = memory.hvp(PROBLEM, STACK, V), memory.hvp(PROBLEM, STACK[0], V)
    for i in range(3):
        np.testing.assert_allclose(both[i], memory.hvp(PROBLEM, STACK[i], V[i]), atol=1e-13)
        np.testing.assert_allclose(one[i], memory.hvp(PROBLEM, STACK[0], V[i]), atol=1e-13)


@pytest.mark.parametrize("shape", [(3,), (3, 2), (2, 3, 2), (2, 2, 3, 3)])
def test_stacks_of_other_shapes_are_refused(shape):
    with pytest.raises(
        InputError, match=r"`W` must have shape \(k, d\) = \(3, 3\), or \(T, k, d\)"
    ):
        memory.loss(PROBLEM, np.zeros(shape))
