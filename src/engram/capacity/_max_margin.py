"""The max-margin weights: the hard-margin multi-class problem, by quadratic programming."""

import importlib
from typing import Any

import numpy as np

from engram._checks import InputError
from engram._types import Weights
from engram.capacity._constraints import constraints, unit_rows
from engram.capacity._separability import is_separable
from engram.problem import Problem


def max_margin(problem: Problem) -> Weights:
    r"""The smallest W with every margin at least 1: the direction that long training takes.

    $$\min \|W\|^2 \quad\text{such that}\quad (u_{f^*(x)} - u_y)^\top W e_x \ge 1
    \quad\text{for all } x \text{ with } p(x) > 0,\ y \ne f^*(x).$$

    Solved by Clarabel to about 1e-8. If no W has positive margins, that is an error.

    Paper: thm:multi, thm:two-flow; closed forms exist in both.
    """
    system = constraints(problem)
    rows, length = unit_rows(system.rows)
    if (length > 0).all():
        # Margins of at least 1, in units in which the right sides are at most 1.
        unit = length.min()
        uneven = length.max() > 1e3 * unit
        v = None if uneven else _interior_point(rows, unit / length)
        if v is None and is_separable(problem, time_limit=None):
            v = _least_distance(rows, unit / length)
        if v is not None:
            return system.weights(v / unit)
    raise InputError(
        "`problem` must be separable, and no W gives all its tokens positive margins. There is no "
        "max-margin direction; `capacity.separate` has the multipliers that prove it."
    )


def _interior_point(rows: np.ndarray, least: np.ndarray) -> np.ndarray | None:
    """The shortest v with rows @ v >= least, by Clarabel; None if it finds none."""
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
    return v if solved and (rows @ v >= (1 - 1e-6) * least).all() else None


def _least_distance(rows: np.ndarray, least: np.ndarray) -> np.ndarray:
    """The shortest v with rows @ v >= least, by Lawson and Hanson's reduction to non-negative least squares.

    Slower than the interior-point solver, and right where tokens of very unequal length defeat that.
    """
    E = np.vstack([rows.T, least])
    goal = np.append(np.zeros(rows.shape[1]), 1.0)
    from scipy.optimize import nnls

    multipliers, _ = nnls(E, goal)
    rest = E @ multipliers - goal
    return -rest[:-1] / rest[-1]
