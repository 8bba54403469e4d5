"""The exact 0-1 regions of the plane of a memory with d = M = 2: sectors between half-planes."""

import numpy as np
import xarray as xr

from engram.capacity import SAME_ANGLE, turning_angles
from engram.planes._plane import memory_plane
from engram.problem import Problem


def error_regions(problem: Problem) -> xr.Dataset:
    r"""The sectors of the $(\gamma_1, \gamma_2)$ plane over which the 0-1 loss is constant, exactly.

    Each token is right in an open half-plane through the origin, so that the plane falls into sectors.

    Returns:
        A dataset over "sector": the angles `begin` and `end` (counter-clockwise, radians), the
        `error` inside, and `is_right` of shape (sector, token).

    Paper: fig:level, fig:forgetting.
    """
    memory_plane(problem)  # says so if this is not such a problem
    # Margins in the plane: a token of class 1 wants γ · e > 0, one of class 2 the opposite.
    z = (1.0 - 2.0 * np.asarray(problem.labels))[:, None] * problem.inputs
    turns = np.unique(turning_angles(z[np.abs(z).sum(1) > 0])[1])
    if len(turns):
        apart = np.append(True, np.diff(turns) > SAME_ANGLE)
        turns = turns[apart]
        if len(turns) > 1 and turns[0] + 2 * np.pi - turns[-1] <= SAME_ANGLE:
            turns = turns[:-1]
    begin = turns if len(turns) else np.zeros(1)
    end = np.append(begin[1:], begin[0] + 2 * np.pi)
    middle = (begin + end) / 2
    inside = np.stack([np.cos(middle), np.sin(middle)], 1)
    # A token that W cannot reach scores zero for both classes, and the tie goes to the first.
    unmoved = (np.abs(z).sum(1) == 0) & (np.asarray(problem.labels) == 0)
    right = (inside @ z.T > 0) | unmoved
    return xr.Dataset(
        {
            "begin": ("sector", begin),
            "end": ("sector", end),
            "error": ("sector", (~right * np.asarray(problem.probs)).sum(1)),
            "is_right": (("sector", "token"), right),
        },
        {} if problem.names is None else {"token": np.asarray(problem.names)},
    )
