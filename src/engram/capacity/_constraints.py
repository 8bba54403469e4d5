"""What every question about capacity is asked of: one linear form of W per token and wrong class."""

import functools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from engram._checks import InputError, is_traced
from engram.memory import update_bases
from engram.problem import Problem


@dataclass(frozen=True)
class Constraints:
    """Margins as linear forms of V, where $W = B V A^T$ covers the span in which training moves W.

    Only tokens that occur are in. Large problems are answered without `rows`, which they cannot hold.

    Args:
        inputs: The tokens' embeddings in the coordinates of A.
        outputs: The classes' embeddings in the coordinates of B.
        labels: The tokens' classes.
        seen: Which tokens of the problem they are.
        left: B.
        right: A.
    """

    inputs: np.ndarray
    outputs: np.ndarray
    labels: np.ndarray
    seen: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @functools.cached_property
    def is_wrong(self) -> np.ndarray:
        """Which entries of a table of tokens by classes are margins, shape (N, M)."""
        return np.arange(len(self.outputs))[None, :] != self.labels[:, None]

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """All forms: `rows @ v` are the margins, `v` being the entries of V."""
        return self.rows_of(*np.nonzero(self.is_wrong))

    def rows_of(self, at: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Some of the forms, by token (a place in `inputs`) and class."""
        gaps = self.outputs[self.labels[at]] - self.outputs[classes]
        return (gaps[:, :, None] * self.inputs[at][:, None, :]).reshape(len(at), -1)

    @functools.cached_property
    def tokens(self) -> np.ndarray:
        """Which token each of the `rows` belongs to."""
        return self.seen[np.nonzero(self.is_wrong)[0]]

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """The length of each form, shape (N, M); 1 at a token's own class."""
        gaps = self.outputs[self.labels][:, None, :] - self.outputs[None, :, :]
        lengths = np.linalg.norm(gaps, axis=2) * np.linalg.norm(self.inputs, axis=1)[:, None]
        return np.where(self.is_wrong, lengths, 1.0)

    def margins(self, v: np.ndarray) -> np.ndarray:
        """All margins of V, shape (N, M); infinite against a token's own class."""
        V = v.reshape(self.left.shape[1], self.right.shape[1])
        scores = self.inputs @ V.T @ self.outputs.T
        own = np.take_along_axis(scores, self.labels[:, None], 1)
        return np.where(self.is_wrong, own - scores, np.inf)

    def combine(self, table: np.ndarray) -> np.ndarray:
        """The sum of all forms with the weights of a table, shape (N, M), as a V."""
        table = np.where(self.is_wrong, -table, 0.0)
        np.put_along_axis(table, self.labels[:, None], -table.sum(1, keepdims=True), 1)
        return self.outputs.T @ table.T @ self.inputs

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


def linear_program(goal: np.ndarray, deadline: float = np.inf, **options: Any) -> Any:
    """Solve a linear program by HiGHS. One that does not end is an error, by its deadline a TimeoutError."""
    from scipy.optimize import linprog  # loads for half a second, which few commands need

    seconds = deadline - time.monotonic()
    limits = {} if np.isinf(deadline) else {"time_limit": max(seconds, 0.0)}
    result = linprog(goal, method="highs", options=limits, **options)
    if result.status == 1 and limits:
        raise TimeoutError(result.message)
    if result.status != 0:
        raise ArithmeticError(f"the linear program did not end: {result.message}")
    return result


def constraints(problem: Problem) -> Constraints:
    """The margins of a problem, in coordinates of the span in which training moves W."""
    if is_traced(problem):
        raise InputError(
            "`problem` must be concrete here: a program is solved for it. Call it outside of jit."
        )
    if problem.is_noisy:
        raise InputError("`problem` must have certain targets: noisy ones cannot all be stored.")
    B, A = (np.asarray(basis, float) for basis in update_bases(problem))
    seen = np.flatnonzero(np.asarray(problem.probs) > 0)
    E, U = np.asarray(problem.inputs[seen] @ A, float), np.asarray(problem.outputs @ B, float)
    return Constraints(E, U, np.asarray(problem.labels)[seen], seen, B, A)
