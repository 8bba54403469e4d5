"""The max-margin weights: the hard-margin multi-class problem, by quadratic programming."""

import importlib
from typing import Any

import numpy as np

from engram._checks import InputError
from engram._types import Weights
from engram.capacity._constraints import Constraints, constraints, unit_rows
from engram.capacity._separability import is_separable
from engram.problem import Problem

_REFINEMENTS = 20


def max_margin(problem: Problem) -> Weights:
    r"""The smallest W with every margin at least 1: the direction that long training takes.

    $$\min \|W\|^2 \quad\text{such that}\quad (u_{f^*(x)} - u_y)^\top W e_x \ge 1
    \quad\text{for all } x \text{ with } p(x) > 0,\ y \ne f^*(x).$$

    Solved by Clarabel, then to rounding on its support. If no W has positive margins, that is an error.

    Paper: thm:multi, thm:two-flow; closed forms exist in both.
    """
    system, table = _solve(problem)
    return system.weights(system.combine(table).ravel())


def max_margin_multipliers(problem: Problem) -> np.ndarray:
    r"""Multipliers $a \ge 0$ of the max-margin problem, shape (N, M), to rounding.

    $W_{mm} = \sum_{x,y} a_{xy} (u_{f^*(x)} - u_y) \otimes e_x$, where only margins of exactly 1 have
    $a_{xy} > 0$; their sum is $\|W_{mm}\|^2$. If several $a$ do, this is one of them.
    `theory.separable` says what follows for long training.

    Paper: not in the paper; thm:two-flow and thm:multi have $a$ in closed form.
    """
    system, table = _solve(problem)
    multipliers = np.zeros((problem.num_tokens, problem.num_classes))
    multipliers[system.seen] = table
    return multipliers


def _solve(problem: Problem) -> tuple[Constraints, np.ndarray]:
    """The constraints and a table of multipliers, one row for each token that occurs."""
    system = constraints(problem)
    rows, length = unit_rows(system.rows)
    if (length > 0).all():
        # Margins of at least 1, in units in which the right sides are at most 1.
        unit = length.min()
        uneven = length.max() > 1e3 * unit
        share = None if uneven else _interior_point(rows, unit / length)
        if share is None and is_separable(problem, time_limit=None):
            share = _least_distance(rows, unit / length)
        if share is not None:
            table = np.zeros(system.is_wrong.shape)
            table[system.is_wrong] = _refine(rows, unit / length, share) / (unit * length)
            return system, table
    raise InputError(
        "`problem` must be separable, and no W gives all its tokens positive margins. There is no "
        "max-margin direction; `capacity.separate` has the multipliers that prove it."
    )


def _refine(rows: np.ndarray, least: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    """Multipliers to rounding: on a support the margins are a linear system, and the support is corrected.

    What turns negative leaves the support, and what falls short joins it. Where that does not end,
    Lawson and Hanson's algorithm starts from nothing.
    """
    support = multipliers > 1e-6 * multipliers.max()
    for _ in range(_REFINEMENTS):
        a, Z = np.where(support, multipliers, 0.0)[support], rows[support]
        gram = Z @ Z.T
        for _ in range(2):  # the second solves for what rounding left
            a = a + np.linalg.lstsq(gram, least[support] - gram @ a, rcond=1e-13)[0]
        short = rows @ (Z.T @ a) < least * (1 - 1e-9)
        bad = a < -1e-12 * a.max()
        if not bad.any() and not short.any():
            break
        support[np.flatnonzero(support)[bad]] = False
        support |= short
    else:
        return _least_distance(rows, least)
    refined = np.zeros(len(rows))
    refined[support] = np.maximum(a, 0.0)
    return refined


def _interior_point(rows: np.ndarray, least: np.ndarray) -> np.ndarray | None:
    """Multipliers of the shortest v with rows @ v >= least, by Clarabel; None if it finds none."""
    from scipy import sparse

    clarabel: Any = importlib.import_module("clarabel")  # it has no types
    n = rows.shape[1]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    solution = clarabel.DefaultSolver(
        sparse.identity(n, format="csc"),
        np.zeros(n),
        sparse.csc_matrix(-rows),
        -least,
        [clarabel.NonnegativeConeT(len(rows))],
        settings,
    ).solve()
    v = np.asarray(solution.x)
    solved = str(solution.status) in ("Solved", "AlmostSolved")
    found = solved and (rows @ v >= (1 - 1e-6) * least).all()
    return np.asarray(solution.z) if found else None


def _least_distance(rows: np.ndarray, least: np.ndarray) -> np.ndarray:
    """The same by Lawson and Hanson's reduction to non-negative least squares.

    Slower than the interior-point solver, and right where tokens of very unequal length defeat that.
    """
    E = np.vstack([rows.T, least])
    goal = np.append(np.zeros(rows.shape[1]), 1.0)
    from scipy.optimize import nnls

    multipliers, _ = nnls(E, goal)
    return multipliers / (1 - least @ multipliers)
