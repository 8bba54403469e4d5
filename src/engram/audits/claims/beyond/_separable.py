"""Separable problems drawn at random, their flows to t = 1e50 and descents, which the checks of J1 share."""

import functools
from typing import NamedTuple

import numpy as np

from engram._checks import InputError
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_problems, flow_problems
from engram.capacity import max_margin_multipliers
from engram.problem import Problem
from engram.theory import separable

RUNS, TOKENS, CLASSES, DIM = 16, 4, 3, 5
TIMES = 10.0 ** np.arange(1, 51)
STEPS = np.unique(np.geomspace(10, 4e5, 21).round().astype(int))
NOISE = 1e-8  # of margins up to 115 by a solver at rtol 1e-11


class Run(NamedTuple):
    """A problem, multipliers of its max-margin problem, margins (times, N, M) and loss of one run from a random start."""

    problem: Problem
    given: np.ndarray
    limit: separable.Limit
    margins: np.ndarray
    loss: np.ndarray
    learning_rate: float = 0.0

    @property
    def support(self) -> np.ndarray:
        return np.asarray(self.limit.multipliers) > 0


def _draw(rng: np.random.Generator, slowest: float) -> tuple[Problem, np.ndarray, separable.Limit]:
    """A separable problem whose least exponent is not below `slowest` and stands apart from the next.

    Up to 4 tokens (the others do not occur) and 5 dimensions (the others are zero), so that one program serves all.
    """
    while True:
        N, d = rng.integers(2, TOKENS + 1), rng.integers(2, DIM + 1)
        inputs, outputs, probs = np.zeros((TOKENS, DIM)), np.zeros((CLASSES, DIM)), np.zeros(TOKENS)
        inputs[:, :d], outputs[:, :d] = rng.normal(size=(TOKENS, d)), rng.normal(size=(CLASSES, d))
        probs[:N] = rng.dirichlet(np.full(N, 3.0))
        problem = Problem(inputs, outputs, probs, rng.integers(0, CLASSES, TOKENS))
        try:
            given = max_margin_multipliers(problem)
        except InputError:  # not separable
            continue
        if given.sum() > 1e4:
            continue
        limit = separable.limit(problem, given)
        first, second = exponents(problem, limit)[:2]
        apart = second >= 1.5 * first and (first == 1 or first <= 0.7)
        if first >= slowest and apart and limit.eigenvalues[-1] <= 60 and not limit.excluded.any():
            return problem, given, limit


def exponents(problem: Problem, limit: separable.Limit) -> np.ndarray:
    """1, the positive eigenvalues and all slacks less 1, rising; what occurs twice once; the last is infinite.

    What is 1 up to rounding is exactly 1, so that every machine draws the same problems.
    """
    scores = (
        np.asarray(problem.inputs) @ np.asarray(limit.weights).T @ np.asarray(problem.outputs).T
    )
    slack = _margins(problem, scores[None])[0][is_slack(problem, limit)] - 1
    every = np.array([1.0, *np.asarray(limit.eigenvalues), *slack, np.inf])
    every = np.sort(np.where(np.abs(every - 1) < 1e-9, 1.0, every))
    return every[np.append(True, np.diff(np.minimum(every, 1e9)) > 1e-9)]


def is_slack(problem: Problem, limit: separable.Limit) -> np.ndarray:
    """Which margins of tokens that occur are above 1 in the limit's direction."""
    wrong = np.arange(CLASSES) != np.asarray(problem.labels)[:, None]
    return wrong & np.isnan(limit.offsets) & (np.asarray(problem.probs) > 0)[:, None]


def _margins(problem: Problem, scores: np.ndarray) -> np.ndarray:
    labels = np.broadcast_to(np.asarray(problem.labels)[None, :, None], (len(scores), TOKENS, 1))
    return np.take_along_axis(scores, labels, 2) - scores


def _loss(problem: Problem, margins: np.ndarray) -> np.ndarray:
    wrong = np.arange(CLASSES) != np.asarray(problem.labels)[:, None]
    each = np.logaddexp.reduce(np.where(wrong, -margins, -np.inf), axis=2)
    return np.logaddexp(0.0, each) @ np.asarray(problem.probs)


@functools.lru_cache(maxsize=2)
def flows(seed: int) -> list[Run]:
    """Flows to t = 1e50, so late that powers as slow as t^-0.15 are seen to their end."""
    rng = rng_for(seed, "separable flows")
    drawn = [_draw(rng, 0.15) for _ in range(RUNS)]
    scores = flow_problems([q for q, *_ in drawn], rng.normal(size=(RUNS, DIM, DIM)), TIMES)
    return _as_runs(drawn, scores, np.zeros(RUNS))


@functools.lru_cache(maxsize=2)
def descents(seed: int) -> list[Run]:
    """Descents of 400,000 steps that the clock alone sets, long enough to see the logarithm in the loss.

    No step is so long that its margin takes e^m more to come back.
    """
    rng = rng_for(seed, "separable descents")
    drawn, rates = [], []
    while len(drawn) < RUNS // 2:
        problem, given, limit = _draw(rng, 1.0)
        longest = np.square(problem.inputs).sum(1).max() * np.square(problem.outputs).sum(1).max()
        eta = 10 ** rng.uniform(0.0, 1.0) / longest
        a, p = np.asarray(limit.multipliers), np.asarray(problem.probs)
        if 2000 * (a.sum(1) ** 2 / np.where(p > 0, p, 1.0)).sum() / a.sum() <= eta * STEPS[-1]:
            drawn.append((problem, given, limit))
            rates.append(eta)
    start = 0.1 * rng.normal(size=(len(drawn), DIM, DIM))
    scores = descend_problems([q for q, *_ in drawn], start, np.array(rates), STEPS)
    return _as_runs(drawn, scores, np.array(rates))


@functools.cache
def two_margins(second: float, other: float) -> Run:
    """Two tokens of one class, z = (1, `second`) and (1, `other`), from zero; the third class is out of the way."""
    inputs, outputs = np.zeros((TOKENS, DIM)), np.zeros((CLASSES, DIM))
    inputs[:2, :2], outputs[:, 0] = [[1.0, second], [1.0, other]], [1.0, 0.0, -1.0]
    problem = Problem(inputs, outputs, [0.7, 0.3, 0.0, 0.0], np.zeros(TOKENS, int))
    given = max_margin_multipliers(problem)
    scores = flow_problems([problem] * RUNS, np.zeros((RUNS, DIM, DIM)), TIMES)[:1]
    return _as_runs([(problem, given, separable.limit(problem, given))], scores, np.zeros(1))[0]


def _as_runs(drawn: list, scores: np.ndarray, eta: np.ndarray) -> list[Run]:
    runs = []
    for (problem, given, limit), values, rate in zip(drawn, np.asarray(scores), eta, strict=True):
        margins = _margins(problem, values)
        loss = _loss(problem, margins)
        runs.append(Run(problem, given, limit, margins, loss, float(rate)))
    return runs
