"""Random batches: which sample a random number stands for."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from engram.dynamics import Batches


@pytest.mark.usefixtures("x64")
def test_samples_of_probability_zero_are_never_drawn(monkeypatch):
    system = SimpleNamespace(law=np.array([0.0, 0.25, 0.0, 0.75, 0.0]))
    # The edges of the intervals [0, 1/4) and [1/4, 1), which the generator may well hit.
    numbers = jnp.asarray([0.0, np.nextafter(0.25, 0), 0.25, np.nextafter(1, 0)])
    monkeypatch.setattr(jax.random, "uniform", lambda key, shape, dtype: numbers)
    draw = jax.jit(lambda index: Batches(4).law(system, None, index, jax.random.key(0))[0])
    counts = draw(0)
    np.testing.assert_array_equal(counts, [0, 0.5, 0, 0.5, 0])
