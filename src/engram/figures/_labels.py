"""Names, symbols and units of what figures write, and the attributes that let them be made again."""

import dataclasses
import functools
import json
import re
import tomllib
from importlib import resources
from typing import Any

import xarray as xr

import engram

_DIMS = ("case", "component", "sector", "second", "first", "class")


@functools.cache
def words() -> dict[str, Any]:
    """Each figure's title, label in the paper and caption; and under "variables" what their names mean."""
    path = resources.files("engram.figures") / "data" / "words.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def labelled(data: Any, figure: str, settings: Any) -> xr.Dataset:
    """Say what each variable is; one that `words.toml` does not have is an error, not an unnamed number."""
    data = data.copy()
    for name in (*data.data_vars, *data.coords):
        stem = re.sub("^((drawn|sgd|plane|alone|same|imbalanced|adam)_)+|_over_.*", "", str(name))
        if stem in _DIMS:
            continue
        stem, _, when = re.fullmatch("(.*?)(_(before|after))?", stem).groups()  # pyright: ignore
        meaning, symbol, unit = words()["variables"][stem]
        meaning += f", {when} training" if when else ""
        data[name].attrs = {"long_name": meaning, "units": unit}
        if symbol:
            data[name].attrs["symbol"] = symbol
    data.attrs = {
        "figure": figure,
        "title": words()[figure]["title"],
        "label": words()[figure]["label"],
        "paper": "Cabannes, Simsek, Bietti: Learning Associative Memories with Gradient Descent, ICML 2024",
        "tokens": "counted from zero here, from one in the report",
        "settings": json.dumps(dataclasses.asdict(settings)),
        "engram": engram.__version__,
    }
    return data


def settings_of(data: xr.Dataset) -> dict[str, Any]:
    """The settings that a figure's data were computed with, by name."""
    return json.loads(data.attrs["settings"])


def settings_from(text: str, kind: Any) -> Any:
    """The settings that `labelled` wrote."""
    given = json.loads(text)
    if not isinstance(given, dict):
        raise TypeError("they are not named")
    settings = kind(**{name: _as_tuple(value) for name, value in given.items()})
    for field in dataclasses.fields(kind):
        value = getattr(settings, field.name)
        if not _fits(value, field.default):
            raise TypeError(f"{field.name} = {value!r}")
    return settings


def _fits(value: Any, like: Any) -> bool:
    """Whether a value is of the kind of a default; a whole number will do for a float."""
    if isinstance(like, tuple):
        return isinstance(value, tuple) and all(_fits(each, like[0]) for each in value)
    kinds = (int, float) if isinstance(like, float) else (type(like),)
    return isinstance(value, kinds) and not isinstance(value, bool)


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value
