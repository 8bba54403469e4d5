"""Whether two datasets are the same, bit for bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

_OF_A_FORMAT = {"engram", "format", "kind", "settings", "events_loss", "events_lost"}
_OF_THE_END = ("status", "status_text", "stopped_at", "num_steps")


def differences(old: xr.Dataset, new: xr.Dataset) -> list[str]:
    """Say what differs, name by name; empty if the two agree bit for bit.

    Variables and coordinates are compared in values, dtype, axes and attributes, then the
    attributes of the whole, except which version of engram wrote it, in which format. NaN equals NaN;
    0.0 and -0.0 differ. Text is compared as text, however it is held in memory. What a file of an earlier
    format does not have (more variables, more than eight spikes) is not compared.
    """
    is_older = old.attrs.get("format") != new.attrs.get("format")
    if is_older:
        new = new.drop_vars([name for name in new.variables if name not in old.variables])
        new = new.isel(spike=slice(old.sizes.get("spike")), missing_dims="ignore")
    lines = []
    for name in dict.fromkeys((*old.variables, *new.variables)):
        if name not in new.variables or name not in old.variables:
            lines.append(f"{name} {'is missing' if name in old.variables else 'is new'}")
        elif (name in old.coords) != (name in new.coords):
            lines.append(f"{name} is a coordinate in one only")
        elif words := _difference(old.variables[name], new.variables[name]):
            lines.append(f"{name} {words}")
    aside = _OF_A_FORMAT if is_older else {"engram"}
    unlike = [name for name in _unlike(old.attrs, new.attrs) if name not in aside]
    return lines + [f"the attribute {name}" for name in unlike]


def common_part(old: xr.Dataset, new: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Of an interrupted run and a longer one: what both recorded, without what describes the end."""
    along = "step" if "step" in old.dims else "time"
    names = [
        name
        for name, array in old.data_vars.items()
        if along in array.dims or name == "start_weights" or str(name).startswith("problem_")
    ]
    reached = {along: slice(old.sizes.get(along, 0))}

    def part(data: xr.Dataset) -> xr.Dataset:
        kept = data.isel(reached, missing_dims="ignore")[[name for name in names if name in data]]
        return kept.drop_attrs(deep=False).assign_attrs(
            {name: value for name, value in data.attrs.items() if name not in _OF_THE_END}
        )

    return part(old), part(new)


def _difference(old: xr.Variable, new: xr.Variable) -> str | None:
    if old.sizes != new.sizes or old.dims != new.dims:
        return f"has the axes {dict(new.sizes)}, not {dict(old.sizes)}"
    x, y = _plain(old.values), _plain(new.values)
    if x.dtype != y.dtype and not x.dtype.kind == y.dtype.kind == "U":
        return f"is {y.dtype}, not {x.dtype}"
    other = ~_equal(x, y)
    if other.any():
        return f"differs {_how_much(x[other], y[other])}"
    unlike = _unlike(old.attrs, new.attrs)
    return f"differs in the attribute {', '.join(unlike)}" if unlike else None


def _plain(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array.astype(str) if array.dtype.kind in "OSU" else array


def _equal(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind != "f":
        return np.asarray(x == y)
    bits = f"u{x.dtype.itemsize}"
    return np.asarray((x.view(bits) == y.view(bits)) | (np.isnan(x) & np.isnan(y)))


def _how_much(x: np.ndarray, y: np.ndarray) -> str:
    if x.dtype.kind == "U":
        return f"in {x.size:,} entries"
    with np.errstate(over="ignore"):
        gap = np.abs(x.astype(float) - y.astype(float)).max()
    if np.isnan(gap):
        return "by NaN in one only"
    return f"by {gap:.3g} at most" if gap else "in the sign of a zero"


def _unlike(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> list[str]:
    """The attributes that differ; a file gives a list of one back as a number."""
    as_variable = lambda value: xr.Variable("entry", np.atleast_1d(_plain(value)))
    return [
        str(name)
        for name in dict.fromkeys((*old, *new))
        if not (name in old and name in new)
        or _difference(as_variable(old[name]), as_variable(new[name]))
    ]
