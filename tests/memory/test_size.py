"""Large memories stream: no array of N x M entries, the same numbers."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from engram import memory
from engram.problem import Problem

CODE = """
import json, sys
import jax, numpy as np
from engram import memory
from engram.bench import peak_bytes
from engram.problem import Problem
N, d = 12_000, 32
rng = np.random.default_rng(0)
rows = lambda n: rng.standard_normal((n, d))
problem = Problem(rows(N), rows(N), np.full(N, 1 / N), np.arange(N)).astype("float32")
W = rows(d).astype(np.float32)
small = Problem(problem.inputs[:10], problem.outputs, np.full(10, .1), np.arange(10)).astype("float32")
peak = lambda: peak_bytes() / 2**20
for fn in (memory.loss, memory.grad, memory.error_rate):
    jax.block_until_ready(fn(small, W))
before = peak()
for fn in (memory.loss, memory.grad, memory.error_rate, memory.margins, memory.predict):
    jax.block_until_ready(fn(problem, W))
print(json.dumps({"grown": peak() - before}))
"""


def test_memory_does_not_grow_with_tokens_times_classes():
    # Compiled as for a user: this is about computing, not compiling.
    ours = ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, env=env)
    grown = json.loads(done.stdout)["grown"]
    scores = 12_000**2 * 4 / 2**20  # MiB of the array that is never made
    assert scores > 500
    assert grown < 250, f"grew by {grown:.0f} MiB"


@pytest.mark.parametrize("shape", [(700, 1500, 8), (2001, 300, 8)])
def test_automatic_blocks_give_the_same_numbers(shape):
    N, M, d = shape
    rng = np.random.default_rng(0)
    problem = Problem(
        rng.standard_normal((N, d)),
        rng.standard_normal((M, d)),
        rng.dirichlet(np.ones(N)),
        rng.integers(0, M, N),
    )
    W = rng.standard_normal((d, d))
    for name in ("loss", "grad", "error_rate", "token_losses", "margins", "predict"):
        fn = getattr(memory, name)
        np.testing.assert_allclose(
            fn(problem, W), fn(problem, W, block_size=N), rtol=1e-11, atol=1e-14
        )
