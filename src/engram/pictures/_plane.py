"""The plane of a memory of two classes in two dimensions, from the arrays that a run holds."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from engram import plotting

_MOST_TOKENS = 1000
_ARRAYS = ("problem_inputs", "problem_outputs", "problem_targets")
_SPACES = ("weights", "particles", "margins")  # where margins follow from W


class RunPlane(NamedTuple):
    r"""A path of $\gamma = W^\top (u_1 - u_2)$, and the tokens, turned so that they are right on one side.

    Args:
        path: Where the run was, (T, 2).
        tokens: Embeddings, negated for the second class: recalled where their product with gamma is positive.
        probs: How frequent they are.
    """

    path: np.ndarray
    tokens: np.ndarray
    probs: np.ndarray

    def loss(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The loss over a grid, (len(second), len(first))."""
        points = np.stack(np.meshgrid(first, second), axis=-1)
        return np.logaddexp(0.0, -points @ self.tokens.T) @ self.probs

    def sectors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the 0-1 loss is constant: angles of begin and end, and its value in between."""
        normals = np.arctan2(self.tokens[:, 1], self.tokens[:, 0])
        begin = np.unique(np.concatenate([normals + np.pi / 2, normals - np.pi / 2]) % (2 * np.pi))
        end = np.append(begin[1:], begin[0] + 2 * np.pi)
        inside = np.stack([np.cos((begin + end) / 2), np.sin((begin + end) / 2)], axis=1)
        return begin, end, (inside @ self.tokens.T <= 0) @ self.probs


def plane_of(run: xr.Dataset) -> RunPlane | None:
    """The plane of a run with d = M = 2 and certain targets; None if it has none, or was not recorded."""
    if not all(name in run for name in _ARRAYS) or "probs" not in run.coords:
        return None
    E, U, targets = (run[name].values for name in _ARRAYS)
    contrast = U[0] - U[-1]
    if E.shape[1] != 2 or len(U) != 2 or targets.ndim != 1 or not contrast.any():
        return None
    tokens = np.where(targets == 0, 1.0, -1.0)[:, None] * E
    if len(E) > _MOST_TOKENS or not tokens.any(axis=1).all():
        return None
    if "weights" in run:
        path = contrast @ run.weights.values
    elif "margins" in run and run.attrs.get("space") in _SPACES and np.linalg.matrix_rank(E) == 2:
        path = run.margins.values @ np.linalg.pinv(tokens).T
    else:
        return None
    path = path[np.isfinite(path).all(axis=1)]
    return RunPlane(path, tokens, run.probs.values) if len(path) else None


def draw_plane(axes: Axes, plane: RunPlane) -> None:
    """The path over the loss's level lines; the bluer, the more is recalled."""
    low, high = plane.path.min(axis=0), plane.path.max(axis=0)
    room = 0.15 * np.maximum(high - low, 1.0)
    first, second = (np.linspace(*ends, 120) for ends in zip(low - room, high + room, strict=True))
    axes.set(xlim=first[[0, -1]], ylim=second[[0, -1]])
    plotting.shade_accuracy(axes, *plane.sectors())
    plotting.draw_levels(axes, first, second, plane.loss(first, second), num=9, label=False)
    axes.plot(*plane.path.T, ".-", color=plotting.COLOURS[1], ms=3.5, lw=1, zorder=3)
    axes.plot(*plane.path[0], "o", color="black", ms=5, zorder=4)
    axes.annotate("start", plane.path[0], (5, 4), textcoords="offset points", fontsize=7)
    plotting.name_plane(axes)
    axes.set_title(r"loss over $\gamma = W^\top(u_1 - u_2)$; blue: recalled")
