"""How little a memory could err: a W that is known, and a bound that none goes below."""

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from engram import memory
from engram.capacity import min_error
from engram.problem import Problem

_ENTRIES = 2**17  # of the linear program that is still solved
_PROGRAMS = 200
_STEPS = 300  # of training, at most
_OPERATIONS = 1e11  # that training may take


class Possible(NamedTuple):
    """The least error that some W is known to reach, and what no W goes below."""

    error: float
    bound: float


def least_error(problem: Problem) -> Possible:
    """What is possible, where a margin of zero counts as an error and the likeliest class as the target.

    Exactly for small problems. Otherwise by training, from least squares on, as long as that takes some
    seconds. What cannot be: tokens of the same input exclude each other if their targets differ, and a
    target is excluded whose output another class has, too.
    """
    certain = eqx.tree_at(lambda p: p.targets, problem, np.asarray(problem.labels))
    known, bound = _by_training(certain), _bound(certain)
    num_rows = problem.num_tokens * problem.num_classes
    if num_rows * problem.dim * problem.output_dim <= _ENTRIES:
        best = min_error(certain, max_programs=_PROGRAMS)
        known, bound = min(known, best.error), max(bound, best.bound)
    return Possible(float(known), float(bound))


def _by_training(problem: Problem) -> float:
    """The least error on the way of L-BFGS down the cross-entropy, from least squares on."""
    from scipy.optimize import minimize  # loads for half a second

    E, U, p = (np.asarray(x) for x in (problem.inputs, problem.outputs, problem.probs))
    start = np.linalg.lstsq(E, (U - U.mean(axis=0))[problem.labels], rcond=None)[0].T
    margins = lambda W: np.asarray(memory.margins(problem, W.reshape(start.shape)))
    least = p[margins(start) <= 0].sum()

    def see(intermediate_result: Any) -> None:
        nonlocal least
        least = min(least, p[margins(intermediate_result.x) <= 0].sum())
        if least == 0:
            raise StopIteration

    def value(W: np.ndarray) -> tuple[float, np.ndarray]:
        loss, grad = memory.loss_and_grad(problem, W.reshape(start.shape))
        return float(loss), np.asarray(grad).ravel()

    products = 6 * problem.num_tokens * (problem.num_classes + problem.dim) * problem.output_dim
    steps = min(_STEPS, int(_OPERATIONS // products))
    if least > 0 and steps:
        minimize(
            value,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=see,
            options={"maxiter": steps},
        )
    return float(least)


def _bound(problem: Problem) -> float:
    """The error of whoever can tell any two inputs apart that differ, and any two outputs."""
    p, labels = np.asarray(problem.probs), np.asarray(problem.labels)
    twins = _groups(problem.outputs)
    can_win = np.bincount(twins)[twins[labels]] == 1
    gained: dict[tuple[int, int], float] = {}
    for token, group in enumerate(_groups(problem.inputs)):
        place = (int(group), int(labels[token]))
        gained[place] = gained.get(place, 0.0) + p[token] * can_win[token]
    best: dict[int, float] = {}
    for (group, _), share in gained.items():
        best[group] = max(best.get(group, 0.0), share)
    return max(0.0, float(p.sum() - sum(best.values())))


def _groups(rows: Any) -> np.ndarray:
    """Which rows are the same, as numbers of groups."""
    return np.unique(np.asarray(rows), axis=0, return_inverse=True)[1].ravel()
