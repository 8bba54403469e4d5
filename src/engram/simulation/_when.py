"""When to record: every step, every k-th, or evenly on a logarithmic scale."""

from typing import Any

import numpy as np

from engram._checks import InputError, check_count, read_array

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


def choose_steps(steps: int, at: Any, every: int | None, points: int | None) -> np.ndarray:
    """The steps to record, from whichever way was used to ask for them."""
    _check_steps(steps)
    if sum(way is not None for way in (at, every, points)) > 1:
        raise InputError("`at`, `every` and `points` exclude each other, got two. Give one.")
    if at is not None:
        chosen = read_array("at", at)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not len(chosen):
            raise InputError(f"`at` must be a list of steps, got {at!r}. Give whole numbers.")
        if (np.diff(chosen) <= 0).any() or chosen[0] < 0 or chosen[-1] > steps:
            raise InputError(f"`at` must increase within 0..{steps}, got {chosen[:5]}... Sort it.")
        return chosen.astype(int)
    if every is not None:
        _check_records("every", every, steps // check_count("every", every))
        return np.unique(np.append(np.arange(0, steps + 1, every), steps))
    if points is not None:
        _check_records("points", points, check_count("points", points, least=2))
        return log_spaced(steps, points)
    return np.arange(steps + 1) if steps <= _DENSE else log_spaced(steps)


def _check_steps(steps: int) -> None:
    if check_count("steps", steps, least=0) > _LAST:
        raise InputError(f"`steps` must be at most 2**53, got {steps}. Choose fewer.")


def _check_records(name: str, value: int, count: int) -> None:
    if count > _MOST:
        raise InputError(
            f"`{name}` = {value} asks for {count} records, more than {_MOST}. Record less often."
        )
