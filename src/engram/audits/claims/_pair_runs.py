"""Runs of two tokens that several checks share."""

import functools
from typing import Any

import numpy as np

from engram.audits._parameters import Pairs, pairs, rng_for
from engram.audits._runs import descend_pairs, flow_pairs, steps_to
from engram.theory import interference

RUNS = 96
FLOWS = 64
SOLVER = 1e-8  # rtol 1e-11 over up to thousands of steps, near parallel tokens
TIMES = np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 49)])


@functools.lru_cache(maxsize=2)
def descents(seed: int) -> tuple[Pairs, np.ndarray, np.ndarray, np.ndarray]:
    """Descents from zero to a million steps: parameters, steps, half-gaps, half-sums."""
    drawn = pairs(rng_for(seed, "pair descents"), RUNS, nearest=1e-3)
    at = steps_to(1_000_000, dense=256, sparse=48)
    m = descend_pairs(*drawn, at)
    return drawn, at, *interference.halves(m[..., 0], m[..., 1])


@functools.lru_cache(maxsize=2)
def flows(seed: int) -> tuple[Pairs, np.ndarray, np.ndarray]:
    """Flows from zero to t = 1e9: parameters, half-gaps, half-sums."""
    drawn = pairs(rng_for(seed, "pair flows"), FLOWS, nearest=3e-3, contrasts=(0.5, 4.0))
    m = flow_pairs(*drawn[:3], TIMES)
    return drawn, *interference.halves(m[..., 0], m[..., 1])


def middle(p1: Any) -> Any:
    return np.log(p1 / (1 - p1)) / 2


def columns(drawn: Pairs) -> tuple[np.ndarray, ...]:
    return tuple(values[:, None] for values in drawn)
