"""Dynamics: two tokens step by step with events, a grid of them, a flow, and the choice of space."""

import functools
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram.bench._harness import Side, Work
from engram.bench._torch import NO_TORCH, load_torch
from engram.dynamics import GradientDescent, GradientFlow, advance, begin
from engram.memory import MemorySystem
from engram.observables import Events
from engram.particles import MarginSystem, ParticleSystem
from engram.problem import gaussian, on_sphere, two_tokens
from engram.simulation import choose_space, simulate
from engram.sweeps import SimulationPlan, make_plan, sweep


@eqx.filter_jit
def _advance(system: Any, dynamics: Any, state: Any, fold: Any, steps: Any) -> Any:
    carry = begin(system, dynamics, state, fold)
    return advance(system, dynamics, carry, steps, fold=fold).inner


def _in_double(call: Any) -> Any:
    def run() -> None:
        with jax.enable_x64(True):
            jax.block_until_ready(call())

    return run


def _torch_two_tokens(steps: int) -> Side | str:
    """The loop one would write: autograd on a 2 x 2 matrix."""
    if (torch := load_torch()) is None:
        return NO_TORCH
    problem = two_tokens(0.95, 0.75)
    E, U, p = map(torch.tensor, (problem.inputs, problem.outputs, problem.probs))
    targets = torch.tensor(problem.targets, dtype=torch.long)

    def run() -> None:
        W = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
        for _ in range(steps):
            scores = E @ W.T @ U.T
            loss = (p * torch.nn.functional.cross_entropy(scores, targets, reduction="none")).sum()
            loss.backward()
            gradient: Any = W.grad
            with torch.no_grad():
                W -= 10 * gradient
                W.grad = None

    return Side(run, steps)


def _two_tokens() -> tuple[Side, Side | str]:
    steps = 1_000_000
    with jax.enable_x64(True):
        system = jax.device_put(MarginSystem(two_tokens(0.95, 0.75)))
        state = system.start(jnp.zeros((2, 2)))
        events = Events(np.asarray(1.1))
    descent = GradientDescent(10.0, steps)
    run = lambda: _advance(system, descent, state, events, jnp.asarray(steps))
    return Side(_in_double(run), steps), _torch_two_tokens(500)


@jax.jit
def _grid(alphas: Any, rates: Any, steps: Any) -> Any:
    def final(alpha, rate):
        system = MarginSystem(two_tokens(alpha, 0.75))
        state = system.start(jnp.zeros((2, 2)))
        descent = GradientDescent(rate, 1)
        return advance(system, descent, begin(system, descent, state, None), steps).inner.margins

    return jax.vmap(jax.vmap(final, (None, 0)), (0, None))(alphas, rates)


def _two_token_grid() -> tuple[Side, Side | str]:
    side, steps = 100, 1000
    with jax.enable_x64(True):
        alphas, rates = jnp.linspace(0.5, 0.99, side), jnp.logspace(-1, 1, side)
    run = lambda: _grid(alphas, rates, jnp.asarray(steps))
    return Side(_in_double(run), side * side * steps), _torch_two_tokens(500)


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


def _sweep() -> tuple[Side, Side | str]:
    """A sweep is compiled anew each time: that is in its time, too."""
    peer = _torch_two_tokens(1000)
    if isinstance(peer, Side):
        peer = Side(peer.call, 1)
    return Side(lambda: sweep(_GRID, threads=1), 100_000), peer


def _compaction() -> tuple[Side, Side | str]:
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
    return Side(lambda: run(True), count), Side(lambda: run(False), count)


def _flow() -> tuple[Side, Side | str]:
    problem = on_sphere(0, 5, 5, 10)
    flow = GradientFlow(np.array([1e9]))
    run = lambda: simulate(problem, flow, record=("loss",), events=False)
    return Side(run), "descent at a stable rate would need 1e9 steps"


def _space(N: int, M: int, d: int) -> tuple[Side, Side | str]:
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
    best = min(sides, key=lambda name: min(_time(sides[name]) for _ in range(3)))
    return sides[choose_space(problem, descent, "auto")], sides[best]


def _time(side: Side) -> float:
    start = time.perf_counter()
    side.call()
    return time.perf_counter() - start


SHAPES = [(5, 5, 3), (30, 30, 10), (30, 30, 30), (200, 200, 64), (1000, 10, 50), (10, 1000, 50)]
WORKS = [
    Work("two-tokens", "descent step of two tokens with events (peer: autograd)", _two_tokens),
    Work(
        "two-token-grid",
        "step of one cell of a 100 x 100 grid of two-token descents (peer: autograd, one cell)",
        _two_token_grid,
    ),
    Work(
        "sweep",
        "cell of Figure 3's grid, 100 x 100 x 10 cells of 1000 steps, compiling included (peer: autograd)",
        _sweep,
        repeats=5,
    ),
    Work(
        "compaction",
        "cell of an easy 200 x 200 panel of 1000 steps (peer: engram without dropping decided cells)",
        _compaction,
        repeats=9,
    ),
    Work("flow", "gradient flow of N = M = 5, d = 10 to t = 1e9", _flow, repeats=9),
    *(
        Work(
            f"auto-{N}-{M}-{d}",
            f"descent step of N = {N}, M = {M}, d = {d} in the space picked (peer: the faster space)",
            functools.partial(_space, N, M, d),
        )
        for N, M, d in SHAPES
    ),
]
