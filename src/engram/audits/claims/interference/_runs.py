"""Runs of two tokens that several checks share."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from engram.audits._evidence import MANY_STEPS
from engram.audits._parameters import Pairs, pairs, random_weights, rng_for
from engram.audits._runs import descend_pairs, flow_pairs, steps_to
from engram.problem import Problem
from engram.theory import interference

RUNS = 96
FLOWS = 64
SOLVER = 1e-8  # rtol 1e-11 over up to thousands of steps, near parallel tokens
TIMES = np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 49)])


class PairRuns(NamedTuple):
    """Half-gaps γ_1 and half-sums γ_2, shape (runs, times), with the parameters of each run as columns."""

    alpha: np.ndarray
    p1: np.ndarray
    c: np.ndarray
    eta: np.ndarray
    at: np.ndarray
    half_gap: np.ndarray
    half_sum: np.ndarray


@functools.lru_cache(maxsize=2)
def descents(seed: int) -> PairRuns:
    """Descents from zero to a million steps."""
    drawn = pairs(rng_for(seed, "pair descents"), RUNS, nearest=1e-3)
    at = steps_to(1_000_000, dense=256, sparse=48)
    m = descend_pairs(*drawn, at)
    return _as_columns(drawn, at, interference.halves(m[..., 0], m[..., 1]))


ALPHAS = np.array([-0.9, -0.5, 0.0, 0.5, 0.9, 1.0])
RATES = np.append(10 ** np.linspace(-1, 1, 15), 100.0)


@functools.cache
def late_descents() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Descents at p_1 = 3/4, c = 2 to a million steps: steps, half-gaps and half-sums, (ALPHAS, RATES, steps)."""
    at = steps_to(1_000_000, dense=256, sparse=48)
    m = descend_pairs(np.repeat(ALPHAS, 16), 0.75, 2.0, np.tile(RATES, 6), at)
    half_gap, half_sum = interference.halves(m[..., 0], m[..., 1])
    return at, half_gap.reshape(6, 16, -1), half_sum.reshape(6, 16, -1)


@functools.lru_cache(maxsize=2)
def flows(seed: int) -> PairRuns:
    """Flows from zero to t = 1e9."""
    drawn = pairs(rng_for(seed, "pair flows"), FLOWS, nearest=3e-3, contrasts=(0.5, 4.0))
    return _as_columns(drawn, TIMES, flow_halves(*drawn[:3]))


def _as_columns(drawn: Pairs, at: np.ndarray, halves: tuple[Any, Any]) -> PairRuns:
    alpha, p1, c, eta = (values[:, None] for values in drawn)
    return PairRuns(alpha, p1, c, eta, at[None, :], *halves)


def flow_halves(alpha: Any, p1: Any, c: Any = 2.0, times: np.ndarray = TIMES) -> tuple[Any, Any]:
    """Half-gaps and half-sums of flows from zero, shape (runs, times)."""
    m = flow_pairs(np.asarray(alpha), p1, c, times)
    return interference.halves(m[..., 0], m[..., 1])


def middle(p1: Any) -> Any:
    return np.log(p1 / (1 - p1)) / 2


def random_pairs(seed: int, name: str) -> Iterator[tuple[Problem, np.ndarray, dict[str, float]]]:
    """Two tokens, weights, and the parameters by name."""
    rng = rng_for(seed, name)
    drawn = pairs(rng, 30, rates=(1e-2, 1e2))
    for alpha, p1, contrast, eta in zip(*drawn, strict=True):
        inputs = [[1.0, 0.0], [alpha, np.sqrt((1 - alpha) * (1 + alpha))]]
        problem = Problem(inputs, np.sqrt(contrast / 2) * np.eye(2), [p1, 1 - p1], [0, 1])
        names = {"learning_rate": eta, "correlation": alpha, "p1": p1, "contrast": contrast}
        yield problem, random_weights(rng, 2, 5.0), names


def cases(run: PairRuns) -> dict[str, Any]:
    """How evidence names the cases of descents over many steps."""
    at = {"correlation": run.alpha, "p1": run.p1, "learning_rate": run.eta, "step": run.at}
    return at | {"tolerance": MANY_STEPS}


BAR = np.log(3) / 2  # γ̄ at p_1 = 3/4
