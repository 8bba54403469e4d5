"""Dynamics: two tokens step by step with events, a grid of them, a flow, and the choice of space."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
import scipy.special

from engram import memory
from engram.bench._harness import Benchmark, Side, seconds
from engram.bench._peers import AUTOGRAD, BY_HAND, torch_descent
from engram.bench._torch import load_torch
from engram.dynamics import Context, GradientDescent, GradientFlow, advance
from engram.memory import MemorySystem
from engram.observables import Events
from engram.particles import MarginSystem, ParticleSystem
from engram.problem import Problem, gaussian, on_sphere, two_tokens
from engram.simulation import choose_space, simulate
from engram.sweeps import SimulationPlan, make_plan, sweep

NUMPY = "NumPy"
BATCHED = "PyTorch by hand, all cells in one tensor"


@eqx.filter_jit
def _advance(system: Any, dynamics: Any, state: Any, fold: Any, steps: Any) -> Any:
    carry = Context(system, dynamics, fold).begin(state)
    return advance(system, dynamics, carry, steps, fold=fold).inner


def _in_double(call: Any) -> Any:
    def run() -> None:
        with jax.enable_x64(True):
            jax.block_until_ready(call())

    return run


_SPIKING: Any = (0.95, 0.75)  # correlation and p1 of the loss spike


def _two_tokens(peer: str, *, events: bool) -> Iterator[Side]:
    steps = 1_000_000
    problem = two_tokens(*_SPIKING)
    with jax.enable_x64(True):
        system = jax.device_put(MarginSystem(problem))
        state = system.start(jnp.zeros((2, 2)))
        fold = Events() if events else None
    descent = GradientDescent(10.0, steps)
    run = lambda: _advance(system, descent, state, fold, jnp.asarray(steps))
    yield Side(_in_double(run), steps)
    if peer == NUMPY:
        yield _numpy_descent(problem, 500)
    else:
        yield torch_descent(problem, 10.0, 500, by_hand=peer == BY_HAND)


def _arrays(problem: Problem) -> list[np.ndarray]:
    """Embeddings, frequencies and targets as NumPy code has them: E, U, p and rows of 0 and 1."""
    arrays = [np.asarray(x) for x in (problem.inputs, problem.outputs, problem.probs)]
    return [*arrays, np.eye(problem.num_classes)[np.asarray(problem.targets)]]


def _numpy_descent(problem: Problem, steps: int) -> Side:
    E, U, p, certain = _arrays(problem)

    def run() -> None:
        W = np.zeros((2, 2))
        for _ in range(steps):
            q = np.exp(E @ W.T @ U.T)
            q /= q.sum(1, keepdims=True)
            W -= 10 * (U.T @ (p[:, None] * (q - certain)).T @ E)

    return Side(run, steps)


_GRID: Any = {
    "problem": {"family": "two"},
    "dynamics": {"kind": "gd", "steps": 999},
    "axes": {
        "log_odds": {"logspace": [-0.5, 0.5, 10]},
        "correlation": {"linspace": [0.5, 1.0, 100]},
        "learning_rate": {"logspace": [-1, 1, 100]},
    },
    "sweep": {"observables": ["first_perfect"]},
}


def _sweep(peer: str) -> Iterator[Side]:
    yield Side(lambda: sweep(_GRID, threads=1), 100_000)
    if peer == BATCHED:
        yield _torch_batch(10_000, 1000)
    else:
        cell = torch_descent(two_tokens(*_SPIKING), 1.0, 1000)
        yield dataclasses.replace(cell, units=1)


def _torch_batch(cells: int, steps: int) -> Side:
    """A grid of two-token descents in one tensor, its gradient by hand, steps in a Python loop."""
    torch = load_torch()
    alpha, rate = torch.linspace(0.5, 0.99, cells), torch.logspace(-1, 1, cells)[:, None, None]
    one, other = torch.ones_like(alpha), torch.zeros_like(alpha)
    E = torch.stack([one, other, alpha, torch.sqrt(1 - alpha**2)], dim=1).reshape(-1, 2, 2).double()
    U, p = torch.eye(2, dtype=torch.float64), torch.tensor([[0.75], [0.25]], dtype=torch.float64)

    @torch.no_grad()
    def run() -> None:
        W = torch.zeros(cells, 2, 2, dtype=torch.float64)
        reached = torch.full((cells,), -1)
        for step in range(steps):
            scores = E @ W.transpose(1, 2)
            right = (scores.argmax(2) == torch.arange(2)).all(1)
            reached[right & (reached < 0)] = step
            residual = p * (torch.softmax(scores, dim=2) - U)
            W -= rate * (residual.transpose(1, 2) @ E)

    return Side(run, cells)


def _compaction() -> Iterator[Side]:
    """An easy panel, where most cells are decided early, against running every cell to its end."""
    axes = {
        "log_odds": [np.log(0.58 / 0.42)],
        "correlation": {"linspace": [0.5, 1.0, 200]},
        "learning_rate": {"logspace": [-1, 1, 200]},
    }
    plan = make_plan({**_GRID, "axes": axes}, None)
    assert isinstance(plan, SimulationPlan)
    runner, cells = plan.runner(()), [plan.cells(unit)[:2] for unit in plan.units()]
    run = lambda compact: [runner.run(*part, compact=compact) for part in cells]
    count = int(np.prod(plan.shape))
    yield Side(lambda: run(True), count)
    yield Side(lambda: run(False), count)


def _flow() -> Iterator[Side]:
    """The peer stops at the same tolerances, and both say which loss they end at."""
    problem = on_sphere(0, 5, 5, 10)
    flow = GradientFlow(np.array([1e9]))
    E, U, p, certain = _arrays(problem)

    def field(_: float, w: np.ndarray) -> np.ndarray:
        q = scipy.special.softmax(E @ w.reshape(10, 10).T @ U.T, axis=1)
        return -(U.T @ (p[:, None] * (q - certain)).T @ E).ravel()

    def ours() -> str:
        run = simulate(problem, flow, record=("loss",), events=False)
        return f"loss {run.loss.values[-1]:.7g}"

    def theirs() -> str:
        tolerances: Any = {"rtol": float(flow.rtol), "atol": float(flow.atol)}
        path = scipy.integrate.solve_ivp(field, (0, 1e9), np.zeros(100), "LSODA", **tolerances)
        return f"loss {memory.loss(problem, path.y[:, -1].reshape(10, 10)):.7g}"

    yield Side(ours)
    yield Side(theirs)


def _space(N: int, M: int, d: int) -> Iterator[Side]:
    """The space that "auto" picks against the faster of the two."""
    problem = gaussian(0, N, M, d)
    steps = max(8, int(2e8 / (N * M * (N + M + d))))
    descent = GradientDescent(0.5, steps)
    sides = {}
    with jax.enable_x64(True):
        W = jnp.zeros((d, d))
        points = jax.device_put(ParticleSystem(problem))
        systems: Any = {
            "weights": (jax.device_put(MemorySystem(problem)), W),
            "particles": (points, points.start(W)),
        }
    for name, (system, state) in systems.items():
        run = functools.partial(_advance, system, descent, state, None, steps)
        sides[name] = Side(_in_double(run), steps)
        sides[name].call()
    best = min(sides, key=lambda name: min(seconds(sides[name].call) for _ in range(3)))
    yield sides[choose_space(problem, descent, "auto")]
    yield sides[best]


SHAPES = [(5, 5, 3), (30, 30, 10), (30, 30, 30), (200, 200, 64), (1000, 10, 50), (10, 1000, 50)]
BENCHMARKS = [
    *(
        Benchmark(
            f"two-tokens{suffix}",
            f"descent step of two tokens{' (engram also finds events)' if suffix == '-events' else ''}",
            functools.partial(_two_tokens, peer, events=suffix == "-events"), peer,
        )
        for suffix, peer in [("", AUTOGRAD), ("-hand", BY_HAND), ("-numpy", NUMPY), ("-events", AUTOGRAD)]
    ),
    *(
        Benchmark(
            name, "cell of Figure 3's grid, 100 x 100 x 10 cells of 1000 steps",
            functools.partial(_sweep, peer), peer, repeats=5,
        )
        for name, peer in [("sweep", AUTOGRAD), ("sweep-batched", BATCHED)]
    ),
    Benchmark(
        "compaction", "cell of an easy 200 x 200 panel of 1000 steps", _compaction,
        "engram without dropping decided cells", repeats=9,
    ),
    Benchmark(
        "flow", "gradient flow of N = M = 5, d = 10 to t = 1e9", _flow, "SciPy's LSODA", repeats=9
    ),
    *(
        Benchmark(
            f"auto-{N}-{M}-{d}", f"descent step of N = {N}, M = {M}, d = {d} in the space picked",
            functools.partial(_space, N, M, d), "engram in the faster space",
        )
        for N, M, d in SHAPES
    ),
]  # fmt: skip
