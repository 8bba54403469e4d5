"""What a person reads when an object is printed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import engram
from engram import dynamics as D
from engram.memory import MemorySystem
from engram.system import AbstractSystem, Look

PROBLEM = engram.two_tokens(0.95, 0.75)
TEXTS = {
    "GradientDescent(learning_rate=10, steps=34)": engram.GradientDescent(10, 34),
    "GradientDescent(learning_rate=[1., 2.], steps=2)": engram.GradientDescent([1, 2], 2),
    "GradientFlow(times=[0., 1.])": engram.GradientFlow([0, 1]),
    "StochasticGradientDescent(learning_rate=0.5, steps=5, batch_size=2)": (
        engram.StochasticGradientDescent(0.5, 5, 2)
    ),
    "PracticalDescent(optimizer=momentum(learning_rate=0.1, momentum=0.9), steps=3, "
    "sampling=Batches(batch_size=4), weight_decay=0.01)": (
        engram.PracticalDescent(D.momentum(0.1), 3, 4, weight_decay=0.01)
    ),
    "Epochs(counts=[1, 2], batch_size=2)": D.Epochs([1, 2], 2),
    "Problem(num_tokens=2, num_classes=2, dim=2)": PROBLEM,
    "When(every=3)": engram.When(every=3),
    "When(at=[0, 1, ..., 8, 9])": engram.When(at=np.arange(10)),
    "Bigrams(num_tokens=64, num_pairs=1299697)": engram.problem.shakespeare(),
    "MemorySystem(problem=Problem(num_tokens=2, num_classes=2, dim=2), layer_norm=True)": (
        MemorySystem(PROBLEM, layer_norm=True)
    ),
}


def test_reprs_show_tracers_and_jax_arrays():
    seen = []

    def trace(rate):
        seen.append(repr(engram.GradientDescent(rate, 2)))
        return rate

    jax.jit(trace)(jnp.ones(()))
    assert "GradientDescent(learning_rate=" in seen[0]
    assert (
        repr(D.Curriculum(jnp.eye(2), [1, 2]))
        == "Curriculum(laws=[[1., 0.], [0., 1.]], lengths=[1, 2])"
    )
    assert repr(Given(jnp.arange(3))) == "Given(law=[0, 1, 2])"


class Given(AbstractSystem):
    law: Any

    def look(self, state, law=None):
        return Look(state.sum())

    def grad(self, state, law=None, look=None):
        return state


def test_reprs_are_the_calls_that_make_the_objects():
    for text, thing in TEXTS.items():
        assert repr(thing) == text
