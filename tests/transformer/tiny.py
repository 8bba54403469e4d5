"""A transformer small enough to be written out."""

import jax
import numpy as np

from engram import transformer as tf

CONFIG = tf.Config(dim=8, sequences=12, length=40, dtype="float64", seed=3)
ALL = ("wo2", "wk2", "wk1")


def make(**options):
    """A config, its model and its sequences."""
    import dataclasses

    config = dataclasses.replace(CONFIG, **options)
    return config, *tf.prepare(config)


def sharper(model, factor, seed=0):
    """The model with lookups drawn again, `factor` times as large: attention that decides."""
    rng = np.random.default_rng(seed)
    draw = lambda: factor * rng.standard_normal((model.dim, model.dim))
    return model.replace({"wk1": draw(), "wk2": draw()})


def by_autodiff(model, sequences, names=ALL):
    """Loss and gradients of the plain model, in double precision."""
    with jax.enable_x64(True):
        state = {name: jax.numpy.asarray(model[name]) for name in names}
        value, grads = jax.value_and_grad(lambda s: tf.plain_loss(model.replace(s), sequences))(
            state
        )
        return float(value), {name: np.asarray(grad) for name, grad in grads.items()}
