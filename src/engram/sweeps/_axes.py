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
    """Every axis as an array of distinct values: whole numbers, numbers or names."""
    if not isinstance(axes, Mapping) or not axes:
        raise InputError(f"`axes` must name at least one axis, got {axes!r}. Each is {_FORMS}.")
    return {str(name): _read_axis(str(name), values) for name, values in axes.items()}


def _read_axis(name: str, given: Any) -> np.ndarray:
    if not name.isidentifier():
        raise InputError(f"`axes` must have plain names, got {name!r}. Use letters, digits and _.")
    try:
        values = _spaced(name, given) if isinstance(given, Mapping) else np.asarray(given)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        values = np.empty((0, 0))  # lists of several lengths
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iufU":
        raise InputError(f"axis `{name}` must be {_FORMS}, got {given!r}.")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"axis `{name}` must be finite, got {given!r}.")
    if len(np.unique(values)) != len(values):
        raise InputError(f"axis `{name}` must not repeat a value: each is a coordinate of its own.")
    return values.astype(
        {"i": np.int64, "u": np.int64, "f": np.float64}.get(values.dtype.kind, str)
    )


def _spaced(name: str, given: Mapping[str, Any]) -> np.ndarray:
    form: str
    numbers: Any
    form, numbers = next(iter(given.items()), ("", None))
    place, ends = f"axes.{name}.{form}", isinstance(numbers, list | tuple) and len(numbers) == 3
    spacing = {"linspace": np.linspace, "logspace": np.logspace}
    if len(given) != 1 or not (form == "seeds" or (form in spacing and ends)):
        raise InputError(f"axis `{name}` must be {_FORMS}, got {dict(given)!r}.")
    count: Any = numbers if form == "seeds" else numbers[2]
    if check_count(place, count) > _MOST:
        raise InputError(f"`{place}` must have at most {_MOST:,} values, got {count}. Take fewer.")
    if form == "seeds":
        return np.arange(count)
    first, last = (check_scalar(place, end) for end in numbers[:2])
    with np.errstate(over="ignore", invalid="ignore"):  # the caller reports what is not finite
        return spacing[form](first, last, count)
