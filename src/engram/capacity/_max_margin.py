"""The max-margin weights: the hard-margin multi-class problem, by quadratic programming."""

import importlib
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import nnls

from engram._checks import InputError
from engram._types import Weights
from engram.capacity._constraints import constraints
from engram.capacity._separability import separate
from engram.problem import Problem


def max_margin(problem: Problem) -> Weights:
    r"""The smallest W with every margin at least 1: the direction that long training takes.

    $$\min \|W\|^2 \quad\text{such that}\quad (u_{f^*(x)} - u_y)^\top W e_x \ge 1
    \quad\text{for all } x \text{ with } p(x) > 0,\ y \ne f^*(x).$$

    Solved by Clarabel to about 1e-8. If no W has positive margins, that is an error.

    Paper: thm:multi, thm:two-flow; closed forms exist in both.
    """
    clarabel: Any = importlib.import_module("clarabel")  # it has no types
    system = constraints(problem)
    rows = system.rows
    # Rows of unit length and right sides of at most 1: tokens of any lengths are then alike to the solver.
    length = np.linalg.norm(rows, axis=1)
    uneven = len(length) > 0 and length.min() > 0 and length.max() > 1e3 * length.min()
    n, unit = rows.shape[1], length.min() if len(length) and length.min() > 0 else 1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    solver = clarabel.DefaultSolver(
        sparse.identity(n, format="csc"),
        np.zeros(n),
        sparse.csc_matrix(-rows / np.where(length > 0, length, 1.0)[:, None]),
        -unit / np.where(length > 0, length, unit),
        [clarabel.NonnegativeConeT(len(rows))],
        settings,
    )
    solution = solver.solve()
    v = np.asarray(solution.x) / unit
    solved = str(solution.status) in ("Solved", "AlmostSolved") and (rows @ v).min() >= 1 - 1e-6
    if solved and not uneven:
        return system.weights(v)
    if separate(problem).is_separable:
        return system.weights(_least_distance(rows / length[:, None], unit / length) / unit)
    raise InputError(
        "`problem` must be separable, and no W gives all its tokens positive margins. There is no "
        "max-margin direction; `capacity.separate` has the multipliers that prove it."
    )


def _least_distance(rows: np.ndarray, least: np.ndarray) -> np.ndarray:
    """The shortest v with rows @ v >= least, by Lawson and Hanson's reduction to non-negative least squares.

    Slower than the interior-point solver, and right where tokens of very unequal length defeat that.
    """
    E = np.vstack([rows.T, least])
    goal = np.append(np.zeros(rows.shape[1]), 1.0)
    multipliers, _ = nnls(E, goal)
    rest = E @ multipliers - goal
    return -rest[:-1] / rest[-1]
