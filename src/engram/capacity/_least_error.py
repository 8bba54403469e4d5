"""The smallest 0-1 loss that any W reaches, exactly."""

import heapq
import itertools
from typing import NamedTuple

import numpy as np

from engram._checks import check_count
from engram._types import Weights
from engram.capacity._constraints import Constraints, constraints
from engram.capacity._sectors import SAME_ANGLE, turning_angles
from engram.capacity._separability import solve
from engram.problem import Problem


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


def _sweep(problem: Problem, system: Constraints) -> LeastError:
    z, p = system.rows, problem.probs[system.tokens]
    moving = np.abs(z).sum(1) > 0
    angle, turns = turning_angles(z[moving])
    gain = np.concatenate([p[moving], -p[moving]])
    order = np.argsort(turns)
    turns, gain = turns[order], gain[order]
    if len(turns) == 0:
        return _finish(problem, system, np.zeros(2), None)
    # Right just before the first turn, then what each turn adds.
    at = turns[0] - SAME_ANGLE
    begin = p[moving][np.cos(angle - at) > 0].sum()
    widths = np.append(np.diff(turns), turns[0] + 2 * np.pi - turns[-1])
    recalled = np.where(widths > SAME_ANGLE, begin + np.cumsum(gain), -np.inf)
    best = recalled.max()
    # Of the best arcs the widest: its middle is the surest direction.
    chosen = np.argmax(np.where(recalled >= best - 1e-12, widths, -1.0))
    middle = turns[chosen] + widths[chosen] / 2
    return _finish(problem, system, np.array([np.cos(middle), np.sin(middle)]), None)


def _finish(
    problem: Problem, system: Constraints, v: np.ndarray, bound: float | None
) -> LeastError:
    margins = system.rows @ v
    size = np.abs(system.rows).max(initial=0.0)
    forgotten = np.unique(system.tokens[margins <= 1e-15 * size])
    error = float(problem.probs[forgotten].sum())
    bound = error if bound is None else min(bound, error)
    return LeastError(error, bound, system.weights(v), forgotten, bool(error - bound <= 1e-12))


def _branch(problem: Problem, system: Constraints, max_programs: int) -> LeastError:
    p = np.asarray(problem.probs)
    tie = itertools.count()
    queue: list[tuple[float, int, frozenset[int]]] = [(0.0, next(tie), frozenset())]
    seen = {frozenset()}
    cost = 0.0
    for _ in range(max_programs):
        cost, _, dropped = heapq.heappop(queue)
        keep = ~np.isin(system.tokens, list(dropped))
        if not keep.any():
            return _finish(problem, system, np.zeros(system.rows.shape[1]), cost)
        found, v, share = solve(system.rows[keep])
        if found:
            return _finish(problem, system, v, cost)
        conflict = np.unique(system.tokens[keep][share > 1e-9 * share.max()])
        for token in conflict:
            after = dropped | {int(token)}
            if after not in seen:
                seen.add(after)
                heapq.heappush(queue, (float(p[sorted(after)].sum()), next(tie), after))
    return _greedy(problem, system, cost)


def _greedy(problem: Problem, system: Constraints, bound: float) -> LeastError:
    """When the search is cut short: keep tokens by falling frequency, ties in order, while they fit."""
    p = np.asarray(problem.probs)
    kept: list[int] = []
    v = np.zeros(system.rows.shape[1])
    for token in sorted(np.unique(system.tokens).tolist(), key=lambda x: -p[x]):
        found, trial, _ = solve(system.rows[np.isin(system.tokens, [*kept, token])])
        if found:
            kept.append(token)
            v = trial
    return _finish(problem, system, v, bound)
