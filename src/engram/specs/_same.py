"""Whether two datasets are the same, bit for bit."""

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
    found, is_older = [], old.attrs.get("format") != new.attrs.get("format")
    kept = (
        new.isel(spike=slice(old.sizes.get("spike"))) if is_older and "spike" in new.dims else new
    )
    for name in dict.fromkeys((*old.variables, *new.variables)):
        if name not in old.variables and is_older:  # what this engram finds in addition
            continue
        if name not in new.variables or name not in old.variables:
            found.append(f"{name} {'is missing' if name in old.variables else 'is new'}")
        elif (name in old.coords) != (name in new.coords):
            found.append(f"{name} is a coordinate in one only")
        elif said := _difference(*(each.variables[name] for each in (old, kept))):
            found.append(f"{name} {said}")
    aside = _OF_A_FORMAT if is_older else {"engram"}
    unlike = [name for name in _unlike(old.attrs, new.attrs) if name not in aside]
    return found + [f"the attribute {name}" for name in unlike]


def common_part(old: xr.Dataset, new: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Of an interrupted run and a longer one: what both recorded, without what tells of the end."""
    along = "step" if "step" in old.dims else "time"
    names = [
        name
        for name, array in old.data_vars.items()
        if along in array.dims or name == "start_weights" or str(name).startswith("problem_")
    ]
    reached = {along: slice(old.sizes.get(along, 0))}
    first, second = (
        data.isel(reached, missing_dims="ignore")[[name for name in names if name in data]]
        for data in (old, new)
    )
    for part in (first, second):
        part.attrs = {name: part.attrs[name] for name in part.attrs if name not in _OF_THE_END}
    return first, second


def _difference(old: xr.Variable, new: xr.Variable) -> str | None:
    if old.dims != new.dims or old.shape != new.shape:
        return f"has the axes {dict(new.sizes)}, not {dict(old.sizes)}"
    x, y = _plain(old.values), _plain(new.values)
    if not _of_one_type(x, y):
        return f"is {y.dtype}, not {x.dtype}"
    other = ~_equal(x, y)
    if other.any():
        return f"differs {_how_much(x[other], y[other])}"
    unlike = _unlike(old.attrs, new.attrs)
    return f"differs in the attribute {', '.join(unlike)}" if unlike else None


def _plain(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array.astype(str) if array.dtype.kind in "OSU" else array


def _of_one_type(x: np.ndarray, y: np.ndarray) -> bool:
    return x.dtype == y.dtype or x.dtype.kind == y.dtype.kind == "U"


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


def _unlike(old: dict[Any, Any], new: dict[Any, Any]) -> list[str]:
    """The attributes that differ; a file gives a list of one back as a number."""

    def is_same(name: Any) -> bool:
        if name not in old or name not in new:
            return False
        x, y = (np.atleast_1d(_plain(attrs[name])) for attrs in (old, new))
        return x.shape == y.shape and _of_one_type(x, y) and bool(_equal(x, y).all())

    return [str(name) for name in dict.fromkeys((*old, *new)) if not is_same(name)]
