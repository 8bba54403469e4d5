"""What became slower or faster since an earlier run, beyond the noise of both."""

import dataclasses
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from engram._errors import InputError
from engram.bench._harness import Measured


@dataclasses.dataclass(frozen=True)
class Change:
    """How a benchmark moved: `change` is now over then, above 1 when it became faster.

    `low` and `high` are its bounds. `of` says what is compared: the ratio to the peer, which does not depend
    on how fast the machine is, or the rate where a run had no peer.
    """

    name: str
    of: str
    then: float
    now: float
    change: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        return "slower" if self.high < 1 else "faster" if self.low > 1 else "same"


def read_measured(path: Path) -> list[Measured]:
    """The rows that `engram bench --json` has written; files of several runs may be joined to one list."""
    try:
        rows = json.loads(path.read_text())
        if not isinstance(rows, list):
            raise TypeError
        fields = {field.name for field in dataclasses.fields(Measured)}
        return [Measured(**{k: v for k, v in row.items() if k in fields}) for row in rows]
    except OSError as error:
        raise InputError(f"--compare cannot read {path}: {error.strerror}.") from None
    except (ValueError, TypeError, AttributeError):
        raise InputError(
            f"--compare must be a file that `engram bench --json` wrote, got {path}."
        ) from None


def compare(then: Sequence[Measured], now: Sequence[Measured]) -> list[Change]:
    """The changes of all benchmarks that both have, in the order of the second."""
    return [
        _change(name, [row for row in then if row.name == name], rows)
        for name, rows in _by_name(now).items()
        if any(row.name == name for row in then)
    ]


def _by_name(rows: Iterable[Measured]) -> dict[str, list[Measured]]:
    grouped: dict[str, list[Measured]] = {}
    for row in rows:
        grouped.setdefault(row.name, []).append(row)
    return grouped


def _change(name: str, then: list[Measured], now: list[Measured]) -> Change:
    of = "ratio" if all(row.ratio is not None for row in [*then, *now]) else "rate"
    (before, before_low, before_high), (after, low, high) = (
        _range(rows, of) for rows in (then, now)
    )
    bounds = low / before_high, high / before_low
    return Change(name, of, before, after, after / before, *bounds)


def _range(rows: list[Measured], of: str) -> tuple[float, float, float]:
    """The median over runs, and what the intervals of all of them cover."""
    values = [_value(row, of) for row in rows]
    lows, highs = zip(*(_interval(row, of) for row in rows), strict=True)
    return statistics.median(values), min(lows), max(highs)


def _value(row: Measured, of: str) -> float:
    return row.engram if row.ratio is None or of == "rate" else row.ratio


def _interval(row: Measured, of: str) -> tuple[float, float]:
    interval = row.interval if of == "rate" else row.ratio_interval
    if interval is not None:
        return interval
    # Written before intervals were: half the quartile range to each side is more than noise of the median.
    away = row.spread / 2 + (row.peer_spread or 0.0) / 2 * (of == "ratio")
    return _value(row, of) / (1 + away), _value(row, of) * (1 + away)
