"""To and from weights: particles see all of W but a part that no token reads."""

import numpy as np

from engram._checks import InputError, is_traced
from engram._precision import compiled
from engram._types import ArrayLike, Scores, Weights
from engram.particles._entry import read_particles, read_weights
from engram.problem import Problem


def weights_to_scores(problem: Problem, W: ArrayLike) -> Scores:
    r"""The particles of given weights, $w_{ij} = \langle u_j, W e_i \rangle$.

    Paper: eq:particles.
    """
    return _to_scores(problem, read_weights(problem, "W", W))


@compiled()
def _to_scores(problem: Problem, W: Weights) -> Scores:
    return problem.inputs @ (problem.outputs @ W).T


def coefficients_to_weights(problem: Problem, coefficients: ArrayLike, start: ArrayLike) -> Weights:
    r"""Weights reached by updates with these coefficients, $W_0 + \sum C_{xy}\, u_y \otimes e_x$.

    Every gradient update has this form; unlike `scores_to_weights`, it inverts nothing.

    Paper: eq:grad.
    """
    C = read_particles(problem, "coefficients", coefficients)
    return _to_weights(problem, C, read_weights(problem, "start", start))


@compiled()
def _to_weights(problem: Problem, C: Scores, start: Weights) -> Weights:
    return start + problem.outputs.T @ C.T @ problem.inputs


def scores_to_weights(
    problem: Problem, scores: ArrayLike, start: ArrayLike | None = None
) -> Weights:
    r"""The weights with these scores that agree with `start` wherever no score can see.

    Scores see only the part of W between the span of the outputs and the span of the inputs;
    the rest never moves, and is taken from `start` (zero by default). Inverting the embeddings
    loses digits in proportion to their condition number; scores that no W has are an error.

    Paper: thm:inter, with $\Pi_\perp W_0$ of thm:ortho-bin.
    """
    w = read_particles(problem, "scores", scores)
    if is_traced(problem, w, start):
        raise InputError(
            "`scores` must be concrete here: they are checked for consistency. Call it outside of jit."
        )
    E, U = np.asarray(problem.inputs), np.asarray(problem.outputs)
    w = np.asarray(w, dtype=E.dtype)
    W = np.linalg.pinv(U) @ w.T @ np.linalg.pinv(E).T
    # An inconsistent score shows up whole; a consistent one only through rounding.
    missed = np.abs(E @ (U @ W).T - w).max()
    condition = np.linalg.norm(np.linalg.pinv(U), 2) * np.linalg.norm(np.linalg.pinv(E), 2)
    size = np.abs(w).max() * max(1.0, condition * np.linalg.norm(U, 2) * np.linalg.norm(E, 2))
    if not missed <= 1e3 * max(E.shape + U.shape) * np.finfo(E.dtype).eps * size:
        raise InputError(
            f"`scores` belong to no W: the nearest weights miss them by {missed:.3g}. With N > d or "
            "M > k scores are not free; take them from `weights_to_scores` or from a run."
        )
    return W if start is None else W + unseen_part(problem, start)


def unseen_part(problem: Problem, W: ArrayLike) -> Weights:
    """The part of W that no score depends on; it is orthogonal to every update and never moves.

    Paper: thm:ortho-bin.
    """
    E, U = np.asarray(problem.inputs), np.asarray(problem.outputs)
    W = np.asarray(read_weights(problem, "W", W), dtype=E.dtype)
    return W - (np.linalg.pinv(U) @ U) @ W @ (np.linalg.pinv(E) @ E)
