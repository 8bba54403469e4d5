"""The smallest 0-1 loss that any W reaches, exactly."""

import heapq
import itertools
from typing import NamedTuple

import numpy as np

from engram._checks import check_count
from engram._types import Weights
from engram.capacity._constraints import Constraints, constraints
from engram.capacity._separability import solve
from engram.problem import Problem

# Angles closer than this are taken as equal: tokens that are opposite up to rounding.
SAME_ANGLE = 1e-12


class LeastError(NamedTuple):
    """The smallest 0-1 loss, between two bounds.

    Args:
        error: The 0-1 loss of `weights`, the best that was found.
        bound: No W has a smaller one. Equal to `error` when the search has ended.
        weights: A W that reaches `error`, with positive margins for all tokens it recalls.
        forgotten: The tokens it does not recall.
        is_exact: Whether the two bounds meet.
    """

    error: float
    bound: float
    weights: Weights
    forgotten: np.ndarray
    is_exact: bool


def min_error(problem: Problem, *, max_programs: int = 5000) -> LeastError:
    """The smallest 0-1 loss of any W, where a margin of zero counts as an error.

    In the plane (two classes, inputs that span two dimensions) by sorting the 2 N angles at which a
    token changes sides: O(N log N). Otherwise by branch and bound: a set of tokens that no W recalls at
    once, as the multipliers of a linear program show, must lose one of its tokens; the cheapest losses
    are tried first.

    Args:
        problem: What is to be recalled.
        max_programs: When to stop; then `is_exact` is false and the truth is between `bound` and `error`.

    Paper: fig:forgetting, the minimum in the excess risk.
    """
    check_count("max_programs", max_programs)
    system = constraints(problem)
    in_plane = problem.num_classes == 2 and system.rows.shape[1] == 2
    return _sweep(problem, system) if in_plane else _branch(problem, system, max_programs)


def turning_angles(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The angles of vectors z, shape (N, 2), and the 2 N directions at which z · g changes its sign.

    The first N turn it positive, the last N negative, counter-clockwise, in [0, 2 pi).
    """
    angle = np.arctan2(z[:, 1], z[:, 0])
    return angle, np.concatenate([angle - np.pi / 2, angle + np.pi / 2]) % (2 * np.pi)


def _sweep(problem: Problem, system: Constraints) -> LeastError:
    z, p = system.rows, problem.probs[system.tokens]
    moving = np.abs(z).sum(1) > 0
    angle, turns = turning_angles(z[moving])
    gain = np.concatenate([p[moving], -p[moving]])
    order = np.argsort(turns)
    turns, gain = turns[order], gain[order]
    if len(turns) == 0:
        return _finish(problem, system, np.zeros(2))
    # Right just before the first turn, then what each turn adds.
    begin = p[moving][np.cos(angle - (turns[0] - SAME_ANGLE)) > 0].sum()
    widths = np.append(np.diff(turns), turns[0] + 2 * np.pi - turns[-1])
    recalled = np.where(widths > SAME_ANGLE, begin + np.cumsum(gain), -np.inf)
    # Of the best arcs the widest: its middle is the surest direction.
    chosen = np.argmax(np.where(recalled >= recalled.max() - 1e-12, widths, -1.0))
    middle = turns[chosen] + widths[chosen] / 2
    return _finish(problem, system, np.array([np.cos(middle), np.sin(middle)]))


def _finish(
    problem: Problem, system: Constraints, v: np.ndarray, bound: float = np.inf
) -> LeastError:
    """The errors of v, above a bound; without one they are the fewest."""
    size = np.abs(system.rows).max(initial=0.0)
    forgotten = np.unique(system.tokens[system.rows @ v <= 1e-15 * size])
    error = float(problem.probs[forgotten].sum())
    bound = min(bound, error)
    return LeastError(error, bound, system.weights(v), forgotten, bool(error - bound <= 1e-12))


def _branch(problem: Problem, system: Constraints, max_programs: int) -> LeastError:
    p, order = np.asarray(problem.probs), itertools.count()
    queue: list[tuple[float, int, frozenset[int]]] = [(0.0, next(order), frozenset())]
    seen, cost = {frozenset()}, 0.0
    for _ in range(max_programs):
        cost, _, dropped = heapq.heappop(queue)
        keep = ~np.isin(system.tokens, list(dropped))
        if not keep.any():
            return _finish(problem, system, np.zeros(system.rows.shape[1]), cost)
        is_separable, v, share = solve(system.rows[keep])
        if is_separable:
            return _finish(problem, system, v, cost)
        conflict = np.unique(system.tokens[keep][share > 1e-9 * share.max()])
        for token in conflict.tolist():
            after = dropped | {token}
            if after not in seen:
                seen.add(after)
                heapq.heappush(queue, (float(p[sorted(after)].sum()), next(order), after))
    return _greedy(problem, system, cost)


def _greedy(problem: Problem, system: Constraints, bound: float) -> LeastError:
    """When the search is cut short: keep tokens by falling frequency, ties in order, while they fit."""
    kept, v = [], np.zeros(system.rows.shape[1])
    tokens = np.unique(system.tokens)
    for token in tokens[np.argsort(-problem.probs[tokens], kind="stable")].tolist():
        fits, trial, _ = solve(system.rows[np.isin(system.tokens, [*kept, token])])
        if fits:
            kept, v = [*kept, token], trial
    return _finish(problem, system, v, bound)
