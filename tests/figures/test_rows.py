"""The rows that a figure compares come in the order of its data."""

import numpy as np
import xarray as xr

from engram.figures import fig1_level_lines


def test_correlations_without_reference_keep_their_order():
    alphas = [0.9, 0.1, 0.6, 0.2, 0.7]
    data = xr.Dataset(
        {"plane_loss": (("correlation", "half_width", "first", "second"), np.zeros((5, 1, 2, 2)))},
        {"correlation": alphas, "half_width": [1.0]},
    )
    rows = fig1_level_lines.compare(data)
    assert [row.quantity for row in rows] == [
        f"least loss shown, α = {alpha:g}" for alpha in alphas
    ]
