"""Whether some W recalls everything: a linear program, with a certificate either way."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from engram._types import Weights
from engram.capacity._constraints import constraints
from engram.problem import Problem


class Separation(NamedTuple):
    r"""Whether all tokens can be recalled at once, and why.

    Args:
        is_separable: Whether some W gives every token that occurs a positive margin.
        weights: Such a W, of largest entry 1 in the span's coordinates; None if there is none.
        margin: Its smallest margin: the larger, the surer. Zero if not separable.
        multipliers: If not separable, $\lambda \ge 0$ of sum 1, shape (N, M), with
            $\sum \lambda_{xy} (u_{f^*(x)} - u_y) \otimes e_x = 0$: no W can make all those margins positive.
        residual: How far that sum is from zero, the sum of its absolute entries.
    """

    is_separable: bool
    weights: Weights | None
    margin: float
    multipliers: np.ndarray | None
    residual: float


# Margins are compared in units of the largest row: below this a positive one is not told from zero.
_TOLERANCE = 1e-9


def separate(problem: Problem) -> Separation:
    r"""Decide separability by a linear program, with a witness or a refutation.

    $$\max t \quad\text{such that}\quad (u_{f^*(x)} - u_y)^\top W e_x \ge t,\ \|W\|_\infty \le 1,$$

    whose dual variables are the multipliers (Gordan's alternative). Solved by HiGHS.

    Paper: Section 4; separability decides between its two regimes.
    """
    system = constraints(problem)
    t, v, share = solve(system.rows)
    if t > _TOLERANCE:
        return Separation(True, system.weights(v), float((system.rows @ v).min()), None, 0.0)
    table = np.zeros((problem.num_inputs, problem.num_outputs))
    table[system.tokens, system.classes] = share
    return Separation(False, None, 0.0, table, float(np.abs(share @ system.rows).sum()))


def is_separable(problem: Problem) -> bool:
    """Whether some W recalls every token that occurs, with a positive margin.

    Paper: Section 4.
    """
    return separate(problem).is_separable


def solve(rows: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The largest t with rows @ v >= t in units of the largest row, its v, and the dual variables."""
    count, n = rows.shape
    size = np.abs(rows).max(initial=0.0)
    if size == 0:
        return 0.0, np.zeros(n), np.full(count, 1 / count)
    A = np.hstack([-rows / size, np.ones((count, 1))])
    goal = np.append(np.zeros(n), -1.0)
    bounds = [(-1.0, 1.0)] * n + [(None, None)]
    found = linprog(goal, A_ub=A, b_ub=np.zeros(count), bounds=bounds, method="highs")
    if found.status != 0:
        raise ArithmeticError(f"the linear program did not end: {found.message}")
    share = np.maximum(-found.ineqlin.marginals, 0.0)
    return -found.fun, found.x[:n], share / max(share.sum(), np.finfo(float).tiny)
