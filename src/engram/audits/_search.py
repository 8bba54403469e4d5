"""bound: a statement of your own, audited over a box of parameters with a search for the worst case."""

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from engram._checks import InputError, brief, check_count, check_not_negative
from engram.audits._balls import precision
from engram.audits._certificate import Certificate
from engram.audits._claim import Claim, Curves
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
    certificates: Callable[[], Sequence[Certificate]] | None = None,
    curves: Callable[[], Curves] | None = None,
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
        certificates: Comparisons in ball arithmetic that prove or refute it, computed with 60 digits.
        curves: What to draw; by default the slack over the parameter, or over all cases if there are several.

    Returns:
        A `Claim` for `audit`, whose verdict is HOLDS if no violation is found.
    """
    if not callable(slack):
        raise InputError(f"`slack` must be a function of the parameters, got {slack!r}.")
    if not isinstance(box, Mapping):
        raise InputError(f"`box` must be a dict from parameter to limits, got {box!r}.")
    if not box or "index" in box:
        raise InputError(
            "`box` must name at least one parameter, as in {'p1': (0.5, 0.9)}, and none of them 'index', "
            "which names the place in an array."
        )
    axes = {name: _read_axis(name, limits) for name, limits in box.items()}
    _check_takes(slack, axes)
    for name, text in {"statement": statement, "id": id}.items():
        if not isinstance(text, str):
            raise InputError(f"`{name}` must be a string, got {brief(text)}.")
    check_count("draws", draws)
    check_count("searches", searches, least=0)
    check_not_negative("tolerance", tolerance)

    def check(seed: int) -> Evidence:
        trials = Trials(slack, axes, total=draws + searches * _REFINEMENTS)
        if len(axes) <= _CORNERS:
            trials.total += 2 ** len(axes)
            for corner in itertools.product((0.0, 1.0), repeat=len(axes)):
                trials.room(np.array(corner))
        spread = qmc.Halton(len(axes), rng=np.random.default_rng(seed)).random(draws)
        for unit in sorted(spread, key=trials.room)[:searches]:
            # A small simplex, turned inwards.
            simplex = np.vstack([unit, unit + np.diag(np.where(unit < 0.5, 0.1, -0.1))])
            options = {"maxfev": _REFINEMENTS, "initial_simplex": simplex}
            limits = [(0, 1)] * len(axes)
            minimize(trials.room, unit, method="Nelder-Mead", bounds=limits, options=options)
        return trials.evidence(tolerance)

    exact = certificates and precision()(lambda: _read_certificates(certificates()))
    drawn = curves and (lambda: _read_curves(curves()))
    return Claim(id, "", statement, statement, "HOLDS", check, certificates=exact, curves=drawn)


def _check_takes(slack: Callable[..., Any], axes: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(slack)
    except (TypeError, ValueError):  # some compiled functions have none
        return
    try:
        signature.bind(**axes)
    except TypeError as error:
        raise InputError(
            f"`slack` must take the parameters of `box` by name, {', '.join(axes)}: {error}."
        ) from None


def _read_certificates(found: Any) -> list[Certificate]:
    found = list(found) if isinstance(found, Sequence) else [found]
    for each in found:
        if not isinstance(each, Certificate):
            raise InputError(
                f"`certificates` must return a list of `Certificate`s, got {brief(each)}."
            )
    return found


def _read_curves(found: Any) -> Curves:
    if not isinstance(found, Curves):
        raise InputError(f"`curves` must return `Curves`, got {brief(found)}.")
    return found


def _read_room(value: Any, point: Mapping[str, float]) -> np.ndarray:
    """What `slack` returned as an array of floats: 1 and -1 for True and False."""
    try:
        room = np.asarray(value)
    except ValueError:  # rows of different lengths
        room = np.empty(0, object)
    if room.dtype.kind not in "fiub":
        at = ", ".join(f"{name} = {number:g}" for name, number in point.items())
        raise InputError(
            f"`slack` must return numbers, or True and False, got {brief(value)} at {at}. Check its `return`."
        )
    if room.size == 0:
        raise InputError("`slack` must return at least one number, got an empty array.")
    return np.where(room, 1.0, -1.0) if room.dtype == bool else room.astype(float)


class Axis(NamedTuple):
    """The limits of a parameter, and whether it is spread over decades."""

    low: float
    high: float
    is_log: bool

    def at(self, share: float) -> float:
        """The value at a share of the way; exactly the limits at 0 and 1."""
        low, high = self.low, self.high
        if share <= 0 or share >= 1:
            return low if share <= 0 else high
        if self.is_log:
            value = float(np.exp((1 - share) * np.log(low) + share * np.log(high)))
        else:
            value = (1 - share) * low + share * high
        return min(max(value, low), high)


def _read_axis(name: str, limits: Any) -> Axis:
    try:
        low, high, *scale = limits
        low, high = float(low), float(high)
    except (TypeError, ValueError):
        raise InputError(
            f"`box` must give (low, high) or (low, high, 'log') for each parameter, got {limits!r} "
            f"for {name!r}."
        ) from None
    if scale not in ([], ["log"], ["linear"]):
        given = ", ".join(map(repr, scale))
        raise InputError(f"`box` must scale {name!r} by 'log' or 'linear', got {given}.")
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise InputError(
            f"`box` must have low <= high, finite, got {low:g}, {high:g} for {name!r}."
        )
    if scale == ["log"] and low <= 0:
        raise InputError(f"`box` must be positive on a log scale, got {low:g} for {name!r}.")
    return Axis(low, high, scale == ["log"])


class Trials:
    """The points tried so far, each with the room that was left there."""

    def __init__(self, slack: Callable[..., Any], axes: Mapping[str, Axis], total: int):
        self.slack, self.axes, self.total = slack, axes, total
        self.worst: list[float] = []
        self.points: list[dict[str, float]] = []
        self.num_outside = 0

    def room(self, unit: np.ndarray) -> float:
        """Try a point of the unit cube; what the search is to make small."""
        axes = zip(self.axes.items(), unit, strict=True)
        point = {name: axis.at(share) for (name, axis), share in axes}
        try:
            room = _read_room(self.slack(**point), point)
        except HypothesisError:  # a formula of `theory` was asked outside its domain
            self.num_outside += 1
            return 1e300
        index = int(np.argmin(np.where(np.isnan(room), -np.inf, room)))
        worst = float(room.flat[index])
        self.worst.append(worst)
        self.points.append(point | {"index": float(index) if room.ndim else np.nan})
        if report := LISTENER.get():
            report(min(len(self.worst), self.total), self.total)
        return -1e300 if np.isnan(worst) else worst

    def evidence(self, tolerance: float) -> Evidence:
        if not self.worst:
            raise InputError(
                "`box` must meet the hypotheses of `slack` somewhere: no point of it does."
            )
        where = {name: np.array([point[name] for point in self.points]) for name in self.points[0]}
        if np.isnan(where["index"]).all():
            del where["index"]  # one number per point: there is no place to name
        slack = np.array(self.worst)
        num_nan, outside = (
            np.isnan(slack).sum(),
            "outside the hypotheses of a formula were left out",
        )
        notes = [f"not a number at {num_nan} of {len(slack)} points"] * bool(num_nan)
        notes += [f"{self.num_outside} points {outside}"] * bool(self.num_outside)
        return Evidence(slack, where, tolerance, "; ".join(notes))
