"""What the page draws of a problem: its plane with level lines and sectors, its minimiser, its tokens."""

from typing import Any

import contourpy
import numpy as np

from engram.capacity import calibration
from engram.explorer._requests import State
from engram.explorer._simulations import has_plane
from engram.planes import (
    Plane,
    error_regions,
    landscape,
    memory_plane,
    sharpness_along,
    wrong_margins,
)
from engram.problem import Problem

_GRID = 81  # points per axis of the level lines
_ARROWS = 15  # per axis of the gradient field
_MOST_LEVELS = 14
_FEW_LEVELS = 5  # of one digit; with fewer, levels are evenly spaced


def plane_part(state: State, problem: Problem) -> tuple[dict[str, Any], dict[str, Any]]:
    """A description of the problem and, if it has one, of its plane: words and small numbers, and arrays."""
    about: dict[str, Any] = {
        "sizes": [problem.num_tokens, problem.num_classes, problem.dim],
        "output_dim": problem.output_dim,
        "has_plane": has_plane(state, problem),
        "names": problem.shown_names(),
    }
    arrays: dict[str, Any] = {
        "probs": np.asarray(problem.probs, float),
        "targets": np.asarray(problem.labels, float),
    }
    if about["has_plane"]:
        plane = memory_plane(problem)
        arrays |= _levels(problem, plane, state) | _sectors(problem)
        arrays["arrows"] = arrows(problem)
        marks, more = _marks(problem, plane)
        arrays |= more
        about |= marks
    return about, arrays


def _levels(problem: Problem, plane: Plane, state: State) -> dict[str, Any]:
    view = state.view
    first = (view.x - view.half, view.x + view.half, _GRID)
    second = (view.y - view.half, view.y + view.half, _GRID)
    names = ("loss", "sharpness") if view.overlay == "sharpness" else ("loss",)
    grid = landscape(problem, plane, names, first=first, second=second)
    over = grid[names[-1]].values
    levels = round_levels(float(over.min()), float(over.max()))
    lines = contourpy.contour_generator(grid["first"].values, grid["second"].values, over)
    points, offsets, values = [], [0], []
    for level in levels:
        for line in lines.lines(level):
            points.append(line)
            offsets.append(offsets[-1] + len(line))
            values.append(level)
    arrays = {
        "level_points": np.concatenate(points) if points else np.zeros((0, 2)),
        "level_offsets": np.asarray(offsets, float),
        "level_values": np.asarray(values, float),
    }
    if view.overlay == "sharpness":
        arrays["sharpness_grid"] = over
    if view.overlay == "gradient":
        arrays |= _field(problem, plane, first[:2], second[:2])
    return arrays


def round_levels(low: Any, high: Any) -> list[float]:
    """Round numbers between two values: the same for nearby planes, so that lines do not flicker."""
    if not 0 <= low < high:
        return []
    decades = np.log10(high / max(low, 1e-12 * high))
    digits = range(1, 10) if decades < 1.1 else (1, 2, 3, 5, 7) if decades < 2.3 else (1, 2, 5)
    least, most = int(np.floor(np.log10(high))) - 12, int(np.floor(np.log10(high)))
    every = [float(f"{digit}e{k}") for k in range(least, most + 1) for digit in digits]
    inside = [level for level in every if low < level < high]
    return inside[-_MOST_LEVELS:] if len(inside) >= _FEW_LEVELS else _even_levels(low, high)


def _even_levels(low: float, high: float) -> list[float]:
    """Multiples of a round step between two close values."""
    raw = (high - low) / _FEW_LEVELS
    power = 10.0 ** np.floor(np.log10(raw))
    step = max(k * power for k in (1, 2, 5) if k * power <= raw)
    levels = [float(f"{k * step:.12g}") for k in range(int(low / step), int(high / step) + 1)]
    return [level for level in levels if low < level < high][:_MOST_LEVELS]


def _field(problem: Problem, plane: Plane, first: Any, second: Any) -> dict[str, Any]:
    """Minus the gradient in the plane's coordinates, as descent on W moves them, at the cells' middles."""
    axes = [
        (np.arange(_ARROWS) + 0.5) / _ARROWS * (high - low) + low for low, high in (first, second)
    ]
    grid = landscape(problem, plane, ("gradient",), first=axes[0], second=axes[1])
    # gamma = W^T (u_1 - u_2) moves by |u_1 - u_2|^2 times what the coordinates' own descent would.
    contrast = float(np.square(problem.outputs[0] - problem.outputs[1]).sum())
    x, y = np.meshgrid(*axes)
    return {
        "field_points": np.stack([x.ravel(), y.ravel()], 1),
        "field": -contrast * grid["gradient"].values.reshape(-1, 2),
    }


def arrows(problem: Problem) -> np.ndarray:
    """Where each token's margin grows in the plane: the margin is the inner product with this arrow."""
    return np.where(problem.labels == 0, 1.0, -1.0)[:, None] * np.asarray(problem.inputs)


def _sectors(problem: Problem) -> dict[str, Any]:
    regions = error_regions(problem)
    return {f"sector_{name}": regions[name].values for name in ("begin", "end", "error")}


def _marks(problem: Problem, plane: Plane) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where the loss is least, the max-margin direction, and what the minimiser costs in errors."""
    calibrated = calibration(problem)
    best = calibrated.minimiser
    about: dict[str, Any] = {
        "minimiser_exists": best.exists,
        "least_loss": best.loss,
        "error_at_minimiser": calibrated.error,
        "least_error": calibrated.least.error,
        "forgotten": calibrated.forgotten.tolist(),
        "sharpness_at_minimiser": None,
        "is_separable": False,
    }
    at = lambda W: plane.coordinates(problem, W)[0]
    if best.exists:
        about["sharpness_at_minimiser"] = float(sharpness_along(problem, best.weights[None])[0])
        return about, {"minimiser": at(best.weights)}
    # Without a minimiser the loss falls along a direction: the max-margin one, if all margins grow along it.
    direction = at(best.direction)
    direction = direction / np.linalg.norm(direction)
    present = np.asarray(problem.probs) > 0
    grow = wrong_margins(problem, np.asarray(best.direction))[present]
    about["is_separable"] = bool((grow > 1e-9 * np.abs(grow).max()).all())
    return about, {"max_margin" if about["is_separable"] else "falls_along": direction}
