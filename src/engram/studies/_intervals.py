"""Means and slopes with their 95 % intervals."""

from typing import Any

import numpy as np

from engram.studies._study import Row


def mean_row(quantity: str, values: Any) -> Row:
    """A mean over draws, with the interval of Student's t; NaN if any value is."""
    from scipy.stats import t

    values = np.asarray(values, float)
    mean, n = float(values.mean()), len(values)
    half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    return Row(quantity, mean, mean - half, mean + half)


def slope_of(x: Any, y: Any) -> tuple[float, float, float]:
    """The slope of a line through points, and its interval by the scatter about the line."""
    from scipy.stats import t

    x, y = np.asarray(x, float), np.asarray(y, float)
    away, n = x - x.mean(), len(x)
    slope = float(away @ y / (away @ away))
    if n < 3:
        return slope, slope, slope
    left = y - y.mean() - slope * away
    half = float(t.ppf(0.975, n - 2) * np.sqrt(left @ left / (n - 2) / (away @ away)))
    return slope, slope - half, slope + half
