"""The max-margin weights: the hard-margin multi-class problem, by quadratic programming."""

import importlib
from typing import Any

import numpy as np
from scipy import sparse

from engram._checks import InputError
from engram._types import Weights
from engram.capacity._constraints import constraints
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
    n = rows.shape[1]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    solver = clarabel.DefaultSolver(
        sparse.identity(n, format="csc"),
        np.zeros(n),
        sparse.csc_matrix(-rows),
        -np.ones(len(rows)),
        [clarabel.NonnegativeConeT(len(rows))],
        settings,
    )
    solution = solver.solve()
    solved = str(solution.status) in ("Solved", "AlmostSolved")
    v = np.asarray(solution.x)
    if not solved or (rows @ v).min() < 1 - 1e-6:
        raise InputError(
            "`problem` must be separable, and no W gives all its tokens positive margins "
            f"(the solver says: {solution.status}). There is no max-margin direction."
        )
    return system.weights(v)
