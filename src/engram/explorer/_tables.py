"""Tables of a request: checked by the registry's fields, then by the page's own bounds."""

from collections.abc import Mapping
from typing import Any

from engram.explorer._catalogue import beyond, hidden_fields, names_for
from engram.registry import fields_of, names_of
from engram.specs._faults import Faults
from engram.specs._tables import read_table

_LONGEST = 200  # characters of a text
_DEEPEST = 4  # levels of lists in a table


class Refused(ValueError):
    """Faults of a table, each with its field."""

    def __init__(self, told: list[str]):
        super().__init__("; ".join(told))
        self.told = told


class _Told(Faults):
    """Faults by the field of a table, whose own place the request knows."""

    def __init__(self) -> None:
        super().__init__("the request")
        self.told: list[str] = []

    def add(self, place: str, words: str) -> None:
        field = place.partition(".")[2]
        self.told.append(f".{field}: {words}" if field else f": {words}")

    def check(self) -> None:
        if self.told:
            raise Refused(list(dict.fromkeys(self.told)))


def read_checked(
    kind: str, given: dict[str, Any], supplied: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """A table that the registry has checked, with the fields that were given and no others."""
    told, chooser = _Told(), "family" if kind == "problem" else "kind"
    _check_plain(given, told)
    name = given.get(chooser)
    if name in names_of(kind) and name not in names_for(kind):
        told.add(f"{kind}.{chooser}", f"{name!r} cannot be chosen here. Pick another.")
        told.check()
    if name in names_of(kind):
        for field in set(given) & set(hidden_fields(kind, name)):
            told.add(f"{kind}.{field}", "is set by the page. Leave it out.")
    read = read_table(kind, {**supplied, **given}, told)
    told.check()
    for field, words in beyond(fields_of(kind, read), read):
        if field in given:
            told.add(f"{kind}.{field}", words)
    told.check()
    return {field: read[field] for field in given if field in read}


def _check_plain(given: Any, told: _Told, depth: int = 0) -> None:
    """Refuse long texts and deep lists."""
    items = list(given.values()) if isinstance(given, dict) else given
    for item in items:
        if isinstance(item, str) and len(item) > _LONGEST:
            told.add("", f"a text must have at most {_LONGEST} characters, got {len(item)}.")
        if isinstance(item, list | dict):
            if depth == _DEEPEST:
                told.add("", "a field nests too deep. Write fewer levels.")
                continue
            _check_plain(item, told, depth + 1)
    told.check()
