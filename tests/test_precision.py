"""Never a silent float32, never a global switch."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import engram
from engram import memory, particles
from engram.special import log_omega

PROBLEM = engram.on_sphere(0, 4, 3, 3)
PAIR = engram.two_tokens(0.5, 0.75)
W = np.random.default_rng(0).standard_normal((3, 3))


@pytest.mark.usefixtures("x32")
def test_double_in_gives_double_out_with_x64_off():
    for weights in (W, W.tolist(), W.astype(np.float32), jnp.asarray(W, jnp.float32)):
        for name in ("loss", "grad", "scores", "margins", "sharpness", "hessian", "token_losses"):
            value = getattr(memory, name)(PROBLEM, weights)
            assert value.dtype == np.float64, name
            assert (value - 1.0).dtype == np.float64, "and it stays so in the next operation"
    assert not jax.config.jax_enable_x64


def test_float32_is_kept_when_asked_for():
    single = PROBLEM.astype("float32")
    for name in ("loss", "grad", "margins", "sharpness", "hessian"):
        value = getattr(memory, name)(single, W.astype(np.float32))
        assert value.dtype == np.float32, name
        np.testing.assert_allclose(value, getattr(memory, name)(PROBLEM, W), rtol=2e-4, atol=1e-6)
    w = particles.weights_to_scores(single, W.astype(np.float32))
    assert particles.grad(single, w).dtype == np.float32


def test_it_works_inside_jit_grad_and_vmap_in_double():
    with jax.enable_x64(True):
        g = jax.jit(jax.grad(lambda W: memory.loss(PROBLEM, W)))(W)
        np.testing.assert_allclose(g, memory.grad(PROBLEM, W), atol=1e-15)
        both = jax.vmap(lambda W: memory.loss(PROBLEM, W))(jnp.stack([W, 2 * W]))
        assert both[1] == pytest.approx(memory.loss(PROBLEM, 2 * W))


@pytest.mark.usefixtures("x32")
def test_tracing_in_single_precision_is_refused_with_the_remedy():
    for call in (
        lambda: jax.grad(lambda W: memory.loss(PROBLEM, W))(W),
        lambda: jax.vmap(lambda W: memory.grad(PROBLEM, W))(np.stack([W, W])),
        lambda: jax.jit(lambda k: engram.on_sphere(k, 3, 2, 2).probs)(jax.random.key(0)),
    ):
        with pytest.raises(ValueError, match=r"begun in float32.*jax.enable_x64.*astype"):
            call()
    single = PROBLEM.astype("float32")
    slope = jax.grad(lambda W: memory.loss(single, W))(jnp.asarray(W, jnp.float32))
    np.testing.assert_allclose(slope, memory.grad(PROBLEM, W), atol=1e-6)


@pytest.mark.usefixtures("x32")
def test_systems_and_special_functions_stay_double_too():
    assert memory.MemorySystem(PROBLEM).grad(W).dtype == np.float64
    assert memory.MemorySystem(PROBLEM).loss(W).dtype == np.float64
    for system in (particles.ParticleSystem(PROBLEM), particles.MarginSystem(PAIR)):
        state = system.start(np.eye(system.problem.dim))
        assert {leaf.dtype.name for leaf in jax.tree.leaves(state)} == {"float64"}
        assert system.weights(state).dtype == np.float64
    for y in (1000.0, 1000, [1000.0]):
        assert np.asarray(log_omega(y)).dtype == np.float64
    assert log_omega(np.inf) == np.inf
    assert log_omega(-np.inf) == -np.inf


def test_other_threads_keep_their_precision():
    seen = {}

    def work():
        seen["loss"] = memory.loss(PROBLEM, W)
        seen["x64"] = jax.config.jax_enable_x64

    thread, switch = threading.Thread(target=work), jax.config.jax_enable_x64
    with jax.enable_x64(not switch):
        thread.start()
        thread.join()
    assert seen == {"loss": memory.loss(PROBLEM, W), "x64": switch}


def test_log_omega_solves_its_equation_everywhere():
    y = np.concatenate([-np.logspace(3, -3, 50), [0.0, 1.0], np.logspace(-3, 12, 200)])
    m = log_omega(y)
    # m + e^m is as well determined as y and its terms are.
    residual = np.abs(m + np.exp(m) - y)
    assert (residual <= 4e-15 * np.maximum(np.abs(y), np.maximum(np.abs(m), 1))).all()


def test_importing_sets_no_global_state_and_loads_no_jax():
    code = (
        "import sys, engram; assert 'jax' not in sys.modules, 'jax loaded'; "
        "assert 'numpy' not in sys.modules; engram.memory; import jax; "
        "assert not jax.config.jax_enable_x64; assert jax.config.jax_platforms is None; "
        "assert 'torch' not in sys.modules; assert 'matplotlib' not in sys.modules; "
        "assert set(dir(engram)) >= {'Problem', 'two_tokens', 'memory'}"
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    subprocess.run([sys.executable, "-c", code], check=True, env=plain)


def test_nan_as_a_marker_passes_the_users_debugging_flags_and_only_there():
    with jax.debug_nans(True), jax.debug_infs(True):
        run = engram.simulate(PAIR, engram.GradientDescent(0.0, 2))
        assert np.isnan(run.first_perfect)
        with pytest.raises(FloatingPointError):
            jnp.log(np.float32(-1.0))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        _ = engram.absent
