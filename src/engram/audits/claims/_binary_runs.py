"""Runs of one token and two classes that several checks share."""

import functools

import numpy as np
from flint import arb

from engram.audits._certificate import Certificate
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_token, flow_token, steps_to

RUNS = 96
# A solver at rtol 1e-11 accumulates a few units of that over some tens of steps.
SOLVER = 1e-9


@functools.lru_cache(maxsize=2)
def descents(seed: int) -> tuple[np.ndarray, ...]:
    """From zero, x = eta c over eight decades, to a million steps: x, steps, margins."""
    x = 10 ** rng_for(seed, "binary descents").uniform(-3, 4, RUNS)
    x[:12] = (1e-3, 0.01, 0.1, 0.5, 1.0, 1.8, 1.9, 1.99, 2.0, 2.2, 2.6, 1e4)
    at = steps_to(1_000_000, dense=256, sparse=48)
    return x, at, descend_token(x, np.ones(RUNS), at)


@functools.lru_cache(maxsize=2)
def started(seed: int) -> tuple[np.ndarray, ...]:
    """The same from starts between -30 and 20, to 1e5 steps: x, starts, steps, margins."""
    rng = rng_for(seed, "binary starts")
    x, start = 10 ** rng.uniform(-4, 5, RUNS), rng.uniform(-30, 20, RUNS)
    at = steps_to(100_000)
    return x, start, at, descend_token(x, np.ones(RUNS), at, start)


@functools.lru_cache(maxsize=2)
def flows(seed: int) -> tuple[np.ndarray, ...]:
    """Gradient flow to t = 1e12: rates, starts, times, margins."""
    rng = rng_for(seed, "binary flows")
    rate, start = 10 ** rng.uniform(-3, 2, 32), rng.uniform(-20, 5, 32)
    start[:16] = 0.0
    times = np.concatenate([[0.0], np.geomspace(1e-3, 1e12, 46)])
    return rate, start, times, flow_token(rate, times, start)


def encloses(constant: float, exact: arb) -> list[Certificate]:
    """That a constant of the theory is the exact one, rounded up."""
    prove = functools.partial(Certificate, violates=False)
    return [
        prove("the constant that `theory` uses is not below it", arb(constant), ">=", exact),
        prove("nor above it by 10^−15", arb(constant) - exact, "<", arb(10) ** -15),
    ]
