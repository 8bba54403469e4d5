"""The kernel that numba compiles against the plain model, and against the passes that need no numba."""

import jax
import numpy as np
import pytest
import tiny

from engram import transformer as tf
from engram.transformer import _compiled


@pytest.fixture(scope="module")
def numba():
    return pytest.importorskip("numba", exc_type=ImportError)


def measured(model, sequences, law=None):
    passes = tf.Passes(model, sequences, tiny.ALL, compiled=True)
    assert passes.is_compiled
    return passes.measure({name: model[name] for name in tiny.ALL}, law)


def unlike(grads, exact):
    """The largest error of each gradient, over its largest entry."""
    return [np.abs(grads[name] - exact[name]).max() / np.abs(exact[name]).max() for name in exact]


@pytest.mark.usefixtures("numba")
@pytest.mark.parametrize("factor", [1.0, 30.0], ids=["soft", "saturated"])
def test_the_kernel_computes_the_gradients_of_the_plain_model(factor):
    _, model, sequences = tiny.make()
    model = tiny.sharper(model, factor)
    loss, grads = tiny.by_autodiff(model, sequences)
    with jax.enable_x64(True):
        found = measured(model, sequences)
        jax_passes = tf.Passes(model, sequences, ())
        hits = jax_passes.measure({}).hits
    assert found.loss == pytest.approx(loss, rel=1e-13, abs=0)
    assert found.hits == pytest.approx(hits, rel=1e-13, abs=0)
    assert max(unlike(found.grads, grads)) < 1e-12


@pytest.mark.usefixtures("numba")
def test_the_kernel_is_linear_in_the_law_and_reports_what_is_not_finite():
    _, model, sequences = tiny.make()
    with jax.enable_x64(True):
        whole, parts = measured(model, sequences), []
        for rows in (slice(0, 5), slice(5, 12)):
            law = np.zeros(12)
            law[rows] = 1 / 12
            parts.append(measured(model, sequences, law).grads)
        broken = measured(model.replace({"wk1": np.full((8, 8), np.inf)}), sequences)
    added = {name: parts[0][name] + parts[1][name] for name in tiny.ALL}
    assert max(unlike(added, whole.grads)) < 1e-13
    assert np.isnan(broken.loss)
    assert all(np.isnan(grad).any() for grad in broken.grads.values())


@pytest.mark.usefixtures("numba")
def test_in_single_precision_the_kernel_rounds_as_the_passes_do():
    """Both lose some roundings of sums over 40 keys and of scores of size 3."""
    _, exact_model, sequences = tiny.make()
    _, grads = tiny.by_autodiff(exact_model, sequences)
    model = jax.tree.map(lambda array: np.asarray(array, np.float32), exact_model)
    found = measured(model, sequences)
    assert found.grads["wk1"].dtype == np.float32
    assert max(unlike(found.grads, grads)) < 64 * np.finfo(np.float32).eps


def test_without_numba_the_passes_are_those_of_jax(monkeypatch):
    _, model, sequences = tiny.make(dtype="float32")
    monkeypatch.setattr(_compiled, "load_kernel", lambda: None)
    assert not tf.Passes(model, sequences, tiny.ALL, compiled=True).is_compiled


def test_long_sequences_and_fixed_attention_are_left_to_jax():
    _, model, _ = tiny.make()
    assert not _compiled.can_compile(model, ("wo2", "wk2"))
    long = tf.make_model(tf.Config(dim=2, length=2000), 64)
    assert not _compiled.can_compile(long, tiny.ALL)
