"""Whether some W recalls everything: a linear program, with a certificate either way."""

from typing import NamedTuple

import numpy as np

from engram._types import Weights
from engram.capacity._constraints import constraints, linear_program, unit_rows
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


# Each margin is measured in units of its own row: below this a positive one is not told from zero.
_TOLERANCE = 1e-9


def separate(problem: Problem) -> Separation:
    r"""Decide separability by a linear program, with a witness or a refutation.

    $$\max t \quad\text{such that}\quad (u_{f^*(x)} - u_y)^\top W e_x \ge t,\ \|W\|_\infty \le 1,$$

    whose dual variables are the multipliers (Gordan's alternative). Solved by HiGHS.

    Paper: Section 4; separability decides between its two regimes.
    """
    system = constraints(problem)
    found, v, share = solve(system.rows)
    if found:
        return Separation(True, system.weights(v), float((system.rows @ v).min()), None, 0.0)
    table = np.zeros((problem.num_tokens, problem.num_classes))
    table[system.tokens, system.classes] = share
    return Separation(False, None, 0.0, table, float(np.abs(share @ system.rows).sum()))


def is_separable(problem: Problem) -> bool:
    """Whether some W recalls every token that occurs, with a positive margin.

    Paper: Section 4.
    """
    return separate(problem).is_separable


def solve(rows: np.ndarray) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether some v has rows @ v > 0, such a v, and the multipliers that refute it if there is none.

    By the largest t with rows @ v >= t, each row in units of its own length.
    """
    unit, length = unit_rows(rows)
    count, n = rows.shape
    if (length == 0).any():
        zero = length == 0  # a margin that is always zero refutes by itself
        return False, np.zeros(n), zero / zero.sum()
    found = linear_program(
        np.append(np.zeros(n), -1.0),
        A_ub=np.hstack([-unit, np.ones((count, 1))]),
        b_ub=np.zeros(count),
        bounds=[(-1.0, 1.0)] * n + [(None, None)],
    )
    share = np.maximum(-found.ineqlin.marginals, 0.0) / length
    share = share / max(share.sum(), np.finfo(float).tiny)
    return bool(-found.fun > _TOLERANCE), found.x[:n], share
