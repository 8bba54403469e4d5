"""What a long run takes, expected from a part of its tokens that is timed: to be said before it starts."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._devices import shared_among
from engram._precision import in_double
from engram.dynamics import AbstractStepwise
from engram.memory import MemorySystem
from engram.problem import Problem
from engram.simulation._space import choose_space

LONG = 60.0  # seconds from which on a run is worth a word before it starts
_TIMED = 1e12  # multiplications below which a run is short on any machine, so that nothing is timed


class PartCost(NamedTuple):
    """Seconds that a number of tokens take in a gradient, and in a look at a state."""

    tokens: int
    grad: float
    look: float


class Expected(NamedTuple):
    """What a run takes: seconds of a step and of the whole, and bytes."""

    step: float
    whole: float
    bytes: int

    def __str__(self) -> str:
        return (
            f"one step: about {_spoken(self.step)}, the whole run: about {_spoken(self.whole)} and "
            f"{self.bytes / 1e9:.2g} GB on this machine"
        )


def expected(
    problem: Problem,
    dynamics: Any,
    *,
    records: int,
    events: bool,
    space: str = "auto",
    devices: int = 1,
    measure: Callable[[Problem, int], PartCost] | None = None,
) -> Expected | None:
    """What a run of so many records takes; None if it is short, or nothing is known of its steps.

    Args:
        problem: What is to be remembered.
        dynamics: How W moves; the number of steps of a flow is not known before.
        records: How many states are recorded.
        events: Whether every state is looked at.
        space: As for `simulate`: only runs in the space of weights stream over their tokens.
        devices: How many of them share the tokens.
        measure: How a part of the tokens is timed.
    """
    N, M, d, k = problem.num_tokens, problem.num_classes, problem.dim, problem.output_dim
    if not isinstance(dynamics, AbstractStepwise):
        return None
    if devices == 1 and choose_space(problem, dynamics, space) != "weights":
        return None
    steps = dynamics.num_steps
    looks = records + (steps + 1) * events
    if (2 * steps + looks) * N * M * min(d, k) < _TIMED:
        return None
    part = (measure or time_part)(problem, devices)
    share = N / part.tokens
    step = share * (part.grad + part.look * (events + records / max(steps, 1)))
    whole = share * (part.grad * steps + part.look * looks)
    return Expected(step, whole, _bytes(problem, devices)) if whole >= LONG else None


def _bytes(problem: Problem, devices: int) -> int:
    """Embeddings on the host and on the devices, and the blocks of scores at work."""
    N, M, d, k = problem.num_tokens, problem.num_classes, problem.dim, problem.output_dim
    block = min(MemorySystem(problem).block, -(-N // devices))
    return 8 * (2 * N * d + (1 + devices) * M * k + 4 * devices * block * M)


@in_double
def time_part(problem: Problem, devices: int) -> PartCost:
    """Time a gradient and a look at zero weights with the first tokens only."""
    # With fewer tokens, what is done once, such as U W, would count for too much.
    block = max(MemorySystem(problem).block, 2 * problem.output_dim)
    tokens = min(problem.num_tokens, devices * block)
    rows = lambda each: (each.inputs, each.probs, each.targets, each.clean_labels)
    cut = lambda x: None if x is None else x[:tokens]
    some = eqx.tree_at(rows, problem, [*map(cut, rows(problem))], is_leaf=lambda x: x is None)
    W = np.zeros(problem.start().shape)
    with shared_among(devices):
        system = jax.device_put(MemorySystem(some))
        grad, look = (
            _best_of_two(eqx.filter_jit(ask), system, jnp.asarray(W))
            for ask in (lambda system, W: system.grad(W), lambda system, W: system.look(W))
        )
    return PartCost(tokens, grad, look)


def _best_of_two(ask: Callable[..., Any], *arguments: Any) -> float:
    times = []
    for _ in range(3):  # the first compiles
        began = time.perf_counter()
        jax.block_until_ready(ask(*arguments))
        times.append(time.perf_counter() - began)
    return min(times[1:])


def _spoken(seconds: float) -> str:
    """A time for people: 40 s, 12 minutes, 3.5 hours."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"
