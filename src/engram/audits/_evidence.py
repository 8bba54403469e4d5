"""Evidence: how much room a statement has left in each of many cases, and where it has least."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec

import numpy as np

P = ParamSpec("P")

# Some thousand rounded operations, and the rounding of the reference itself.
ROUNDING = 1e-11
# A million steps, each rounded once: half a unit in the last place of each, all the same way.
MANY_STEPS = 1e6 * 2.0**-53


@dataclass(frozen=True)
class Evidence:
    """The room left in every case, negative where the statement fails.

    Args:
        slack: One number per case, relative to the size of what is compared (sizes below 1 count
            as 1); NaN, where nothing could be computed, counts as a failure.
        where: The parameters of the cases, by name, in arrays that broadcast to `slack`.
        tolerance: How far below zero is rounding, solver error or sampling error.
        note: What else there is to say, such as a frequency with its error.
        cases: How many cases there were, if more than `slack` has entries.
    """

    slack: np.ndarray | np.floating
    where: Mapping[str, Any]
    tolerance: float = ROUNDING
    note: str = ""
    cases: int = 0

    @property
    def worst(self) -> float:
        """The least room; negative beyond `tolerance` is a violation."""
        return -np.inf if np.isnan(self.slack).any() else float(self.slack.min())

    @property
    def at(self) -> dict[str, float]:
        """The parameters of the case with least room."""
        index = int(np.argmin(np.where(np.isnan(self.slack), -np.inf, self.slack)))
        shape = self.slack.shape
        flat = {name: np.broadcast_to(value, shape).ravel() for name, value in self.where.items()}
        return {name: float(values[index]) for name, values in flat.items()}

    def __str__(self) -> str:
        at = ", ".join(f"{name.replace('_', ' ')} = {value:.5g}" for name, value in self.at.items())
        place = f", at {at}" if at else ""
        note = f" ({self.note})" if self.note else ""
        return f"slack {self.worst:.3g} in {self.num_cases:,} cases{place}{note}"

    @property
    def holds(self) -> bool:
        """Whether no case violates the statement by more than the tolerance."""
        return bool(self.worst >= -self.tolerance)

    @property
    def num_cases(self) -> int:
        """How many cases were looked at."""
        return self.cases or self.slack.size


def _relative(left: Any, right: Any) -> np.ndarray:
    """Left - right, in units of the larger of the two where that is above 1."""
    left, right = np.asarray(left, float), np.asarray(right, float)
    size = np.maximum(1.0, np.maximum(np.abs(left), np.abs(right)))
    return np.asarray((left - right) / size)


def at_least(left: Any, right: Any, *, tolerance: float = ROUNDING, **where: Any) -> Evidence:
    """Evidence for `left >= right`, entry by entry."""
    return Evidence(_relative(left, right), where, tolerance)


def at_most(left: Any, right: Any, **options: Any) -> Evidence:
    """Evidence for `left <= right`, entry by entry."""
    return at_least(right, left, **options)


def between(low: Any, value: Any, high: Any, **options: Any) -> Evidence:
    """Evidence for `low <= value <= high`, entry by entry."""
    return both(at_least(value, low, **options), at_most(value, high, **options))


def equal(left: Any, right: Any, *, tolerance: float = ROUNDING, **where: Any) -> Evidence:
    """Evidence for `left == right`: the slack is minus the relative error."""
    return Evidence(-np.abs(_relative(left, right)), where, tolerance)


def true(holds: Any, **where: Any) -> Evidence:
    """Evidence for a yes-or-no statement: slack 1 where it is true, -1 where it is not."""
    return Evidence(np.where(np.asarray(holds, bool), 1.0, -1.0), where, 0.0)


def frequency(hits: Any, *, above: float | None = None, below: float | None = None) -> Evidence:
    """Evidence that something happens in more (or less) than a share of random draws.

    It fails only when the frequency misses the share by three standard errors.
    """
    hits = np.asarray(hits, float)
    share, count = hits.mean(), hits.size
    error = np.sqrt(max(share * (1 - share), 1 / count) / count)
    assert (above is None) != (below is None)
    slack = share - above if above is not None else below - share
    note = f"{share:.3f} ± {error:.3f} over {count} draws"
    return Evidence(np.asarray(slack), {"frequency": share}, 3 * error, note, cases=count)


def both(*parts: Evidence) -> Evidence:
    """Evidence for several statements at once: the one with least room speaks for all."""
    tightest = min(parts, key=lambda part: part.worst + part.tolerance)
    notes = "; ".join(part.note for part in parts if part.note)
    cases = sum(part.num_cases for part in parts)
    return Evidence(tightest.slack, tightest.where, tightest.tolerance, notes, cases)


def all_of(check: Callable[P, Iterator[Evidence]]) -> Callable[P, Evidence]:
    """Make one check of a function that yields the evidence for one statement after another."""

    @functools.wraps(check)
    def whole(*args: P.args, **kwargs: P.kwargs) -> Evidence:
        return both(*check(*args, **kwargs))

    return whole
