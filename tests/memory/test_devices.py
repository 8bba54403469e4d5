"""Devices that share the tokens of a memory give what one gives, up to the order of sums."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

import engram
from engram import memory
from engram._checks import InputError
from engram._devices import shared_among

EPS = np.finfo(float).eps
SCRIPT = """
import json
import engram
engram.use_devices(3)
import jax, numpy as np
from engram import memory
from engram._devices import shared_among

@jax.jit
def measure(problem, W):
    return {
        "loss": memory.loss(problem, W),
        "slope": jax.grad(lambda W: memory.loss(problem, W))(W),
        "grad": memory.grad(problem, W),
        "normalised": memory.grad(problem, W, layer_norm=True),
        "error": memory.error_rate(problem, W),
        "margins": memory.margins(problem, W),
        "product": memory.hvp(problem, W, W),
        "blocks": memory.grad(problem, W, block_size=2),
    }

def shares(problem, W):
    return "shard_map" in str(jax.make_jaxpr(lambda W: memory.loss(problem, W))(W))

with jax.enable_x64(True):
    rows = []
    for N, M, d in ((60, 4, 3), (61, 40, 8)):
        problem = engram.gaussian(N, N, M, d)
        W = np.random.default_rng(N).standard_normal((d, d))
        alone = measure(problem, W)
        with shared_among(3):
            row = {name: float(abs(np.asarray(value) - np.asarray(alone[name])).max())
                   for name, value in measure(problem, W).items()}
            row["shared"] = shares(problem, W) and not shares(engram.two_tokens(0.9, 0.6), np.eye(2))
        row["size"] = float(max(abs(np.asarray(each)).max() for each in alone.values()))
        row["tokens"] = N
        rows.append(row)
    descent = engram.StochasticGradientDescent(learning_rate=0.5, steps=20, batch_size=4)
    one, two = (engram.simulate(problem, descent, key=0, devices=n, space="weights") for n in (1, 2))
    run = max(float(abs(one[name] - two[name]).max()) for name in ("loss", "margins", "final_weights"))
try:
    engram.simulate(problem, descent, key=0, devices=4)
except engram.InputError as error:
    print(json.dumps([rows, run, json.loads(two.attrs["spec"])["run"]["devices"], str(error)]))
"""


def test_several_devices_give_what_one_gives():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows, run, devices, refusal = json.loads(done.stdout)
    for row in rows:
        N, size = row.pop("tokens"), row.pop("size")
        assert row.pop("shared")  # and two tokens among three devices are not
        # Sums of N terms in two orders, each within N roundings of the largest term, which is below 10 sizes.
        assert max(row.values()) <= 20 * N * EPS * size, row
    # Twenty steps of 4 tokens: errors add up, and grow by at most 1 + eta * sharpness < 2 a step.
    assert run <= 2**20 * EPS
    assert devices == 2
    assert "at most 3" in refusal
    assert "use_devices" in refusal


def test_particles_are_not_shared():
    with pytest.raises(InputError, match="moves as weights"):
        engram.simulate(
            engram.two_tokens(0.95, 0.75),
            engram.GradientDescent(1.0, 3),
            devices=2,
            space="particles",
        )


def test_other_platforms_get_products_without_what_only_helps_a_cpu(monkeypatch):
    problem = engram.gaussian(0, 9, 7, 5)
    W = np.random.default_rng(0).standard_normal((5, 5))
    on_cpu = memory.grad(problem, W)

    def program(block):
        with jax.enable_x64(True):
            return str(jax.make_jaxpr(lambda W: memory.grad(problem, W, block_size=block))(W))

    assert "optimization_barrier" in program(4)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "optimization_barrier" not in program(5)  # another block, so that it is traced again
    np.testing.assert_allclose(memory.grad(problem, W, block_size=5), on_cpu, rtol=1e-12)


def test_devices_are_those_that_jax_has_whatever_they_are(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: ["a GPU", "another"])
    with pytest.raises(InputError, match="at most 2"), shared_among(3):
        pass
