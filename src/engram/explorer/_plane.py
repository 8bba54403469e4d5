"""What the page draws of a problem: its plane with level lines and sectors, its minimiser, its tokens."""

from collections.abc import Mapping
from typing import Any

import contourpy
import numpy as np

from engram._checks import InputError
from engram.capacity import calibration, max_margin
from engram.explorer._objects import has_plane, make_problem
from engram.explorer._state import State
from engram.planes import Plane, error_regions, landscape, memory_plane, sharpness_along
from engram.problem import Problem

_GRID = 97  # points per axis of the level lines
_ARROWS = 15  # per axis of the gradient field
_MOST_LEVELS = 14


def plane_part(state: State, own: Mapping[str, Problem]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A description of the problem and, if it has one, of its plane: words and small numbers, and arrays."""
    problem = make_problem(state.problem, own).value
    about: dict[str, Any] = {
        "sizes": [problem.num_inputs, problem.num_outputs, problem.dim],
        "has_plane": has_plane(problem),
    }
    arrays: dict[str, Any] = {
        "probs": np.asarray(problem.probs, float),
        "targets": np.asarray(problem.labels, float),
    }
    if has_plane(problem):
        plane = memory_plane(problem)
        arrays |= _levels(problem, plane, state) | _sectors(problem)
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
    found = {
        "level_points": np.concatenate(points) if points else np.zeros((0, 2)),
        "level_offsets": np.asarray(offsets, float),
        "level_values": np.asarray(values, float),
    }
    if view.overlay == "sharpness":
        found["sharpness_grid"] = over
    if view.overlay == "gradient":
        found |= _field(problem, plane, first[:2], second[:2])
    return found


def round_levels(low: float, high: float) -> list[float]:
    """Round numbers between two values: the same for nearby planes, so that lines do not flicker."""
    if not 0 <= low < high:
        return []
    decades = np.log10(high / max(low, 1e-12 * high))
    digits = range(1, 10) if decades < 1.1 else (1, 2, 3, 5, 7) if decades < 2.3 else (1, 2, 5)
    least, most = int(np.floor(np.log10(high))) - 12, int(np.floor(np.log10(high)))
    every = [float(f"{digit}e{k}") for k in range(least, most + 1) for digit in digits]
    inside = [level for level in every if low < level < high]
    return inside[-_MOST_LEVELS:]


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


def _sectors(problem: Problem) -> dict[str, Any]:
    regions = error_regions(problem)
    return {f"sector_{name}": regions[name].values for name in ("begin", "end", "error")}


def _marks(problem: Problem, plane: Plane) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where the loss is least, the max-margin direction, and what the minimiser costs in errors."""
    found = calibration(problem)
    best = found.minimiser
    sharpness = float(sharpness_along(problem, best.weights[None])[0])
    about: dict[str, Any] = {
        "minimiser_exists": best.exists,
        "least_loss": best.loss,
        "error_at_minimiser": found.error,
        "least_error": found.least.error,
        "forgotten": found.forgotten.tolist(),
        "sharpness_at_minimiser": sharpness if best.exists else None,
    }
    at = lambda W: plane.coordinates(problem, W)[0]
    arrays: dict[str, Any] = {}
    if best.exists:
        arrays["minimiser"] = at(best.weights)
    else:
        arrays["falls_along"] = at(best.direction)
    try:
        direction = at(max_margin(problem))
        arrays["max_margin"] = direction / np.linalg.norm(direction)
    except InputError:
        about["is_separable"] = False
    else:
        about["is_separable"] = True
    return about, arrays
