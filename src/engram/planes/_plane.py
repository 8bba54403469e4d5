"""Plane: a two-dimensional slice of the weights, and the slices that have names."""

from typing import NamedTuple

import numpy as np

from engram import memory
from engram._checks import InputError, check_floats
from engram._types import ArrayLike, Scalar, Weights
from engram.capacity import max_margin
from engram.problem import Problem


class Plane(NamedTuple):
    """The weights `origin + a first + b second`.

    Args:
        origin: Where both coordinates are zero.
        first: What one unit of the first coordinate adds.
        second: What one unit of the second coordinate adds.
        names: What the coordinates are called.
        is_exact: Whether the loss depends on nothing but the two coordinates.
    """

    origin: Weights
    first: Weights
    second: Weights
    names: tuple[str, str] = ("a", "b")
    is_exact: bool = False

    def weights(self, a: Scalar, b: Scalar) -> Weights:
        """The weights at a point of the plane."""
        return self.origin + a * self.first + b * self.second

    def coordinates(self, problem: Problem, W: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Where weights, one or many, lie nearest in the plane, and how far from it they are.

        Args:
            problem: Decides what is visible: the part of W that no update touches does not count.
            W: Weights of shape (k, d), or a path of shape (T, k, d).

        Returns:
            Coordinates of shape (2,) or (T, 2), and the distance that the projection hides.
        """
        W = np.asarray(W, float)
        B, A = memory.update_bases(problem)
        seen = lambda V: (np.asarray(B).T @ V @ np.asarray(A)).reshape(*np.shape(V)[:-2], -1)
        axes = np.stack([seen(np.asarray(self.first)), seen(np.asarray(self.second))], axis=1)
        away = seen(W - np.asarray(self.origin))
        at = away @ np.linalg.pinv(axes).T
        return at, np.linalg.norm(away - at @ axes.T, axis=-1)


def memory_plane(problem: Problem) -> Plane:
    r"""The plane of a memory with d = M = 2, in which nothing is hidden; the outputs may have any dimension.

    Its coordinates are $\gamma_i = (u_1 - u_2)^\top W f_i$ in the canonical basis, so that a token of
    the first class is right where $\langle \gamma, e_x \rangle > 0$.

    Paper: eq:fig-cor, with the sign that its pictures and eq:two-input use; printed is the opposite one.
    """
    if problem.dim != 2 or problem.num_classes != 2:
        raise InputError(
            f"`problem` must have d = M = 2 for this plane, got d = {problem.dim} and "
            f"M = {problem.num_classes}. Use `plane_through`, `principal_plane` or `curvature_plane`."
        )
    u = problem.outputs[0] - problem.outputs[1]
    if not u @ u > 0:
        raise InputError("`problem` must have two distinct outputs. With equal ones nothing moves.")
    first, second = (np.outer(u / (u @ u), f) for f in np.eye(2))
    return Plane(np.zeros_like(first), first, second, ("gamma_1", "gamma_2"), True)


def plane_through(
    first: ArrayLike, second: ArrayLike, *, origin: ArrayLike | None = None,
    names: tuple[str, str] = ("a", "b"),
) -> Plane:  # fmt: skip
    """The plane through an origin along two directions, which are kept as they are.

    Args:
        first: A direction, shape (k, d).
        second: Another, not parallel to it.
        origin: Where the plane passes; zero by default.
        names: What the coordinates are called.
    """
    V1 = check_floats("first", first, ndim=2, axes="(k, d)")
    V2 = check_floats("second", second, ndim=2, axes="(k, d)")
    W = (
        np.zeros_like(V1)
        if origin is None
        else check_floats("origin", origin, ndim=2, axes="(k, d)")
    )
    if not V1.shape == V2.shape == W.shape:
        raise InputError(
            f"`first`, `second` and `origin` must have one shape, got {V1.shape}, {V2.shape}, {W.shape}."
        )
    spread = np.linalg.svd(np.stack([V1.ravel(), V2.ravel()]), compute_uv=False)
    if spread[1] <= 1e-12 * spread[0]:
        raise InputError("`first` and `second` must not be parallel: they span a line only.")
    return Plane(W, V1, V2, names)


def principal_plane(path: ArrayLike) -> Plane:
    """The plane that holds most of a path: its two principal directions, through its last point.

    Args:
        path: Weights along a run, shape (T, k, d), T >= 3.
    """
    W = check_floats("path", path, ndim=3, axes="(T, k, d)")
    if len(W) < 3:
        raise InputError(
            f"`path` must have at least three points, got {len(W)}. Record more steps."
        )
    flat = (W - W.mean(0)).reshape(len(W), -1)
    _, spread, directions = np.linalg.svd(flat, full_matrices=False)
    if spread[1] <= 1e-12 * max(spread[0], np.finfo(float).tiny):
        raise InputError("`path` must not be a straight line: it has one principal direction only.")
    first, second = directions[:2].reshape(2, *W.shape[1:])
    return plane_through(first, second, origin=W[-1], names=("principal 1", "principal 2"))


def curvature_plane(problem: Problem, W: ArrayLike) -> Plane:
    """The plane through weights along the two sharpest directions of the loss there.

    Paper: fig:sharpness, for any dimension.
    """
    W = check_floats("W", W, ndim=2, axes="(k, d)")
    pairs = memory.top_eigenpairs(problem, W, num=2)
    first, second = np.asarray(pairs.vectors)
    return plane_through(first, second, origin=W, names=("sharpest", "second sharpest"))


def max_margin_plane(problem: Problem, W: ArrayLike) -> Plane:
    """The plane of the max-margin direction and of what is left of the weights.

    Paper: Section 4.2, f_2 and f_1, for any separable problem.
    """
    weights = check_floats("W", W, ndim=2, axes="(k, d)")
    first = np.asarray(max_margin(problem))
    first = first / np.linalg.norm(first)
    moved = np.asarray(memory.project_on_updates(problem, weights))
    rest = moved - (moved * first).sum() * first
    size = np.linalg.norm(rest)
    if size <= 1e-12 * max(1.0, np.linalg.norm(weights)):
        raise InputError(
            "`W` must not lie along the max-margin direction: it gives no second axis."
        )
    return plane_through(
        first, rest / size, origin=weights - moved, names=("max margin", "remainder")
    )
