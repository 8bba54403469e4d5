"""Full-batch gradients of a memory: medium, many-dimensional, and too large to hold."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from engram import memory
from engram.bench._harness import Benchmark, Side
from engram.bench._peers import AUTOGRAD, BY_HAND, torch_step
from engram.bench._process import run_apart
from engram.bench._torch import load_torch
from engram.particles import ParticleState, ParticleSystem
from engram.problem import gaussian


def _medium(dtype: str, peer: str) -> Iterator[Side]:
    N, d = 1000, 256
    problem = gaussian(0, N, N, d).astype(dtype)
    W = (np.random.default_rng(0).standard_normal((d, d)) / np.sqrt(d)).astype(dtype)
    with jax.enable_x64(True):
        on_device, weights = jax.device_put((problem, W))
    yield Side(lambda: jax.block_until_ready(memory.grad(on_device, weights)))
    yield torch_step(problem, W, by_hand=peer == BY_HAND)


def _many_dimensions() -> Iterator[Side]:
    N, d, steps = 64, 1024, 1000
    problem = gaussian(0, N, N, d)
    with jax.enable_x64(True):
        system = jax.device_put(ParticleSystem(problem))
        zeros = jnp.zeros((N, N))

        @jax.jit
        def descend(system: ParticleSystem, state: ParticleState) -> ParticleState:
            move = lambda w, g: w - 0.5 * g
            step = lambda _, state: jax.tree.map(move, state, system.grad(state))
            return jax.lax.fori_loop(0, steps, step, state)

    def run():
        with jax.enable_x64(True):
            return jax.block_until_ready(descend(system, ParticleState(zeros, zeros, jnp.ones(()))))

    yield Side(run, steps)
    yield torch_step(problem, np.zeros((d, d)))


def _huge(num: int, dim: int) -> Iterator[Side]:
    def process(side: str) -> str:
        cost = run_apart("engram.bench._huge", side, str(num), str(dim))
        return f"peak {cost['peak'] / 2**30:.2f} GiB, {cost['seconds']:.1f} s of it computing"

    yield Side(functools.partial(process, "engram"))
    load_torch()
    yield Side(functools.partial(process, "torch"))


def step_flops(N: int, M: int, d: int) -> float:
    """Arithmetic of the matrix products of one gradient."""
    return float(2 * 2 * (N * M * d + min(N, M) * d * d))


BENCHMARKS = [
    *(
        Benchmark(
            f"memory-{dtype}{suffix}", f"gradient of N = M = 1000, d = 256, {dtype}",
            functools.partial(_medium, dtype, peer), peer, dtype, step_flops(1000, 1000, 256), 1000**2,
        )
        for dtype in ("float32", "float64")
        for suffix, peer in (("", AUTOGRAD), ("-hand", BY_HAND))
    ),
    Benchmark(
        "many-dimensions", "descent step of N = M = 64, d = 1024, float64; engram's in particle space",
        _many_dimensions, AUTOGRAD, "float64", 2 * 2 * 64**3, 2 * 64**2,
    ),
    Benchmark(
        "huge-memory",
        "loss, gradient and error of N = M = 20,000, d = 512, float32, from start to end of a process",
        functools.partial(_huge, 20_000, 512), AUTOGRAD, "float32",
        2 * step_flops(20_000, 20_000, 512), 2 * 20_000**2, repeats=3, warm_up=False,
    ),
]  # fmt: skip
