"""When to record: every step, every k-th, or evenly on a logarithmic scale."""

from dataclasses import dataclass

import numpy as np

from engram._checks import InputError, check_count, read_array
from engram._types import ArrayLike
from engram.system import shown_values

_DENSE = 10_000  # up to here every step is recorded unless something else is asked for
_LAST = 2**53  # steps beyond would not be exact as floats
_MOST = 10_000_000  # records


def log_spaced(steps: int, num: int = 200) -> np.ndarray:
    """About `num` steps from 0 to `steps`, evenly spaced on a logarithmic scale, both ends included."""
    check_count("num", num, least=2)
    _check_steps(steps)
    _check_records("num", num, num)
    exponents = np.linspace(0, np.log1p(steps), num)
    inner = np.minimum(np.rint(np.expm1(exponents)).astype(int), steps)  # rounding may go beyond
    return np.unique(np.concatenate([[0], inner, [steps]]))


@dataclass(frozen=True)
class When:
    """Which steps of a run are recorded.

    By default every step up to 10,000 steps; beyond that, 200 on a logarithmic scale.

    Args:
        at: The steps, increasing.
        every: Every so many steps, and the last.
        points: About this many steps, evenly on a logarithmic scale.
    """

    at: ArrayLike | None = None
    every: int | None = None
    points: int | None = None

    def __post_init__(self) -> None:
        if sum(way is not None for way in (self.at, self.every, self.points)) > 1:
            raise InputError("`at`, `every` and `points` exclude each other, got two. Give one.")

    def __repr__(self) -> str:
        return f"When({shown_values(vars(self))})"

    @property
    def is_default(self) -> bool:
        """Whether nothing was asked for."""
        return self.at is None and self.every is None and self.points is None

    def steps(self, num_steps: int) -> np.ndarray:
        """The steps to record of a run of `num_steps` steps."""
        _check_steps(num_steps)
        if self.at is not None:
            at = read_array("at", self.at)
            if at.ndim != 1 or at.dtype.kind not in "iu" or not len(at):
                raise InputError(
                    f"`at` must be a list of steps, got {self.at!r}. Give whole numbers."
                )
            if (np.diff(at) <= 0).any() or at[0] < 0 or at[-1] > num_steps:
                raise InputError(
                    f"`at` must increase within 0..{num_steps}, got {at[:5]}... Sort the steps, or "
                    "make the run longer."
                )
            return at.astype(int)
        if self.every is not None:
            every = check_count("every", self.every)
            _check_records("every", every, num_steps // every)
            return np.unique(np.append(np.arange(0, num_steps + 1, every), num_steps))
        if self.points is not None:
            _check_records("points", self.points, check_count("points", self.points, least=2))
            return log_spaced(num_steps, self.points)
        return np.arange(num_steps + 1) if num_steps <= _DENSE else log_spaced(num_steps)


def _check_steps(steps: int) -> None:
    if check_count("steps", steps, least=0) > _LAST:
        raise InputError(f"`steps` must be at most 2**53, got {steps}. Choose fewer.")


def _check_records(name: str, value: int, count: int) -> None:
    if count > _MOST:
        raise InputError(
            f"`{name}` = {value} asks for {count} records, more than {_MOST}. Record less often."
        )
