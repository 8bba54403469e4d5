"""Runs of one token and two classes that several checks share."""

import functools
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import MANY_STEPS
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_token, flow_token, steps_to

RUNS = 96


# A solver at rtol 1e-11 accumulates a few units of that over some tens of steps.
SOLVER = 1e-9


class Descents(NamedTuple):
    """Margins under descent, shape (runs, steps), with x = η c and the start of each run as columns."""

    x: np.ndarray
    start: np.ndarray
    steps: np.ndarray
    margins: np.ndarray

    @property
    def cases(self) -> dict[str, Any]:
        """How evidence names the cases, and how far many steps are rounded."""
        return {"learning_rate_times_rate": self.x, "step": self.steps, "tolerance": MANY_STEPS}

    def part(self, runs: Any, first: int = 0) -> "Descents":
        """Some of the runs, from a step on."""
        x, start, m = self.x[runs], self.start[runs], self.margins[runs][:, first:]
        return Descents(x, start, self.steps[:, first:], m)


def _descend(x: np.ndarray, start: np.ndarray, at: np.ndarray) -> Descents:
    m = descend_token(x, np.ones(RUNS), at, start)
    return Descents(x[:, None], start[:, None], at[None, :], m)


@functools.lru_cache(maxsize=2)
def descents(seed: int) -> Descents:
    """From zero, x = eta c over eight decades, to a million steps."""
    x = 10 ** rng_for(seed, "binary descents").uniform(-3, 4, RUNS)
    x[:12] = (1e-3, 0.01, 0.1, 0.5, 1.0, 1.8, 1.9, 1.99, 2.0, 2.2, 2.6, 1e4)
    return _descend(x, np.zeros(RUNS), steps_to(1_000_000, dense=256, sparse=48))


@functools.lru_cache(maxsize=2)
def started(seed: int) -> Descents:
    """The same from starts between -30 and 20, to 1e5 steps."""
    rng = rng_for(seed, "binary starts")
    x, start = 10 ** rng.uniform(-4, 5, RUNS), rng.uniform(-30, 20, RUNS)
    return _descend(x, start, steps_to(100_000))


@functools.lru_cache(maxsize=2)
def flows(seed: int) -> tuple[np.ndarray, ...]:
    """Gradient flow to t = 1e12: rates, starts and times that broadcast with the margins, and these."""
    rng = rng_for(seed, "binary flows")
    rate, start = 10 ** rng.uniform(-3, 2, 32), rng.uniform(-20, 5, 32)
    start[:16] = 0.0
    times = np.concatenate([[0.0], np.geomspace(1e-3, 1e12, 49)])
    return rate[:, None], start[:, None], times[None, :], flow_token(rate, times, start)


def encloses(constant: float, exact: arb) -> list[Certificate]:
    """That a constant of the theory is the exact one, rounded up."""
    return [
        proof("the constant that `theory` uses is not below it", arb(constant), ">=", exact),
        proof("nor above it by 10^−15", arb(constant) - exact, "<", arb(10) ** -15),
    ]
