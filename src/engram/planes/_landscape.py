"""landscape: the loss, its gradient and its curvature over a plane, as a labelled dataset."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from engram import memory
from engram._checks import InputError, check_count
from engram._types import ArrayLike
from engram.memory import dense
from engram.planes._plane import Plane
from engram.problem import Problem

QUANTITIES = ("loss", "error", "gradient", "sharpness", "eigenvalues")
_DENSE = 300  # entries of W beyond which the sharpness is computed by Lanczos, point by point


def landscape(
    problem: Problem,
    plane: Plane,
    quantities: Sequence[str] = ("loss", "error"),
    *,
    first: tuple[float, float, int] | ArrayLike = (-10.0, 10.0, 100),
    second: tuple[float, float, int] | ArrayLike = (-10.0, 10.0, 100),
) -> xr.Dataset:
    """Evaluate a problem over a grid of a plane.

    Everything follows from the class margins, which are linear in the two coordinates.

    Args:
        problem: What is to be recalled.
        plane: Where to look.
        quantities: Among "loss", "error" (0-1 loss, ties to the lowest class), "gradient" (of the loss in
            the plane's two coordinates), "sharpness" and "eigenvalues" (of the Hessian, over the
            span of the updates, in falling order).
        first: (low, high, count) for the first coordinate, or an array of values.
        second: The same for the second.

    Returns:
        A dataset over ("second", "first"), whose attributes name the coordinates.

    Paper: fig:level, fig:forgetting, fig:sharpness.
    """
    unknown = [name for name in quantities if name not in QUANTITIES]
    if unknown:
        raise InputError(f"`quantities` must be among {', '.join(QUANTITIES)}, got {unknown[0]!r}.")
    if problem.is_noisy:
        raise InputError(
            "`problem` must have certain targets for a landscape, got noisy ones. Give each token one class."
        )
    x, y = _axis("first", first), _axis("second", second)
    a, b = (grid.ravel() for grid in np.meshgrid(x, y))
    block = dense.block_size(
        problem, curved="sharpness" in quantities or "eigenvalues" in quantities
    )
    slices = [
        _evaluate(problem, plane, a[at : at + block], b[at : at + block], quantities)
        for at in range(0, len(a), block)
    ]
    shape = (len(y), len(x))
    arrays = {name: np.concatenate([part[name] for part in slices]) for name in quantities}
    extra = {"gradient": ("component",), "eigenvalues": ("rank",)}
    variables = {
        name: (("second", "first", *extra.get(name, ())), values.reshape(shape + values.shape[1:]))
        for name, values in arrays.items()
    }
    attrs = {"first": plane.names[0], "second": plane.names[1], "is_exact": int(plane.is_exact)}
    return xr.Dataset(variables, {"first": x, "second": y}, attrs)


def _axis(name: str, values: Any) -> np.ndarray:
    if isinstance(values, tuple) and len(values) == 3 and isinstance(values[2], numbers.Integral):
        low, high, count = values[0], values[1], int(values[2])
        check_count(name, count, least=2)
        values = np.linspace(low, high, count)
    values = np.asarray(values, float)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise InputError(f"`{name}` must be (low, high, count) or an array of finite values.")
    if (np.diff(values) <= 0).any():
        raise InputError(f"`{name}` must increase, got {values[:3]}...")
    return values


def _evaluate(
    problem: Problem, plane: Plane, a: np.ndarray, b: np.ndarray, quantities: Sequence[str]
) -> dict[str, np.ndarray]:
    p = np.asarray(problem.probs)
    parts = (plane.origin, plane.first, plane.second)
    m0, m1, m2 = (dense.wrong_margins(problem, np.asarray(V)) for V in parts)
    m = m0 + a[:, None, None] * m1 + b[:, None, None] * m2  # (G, N, M - 1)
    here = dense.recall(m)
    values: dict[str, np.ndarray] = {}
    if "loss" in quantities:
        values["loss"] = (p * here.losses).sum(-1)
    if "error" in quantities:
        later = np.arange(problem.num_classes - 1) >= np.asarray(problem.labels)[:, None]
        right = ((m > 0) | ((m == 0) & later)).all(-1)
        values["error"] = (p * ~right).sum(-1)
    if "gradient" in quantities:
        values["gradient"] = np.stack(
            [-(p * (here.wrong * k).sum(-1)).sum(-1) for k in (m1, m2)], axis=-1
        )
    if "eigenvalues" in quantities or (
        "sharpness" in quantities and dense.span_size(problem) <= _DENSE
    ):
        values["eigenvalues"] = dense.eigenvalues(problem, here)
        values["sharpness"] = dense.largest(values["eigenvalues"])
    elif "sharpness" in quantities:
        points = zip(a, b, strict=True)
        sharp = [float(memory.sharpness(problem, plane.weights(*at))) for at in points]
        values["sharpness"] = np.array(sharp)
    return {name: values[name] for name in quantities}
