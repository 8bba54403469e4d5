"""bound: a statement of your own, audited over a box of parameters with a search for the worst case."""

import itertools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from engram._checks import InputError, check_count
from engram.audits._claim import Claim
from engram.audits._evidence import ROUNDING, Evidence
from engram.theory import HypothesisError

# Who wants to hear how far a search is: (done, total) trials.
LISTENER: ContextVar[Callable[[int, int], None] | None] = ContextVar("listener", default=None)

_CORNERS = 6  # a box of up to so many parameters has all its corners tried
_REFINEMENTS = 80  # trials of each local search


def bound(
    statement: str,
    slack: Any,
    box: Any,
    *,
    draws: int = 128,
    searches: int = 4,
    tolerance: float = ROUNDING,
    id: str = "own",
) -> Claim:
    """State a bound on a trajectory, to be audited over a box of parameters.

    The search tries the corners of the box and evenly spread random points, then descends from the worst of
    them. It may miss a violation; one that it finds is real, and `finding.printed.at` says where.

    Args:
        statement: What you claim, in words.
        slack: Called with one number per parameter, by name. Returns how much room the statement has left,
            one number or an array over the trajectory: negative where it fails, NaN where it cannot
            be computed (which counts as a failure, and is noted); or True and False. Points at which it
            raises `HypothesisError` are left out, and counted.
        box: For each parameter `(low, high)`, or `(low, high, "log")` to spread it over decades.
        draws: How many random points.
        searches: How many local searches, from the worst points.
        tolerance: How far below zero is still rounding.
        id: A name for tables.

    Returns:
        A `Claim` for `audit`, whose verdict is HOLDS if no violation is found.
    """
    if not callable(slack):
        raise InputError(f"`slack` must be a function of the parameters, got {slack!r}.")
    if not isinstance(box, Mapping):
        raise InputError(f"`box` must be a dict from parameter to limits, got {box!r}.")
    axes = {name: _read_axis(name, limits) for name, limits in box.items()}
    if "index" in axes:
        raise InputError(
            "`box` must not name a parameter 'index': the place in an array has that name."
        )
    if not axes:
        raise InputError("`box` must name at least one parameter. Give {'p1': (0.5, 0.9)}.")
    check_count("draws", draws)
    check_count("searches", searches, least=0)

    def check(seed: int) -> Evidence:
        return _search(slack, axes, seed, draws, searches, tolerance)

    return Claim(id, "", statement, statement, "HOLDS", check)


def _read_axis(name: str, limits: Any) -> tuple[float, float, bool]:
    try:
        low, high, *scale = limits
        low, high = float(low), float(high)
    except (TypeError, ValueError):
        raise InputError(
            f"`box` must give (low, high) or (low, high, 'log') for each parameter, got {limits!r} "
            f"for {name!r}."
        ) from None
    if scale not in ([], ["log"], ["linear"]):
        told = ", ".join(map(repr, scale))
        raise InputError(f"`box` must scale {name!r} by 'log' or 'linear', got {told}.")
    is_log = scale == ["log"]
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise InputError(
            f"`box` must have low <= high, finite, got {low:g}, {high:g} for {name!r}."
        )
    if is_log and low <= 0:
        raise InputError(f"`box` must be positive on a log scale, got {low:g} for {name!r}.")
    return low, high, is_log


def _search(
    slack: Callable[..., Any],
    axes: Mapping[str, tuple[float, float, bool]],
    seed: int,
    draws: int,
    searches: int,
    tolerance: float,
) -> Evidence:
    tried: list[tuple[float, dict[str, float]]] = []
    outside: list[dict[str, float]] = []
    corners = 2 ** len(axes) if len(axes) <= _CORNERS else 0
    total = corners + draws + searches * _REFINEMENTS
    tell = LISTENER.get()

    def room(unit: np.ndarray) -> float:
        point = {
            name: _between(low, high, is_log, share)
            for (name, (low, high, is_log)), share in zip(axes.items(), unit, strict=True)
        }
        try:
            given = np.asarray(slack(**point))
        except HypothesisError:  # a formula of `theory` was asked outside its domain
            outside.append(point)
            return 1e300
        if given.dtype == bool:
            given = np.where(given, 1.0, -1.0)  # a yes-or-no statement
        left = given.astype(float)
        if left.size == 0:
            raise InputError("`slack` must return at least one number, got an empty array.")
        index = int(np.argmin(np.where(np.isnan(left), -np.inf, left)))
        worst = float(left.flat[index])
        tried.append((worst, point | {"index": float(index) if left.ndim else np.nan}))
        if tell is not None:
            tell(min(len(tried), total), total)
        return -1e300 if np.isnan(worst) else worst

    if corners:
        for corner in itertools.product((0.0, 1.0), repeat=len(axes)):
            room(np.array(corner))
    spread = qmc.Halton(len(axes), rng=np.random.default_rng(seed)).random(draws)
    found = [(room(unit), unit) for unit in spread]
    found.sort(key=lambda pair: pair[0])
    for _, unit in found[:searches]:
        minimize(
            room, unit, method="Nelder-Mead", bounds=[(0, 1)] * len(axes),
            options={"maxfev": _REFINEMENTS, "initial_simplex": _simplex(unit)},
        )  # fmt: skip
    if not tried:
        raise InputError(
            "`box` must meet the hypotheses of `slack` somewhere: no point of it does."
        )
    where = {name: np.array([at[name] for _, at in tried]) for name in tried[0][1]}
    if np.isnan(where["index"]).all():
        del where["index"]  # one number per point: there is no place to name
    found = np.array([worst for worst, _ in tried])
    notes = []
    if np.isnan(found).any():
        notes.append(f"not a number at {np.isnan(found).sum()} of {len(found)} points")
    if outside:
        notes.append(f"{len(outside)} points outside the hypotheses of a formula were left out")
    return Evidence(found, where, tolerance, "; ".join(notes))


def _between(low: float, high: float, is_log: bool, share: float) -> float:
    if share <= 0 or share >= 1:
        return low if share <= 0 else high
    if is_log:
        value = float(np.exp((1 - share) * np.log(low) + share * np.log(high)))
    else:
        value = (1 - share) * low + share * high
    return min(max(value, low), high)


def _simplex(unit: np.ndarray) -> np.ndarray:
    """A small simplex at a point of the unit cube, turned inwards."""
    step = np.where(unit < 0.5, 0.1, -0.1)
    return np.vstack([unit, unit + np.diag(step)])
