"""Numbers of tokens that memories hold, one part for each kind and size, and what they cost in parameters."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from engram.capacity import capacity_curve, trained_capacity
from engram.studies._means import NORMAL
from engram.theory import scaling

_RESAMPLES = 1000


def best_numbers(
    dim: int, draws: int, key: int, embeddings: str, progress: Callable[[int, int], None]
) -> xr.Dataset:
    """How many tokens some W recalls, all of them, for each draw."""
    curve = capacity_curve(dim, draws=draws, key=key, embeddings=embeddings, progress=progress)
    numbers = curve.stored.isel(dim=0).values.astype(float)
    about = {"kind": "best", "label": f"best W, d = {dim}", "dim": dim}
    return xr.Dataset({"stored": ("draw", numbers), "parameters": dim**2}, attrs=about)


def learnt_numbers(dim: int, **options: Any) -> xr.Dataset:
    """How many tokens a memory recalls after training, for each draw."""
    numbers = trained_capacity(dim, **options)
    share, width = options.get("share"), options.get("width")
    if share is not None:
        about = {"kind": "list", "label": f"lists of {share:g} N, d = {dim}", "share": share}
    elif width is None:
        about = {"kind": "linear", "label": f"learnt W, {options['accuracy']:.0%}, d = {dim}"}
    else:
        label = f"network, {options['accuracy']:.0%}, d = {dim}, m = {width}"
        about = {"kind": "network", "label": label}
    return numbers.assign_attrs(about)


def n_log_n(N: Any) -> Any:
    """N log N."""
    return N * np.log(N)


def law(d: int) -> float:
    """Parameters over N log N by the law of cones."""
    return d**2 / float(n_log_n(scaling.capacity(d)))


def cost_of(N: float) -> float:
    """delta(N), between whole numbers on a line."""
    below = max(math.floor(N), 2)
    ends = [scaling.parameters_per_token(n) for n in (below, below + 1)]
    return ends[0] + (N - below) * (ends[1] - ends[0])


def middle(part: xr.Dataset) -> float:
    """The mean over draws; NaN if some draw recalls more than was tried."""
    return float(part.stored.values.mean())


def over(part: xr.Dataset, of: Callable[[float], float]) -> tuple[float, float, float]:
    """Parameters over a growing function of the mean number of tokens held; 95 % over draws."""
    P, N = int(part.parameters), part.stored.values
    half = NORMAL * N.std(ddof=1) / np.sqrt(len(N))
    return float(P / of(N.mean())), float(P / of(N.mean() + half)), float(P / of(N.mean() - half))


def slope_of(parts: list[xr.Dataset]) -> tuple[float, float, float]:
    """The exponent of N against parameters, with a 95 % interval by bootstrap over draws."""
    rng, x = np.random.default_rng(0), np.log([int(part.parameters) for part in parts])
    x = x - x.mean()
    columns = []
    for part in parts:
        numbers = part.stored.values
        picks = rng.integers(0, len(numbers), (_RESAMPLES, len(numbers)))
        columns.append(np.append(numbers.mean(), numbers[picks].mean(1)))
    slopes = np.log(np.array(columns)).T @ x / (x @ x)
    low, high = np.quantile(slopes[1:], (0.025, 0.975))
    return float(slopes[0]), float(low), float(high)
