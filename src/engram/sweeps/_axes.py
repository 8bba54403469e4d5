"""Axes: named values to vary, from lists, evenly or logarithmically spaced numbers, or seeds."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from engram._checks import InputError, check_count, check_scalar

_FORMS = (
    "a list, {linspace = [first, last, count]}, {logspace = [first, last, count]} (exponents of ten) or "
    "{seeds = count}"
)
_MOST = 10**7  # values of one axis


def read_axes(axes: Any) -> dict[str, np.ndarray]:
    """Every axis as an array of distinct values."""
    if not isinstance(axes, Mapping) or not axes:
        raise InputError(f"`axes` must name at least one axis, got {axes!r}. Each is {_FORMS}.")
    return {str(name): _read_axis(str(name), values) for name, values in axes.items()}


def _read_axis(name: str, given: Any) -> np.ndarray:
    if not name.isidentifier():
        raise InputError(f"`axes` must have plain names, got {name!r}. Use letters, digits and _.")
    if isinstance(given, Mapping):
        values = _spaced(name, given)
    else:
        try:
            values = np.asarray(given)
        except ValueError:
            values = np.empty((0, 0))
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iuf":
        raise InputError(f"axis `{name}` must be {_FORMS}, got {given!r}.")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"axis `{name}` must be finite, got {given!r}.")
    if len(np.unique(values)) != len(values):
        raise InputError(f"axis `{name}` must not repeat a value: each is a coordinate of its own.")
    return values.astype(np.int64 if values.dtype.kind in "iu" else np.float64)


def _spaced(name: str, given: Mapping[str, Any]) -> np.ndarray:
    if len(given) != 1:
        raise InputError(f"axis `{name}` must be {_FORMS}, got {dict(given)!r}.")
    ((form, numbers),) = given.items()
    if form == "seeds":
        return np.arange(_count(name, form, numbers))
    spacing = {"linspace": np.linspace, "logspace": np.logspace}
    if form not in spacing or not isinstance(numbers, list | tuple) or len(numbers) != 3:
        raise InputError(f"axis `{name}` must be {_FORMS}, got {dict(given)!r}.")
    first, last, count = numbers
    count = _count(name, form, count)
    first, last = (check_scalar(f"axes.{name}.{form}", end) for end in (first, last))
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told by the caller
        return spacing[form](first, last, count)


def _count(name: str, form: str, count: Any) -> int:
    check_count(f"axes.{name}.{form}", count)
    if count > _MOST:
        raise InputError(
            f"`axes.{name}.{form}` must have at most {_MOST:,} values, got {count}. Take fewer."
        )
    return count
