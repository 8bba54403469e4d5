"""Recall and curvature at many weights at once: dense NumPy algebra for small problems, without compiling."""

from typing import NamedTuple

import numpy as np

from engram._checks import check_floats
from engram._types import ArrayLike
from engram.memory._span import update_bases
from engram.problem import Problem

ROOM = 2**23  # numbers at a time, in the largest array of a block of points


class Recall(NamedTuple):
    """How points recall tokens: losses (G, N), probabilities of wrong (G, N, M - 1) and right (G, N, 1)."""

    losses: np.ndarray
    wrong: np.ndarray
    right: np.ndarray


def recall(m: np.ndarray) -> Recall:
    """From margins against the wrong classes, (G, N, M - 1), without overflow."""
    if m.shape[-1] == 1:  # two classes: no sums over one term, which are slow
        less = np.exp(-np.abs(m))
        losses = (np.log1p(less) + np.maximum(-m, 0.0))[..., 0]
        small, great = less / (1 + less), 1 / (1 + less)
        return Recall(losses, np.where(m > 0, small, great), np.where(m > 0, great, small))
    top = np.maximum(-m.min(-1, keepdims=True), 0.0)
    mass = np.exp(-m - top)
    total = np.exp(-top) + mass.sum(-1, keepdims=True)
    return Recall((np.log(total) + top)[..., 0], mass / total, np.exp(-top) / total)


def is_wrong(problem: Problem) -> np.ndarray:
    """Which classes are not a token's own, (N, M)."""
    return np.arange(problem.num_classes)[None, :] != np.asarray(problem.labels)[:, None]


def wrong_margins(problem: Problem, W: np.ndarray) -> np.ndarray:
    """Margins of weights, one (k, d) or many (..., k, d), against the wrong classes: (..., N, M - 1)."""
    w = np.asarray(problem.inputs) @ np.swapaxes(W, -1, -2) @ np.asarray(problem.outputs).T
    own = np.take_along_axis(
        w, np.asarray(problem.labels)[:, None] + np.zeros_like(w[..., :1], int), -1
    )
    return (own - w)[..., is_wrong(problem)].reshape(*w.shape[:-1], -1)


def span_size(problem: Problem) -> int:
    """How many directions of W the updates span."""
    B, A = update_bases(problem)
    return B.shape[1] * A.shape[1]


def block_size(problem: Problem, *, curved: bool) -> int:
    """How many points fit into the room, with or without their Hessians."""
    each = problem.num_tokens * problem.num_classes
    if curved:
        outputs = update_bases(problem)[0].shape[1]
        each = max(each * outputs, problem.num_tokens * outputs**2, span_size(problem) ** 2)
    return max(1, min(4096, ROOM // max(each, 1)))


def eigenvalues(problem: Problem, recalled: Recall) -> np.ndarray:
    """The Hessian's eigenvalues over the span of the updates, in falling order, (G, n).

    Outputs are measured from the likeliest class: their mean is then small where one class has nearly all
    the mass, and the square of the mean takes no digits from the mean of the squares.
    """
    B, A = (np.asarray(basis) for basis in update_bases(problem))
    N, G = recalled.wrong.shape[1], len(recalled.wrong)
    spread = (
        _two_spread(problem, B, recalled)
        if recalled.wrong.shape[2] == 1
        else _spread(problem, B, recalled)
    )
    E = problem.inputs @ A
    weighted = np.asarray(problem.probs)[:, None, None] * E[:, :, None] * E[:, None, :]  # (N, s, s)
    r, s = B.shape[1], A.shape[1]
    H = spread.reshape(G, N, r * r).transpose(0, 2, 1) @ weighted.reshape(N, s * s)
    H = H.reshape(G, r, r, s, s).transpose(0, 1, 3, 2, 4).reshape(G, r * s, r * s)
    return np.linalg.eigvalsh(H)[:, ::-1]


def _spread(problem: Problem, B: np.ndarray, recalled: Recall) -> np.ndarray:
    """The covariance of outputs under the recall probabilities, token by token, (G, N, r, r)."""
    wrong = is_wrong(problem)
    order = np.argsort(~wrong, axis=1, kind="stable")  # the wrong classes as in q, then the target
    U = (problem.outputs @ B)[order]  # (N, M, r)
    Q = np.concatenate([recalled.wrong, recalled.right], axis=-1)  # (G, N, M)
    likeliest = U[np.arange(len(wrong)), Q.argmax(-1)]  # (G, N, r)
    D = U - likeliest[:, :, None, :]
    mean = np.einsum("gxk,gxki->gxi", Q, D)
    square = np.einsum("gxki,gxkj->gxij", Q[..., None] * D, D)
    return square - mean[..., :, None] * mean[..., None, :]


def _two_spread(problem: Problem, B: np.ndarray, recalled: Recall) -> np.ndarray:
    """The same for two classes: q (1 - q) along the one difference."""
    u = (problem.outputs[0] - problem.outputs[1]) @ B
    return (recalled.wrong * recalled.right)[..., None] * (u[:, None] * u)


def largest(values: np.ndarray) -> np.ndarray:
    """The first of each row of eigenvalues; zero where nothing can move and there are none."""
    return values[:, 0] if values.shape[1] else np.zeros(len(values))


def sharpness_along(problem: Problem, path: ArrayLike) -> np.ndarray:
    """The largest eigenvalue of the Hessian at each of many weights, by dense algebra.

    The same numbers as the observable "sharpness" of a run, for small problems and without compiling.

    Args:
        problem: What is stored.
        path: Weights of shape (T, k, d).

    Paper: eq:hess, fig:sharpness.
    """
    W = check_floats("path", path, ndim=3, axes="(T, k, d)")
    block = block_size(problem, curved=True)
    parts = [
        largest(eigenvalues(problem, recall(wrong_margins(problem, W[at : at + block]))))
        for at in range(0, len(W), block)
    ]
    return np.concatenate(parts)
