"""What every question about capacity is asked of: one linear form of W per token and wrong class."""

from typing import Any, NamedTuple

import numpy as np

from engram._checks import InputError, is_traced
from engram.memory import update_bases
from engram.problem import Problem


class Constraints(NamedTuple):
    """Margins as linear forms: `rows @ v` are those of $W = B V A^T$, `v` being the entries of V.

    Only tokens that occur are in; `tokens[k]` and `classes[k]` say which margin row k is.
    """

    rows: np.ndarray
    tokens: np.ndarray
    classes: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def weights(self, v: np.ndarray) -> np.ndarray:
        """The W that entries `v` stand for."""
        B, A = self.left, self.right
        return B @ v.reshape(B.shape[1], A.shape[1]) @ A.T


def unit_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in units of their own length, and the lengths; a row of zeros stays one.

    The signs of margins do not depend on the lengths, and solvers should not either.
    """
    length = np.linalg.norm(rows, axis=1)
    return rows / np.where(length > 0, length, 1.0)[:, None], length


def linear_program(goal: np.ndarray, **options: Any) -> Any:
    """Solve a linear program by HiGHS; one that does not end is an error."""
    from scipy.optimize import linprog  # loads for half a second, which few commands need

    found = linprog(goal, method="highs", **options)
    if found.status != 0:
        raise ArithmeticError(f"the linear program did not end: {found.message}")
    return found


def constraints(problem: Problem) -> Constraints:
    """The margins of a problem, in coordinates of the span in which training moves W."""
    if is_traced(problem):
        raise InputError("`problem` must be concrete here: a program is solved for it.")
    if problem.is_noisy:
        raise InputError("`problem` must have certain targets: noisy ones cannot all be stored.")
    B, A = update_bases(problem)
    seen = np.flatnonzero(np.asarray(problem.probs) > 0)
    E, U, label = problem.inputs[seen] @ A, problem.outputs @ B, problem.labels[seen]
    gaps = U[label][:, None, :] - U[None, :, :]
    wrong = np.arange(len(U))[None, :] != label[:, None]
    rows = np.einsum("xyi,xj->xyij", gaps, E)[wrong].reshape(wrong.sum(), -1)
    at, classes = np.nonzero(wrong)
    return Constraints(np.asarray(rows, float), seen[at], classes, np.asarray(B), np.asarray(A))
