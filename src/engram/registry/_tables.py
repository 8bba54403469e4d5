"""From a table to the object that it describes, and back."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from engram._errors import InputError
from engram.registry._entries import Entry, entries, find, name_of
from engram.registry._fields import REQUIRED, Field

# The field of a table that says which entry it is about.
CHOOSERS = {
    "problem": "family",
    "optimizer": "optimizer",
    "sampling": "sampling",
    "schedule": "schedule",
}
_OPTIONS = {"family": "tokens", "path": "problem_file", "events": "event"}  # unlike their fields
_WRITTEN_OUT = 4096  # numbers of an array; a longer one is named by its fingerprint


def names_of(kind: str) -> list[str]:
    """What a table of this kind may choose: for dynamics, an optimizer's name as well."""
    return [*entries(kind), *(entries("optimizer") if kind == "dynamics" else ())]


def entry_of(kind: str, name: str) -> Entry:
    """The entry that a table chooses: the name of an optimizer is practical descent with it."""
    if kind == "dynamics" and name in entries("optimizer"):
        practical = find("practical", "descent")
        return Entry(
            kind,
            name,
            practical.target,
            practical.fields,
            entries("optimizer")[name].help,
            parts={"optimizer": name, "sampling": None},
            origin=entries("optimizer")[name].origin,
        )
    return find(kind, name)


def parts_of(entry: Entry, table: Mapping[str, Any]) -> dict[str, Entry]:
    """The entries that an entry is made up of, as far as its table chooses them."""
    chosen = {kind: name or table.get(kind) for kind, name in entry.parts.items()}
    for kind, name in chosen.items():
        if name is not None and not isinstance(name, str):
            raise InputError(f"`{kind}` must be a name, got {name!r}. Write its fields beside it.")
    return {kind: find(kind, name) for kind, name in chosen.items() if name is not None}


def used_by(kind: str, item: Mapping[str, Any] | str) -> list[Entry]:
    """The entries that a table, or a name alone, makes use of."""
    chooser = CHOOSERS.get(kind, "kind")
    table = {chooser: item} if isinstance(item, str) else item
    if table.get(chooser) not in names_of(kind):
        return []
    entry = entry_of(kind, table[chooser])
    parts = [(part, name or table.get(part)) for part, name in entry.parts.items()]
    return [entry, *(entries(part)[name] for part, name in parts if name in entries(part))]


def used_in(tables: Mapping[str, Any]) -> list[Entry]:
    """The entries that the tables of a spec make use of."""
    run = tables.get("run", {})
    named = [(kind, tables[kind]) for kind in ("problem", "system", "dynamics") if kind in tables]
    named += [("observable", item) for item in run.get("record", ())]
    named += [("event", item) for item in run.get("events", ())]
    return [entry for kind, item in named for entry in used_by(kind, item)]


def fields_of(kind: str, table: Mapping[str, Any]) -> dict[str, Field]:
    """All fields that a table of this kind may have, given what it chooses; the chooser aside."""
    return _fields(entry_of(kind, table[CHOOSERS.get(kind, "kind")]), table)


def _fields(entry: Entry, table: Mapping[str, Any]) -> dict[str, Field]:
    found = dict(entry.fields)
    for part in parts_of(entry, table).values():
        found |= part.fields
    return found


def all_fields(kind: str) -> dict[str, Field]:
    """What tables of this kind may have, whatever they choose; a default only where all agree on it."""
    kinds = (kind, "practical", "optimizer", "sampling") if kind == "dynamics" else (kind,)
    found: dict[str, Field] = {}
    for name, field in [
        item for each in kinds for entry in entries(each).values() for item in entry.fields.items()
    ]:
        first = found.setdefault(name, dataclasses.replace(field, type=field.type | None))
        if field.is_required or field.default != first.default:
            found[name] = dataclasses.replace(first, default=None)
    return found


def option_of(kind: str, field: str) -> str:
    """The option of the command line that fills a field of a table."""
    name = kind if field == "kind" else _OPTIONS.get(field, field)
    return "--" + name.replace("_", "-")


def make(kind: str, table: Mapping[str, Any] | str, **supplied: Any) -> Any:
    """The object that a table, or a name alone, describes.

    No value is checked here, so that tracers pass; numbers become float64 arrays.

    Args:
        kind: Of the table.
        table: The chooser (`family` or `kind`) and the fields.
        supplied: What no table says: the `problem` of a system and its `law`.
    """
    chooser = CHOOSERS.get(kind, "kind")
    table = {chooser: table} if isinstance(table, str) else dict(table)
    if chooser not in table:
        raise InputError(f"{kind} as a table must say its `{chooser}`, got {table!r}. Name one.")
    entry = entry_of(kind, table.pop(chooser))
    _check_names(entry, table)
    given: dict[str, Any] = {name: supplied[name] for name in entry.supplied if name in supplied}
    for part, chosen in parts_of(entry, table).items():
        table.pop(part, None)
        own = {name: table.pop(name) for name in chosen.fields if name in table}
        given[part] = make(part, {CHOOSERS[part]: chosen.name} | own)
    usual = {
        name: each.default for name, each in entry.fields.items() if type(each.default) is float
    }
    for name, value in (usual | table).items():
        field = entry.fields.get(name, Field())
        if field.takes_schedule and isinstance(value, Mapping):
            value = make("schedule", value)
        given[name if field.argument is None else field.argument] = field.holds(value)
    given.pop("", None)  # fields that are no concern of the target
    return entry.load()(**given)


def _check_names(entry: Entry, table: Mapping[str, Any]) -> None:
    """Refuse a table with a field that the entry does not take, or without one that it needs."""
    fields, what = _fields(entry, table), f"{entry.kind} {entry.name!r}"
    own = [name for part in parts_of(entry, table).values() for name in part.fields]
    if double := [name for name in own if own.count(name) > 1]:
        raise InputError(f"`{double[0]}` is a field of both parts of {what}. Rename one of them.")
    unknown = [name for name in table if name not in fields and name not in entry.parts]
    if unknown:
        known = ", ".join(fields) or "nothing"
        raise InputError(f"{what} does not take {', '.join(unknown)}. It takes {known}.")
    missing = [name for name, field in fields.items() if field.is_required and name not in table]
    if missing:
        raise InputError(f"{what} needs {', '.join(missing)}. Give it.")


def complete(kind: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with the defaults of whatever it leaves out."""
    usual = {name: field.default for name, field in fields_of(kind, table).items()}
    return {
        name: value for name, value in usual.items() if value is not None and value is not REQUIRED
    } | dict(table)


def read_off(kind: str, thing: Any) -> dict[str, Any]:
    """The table of an object whose attributes are called as its fields are."""
    name = name_of(kind, thing)
    chooser = CHOOSERS.get(kind, "kind")
    if name is None:
        return {chooser: type(thing).__qualname__, "numbers": _fingerprint(*_leaves(thing))}
    fields = find(kind, name).fields
    return {chooser: name} | {field: getattr(thing, field) for field in fields}


def table(thing: Any) -> dict[str, Any]:
    """The table that an object stands for, in plain values: `make` gives the same object again.

    A long array, and whatever has no name, stands there by its fingerprint.
    """
    return {name: _plain(value) for name, value in thing.settings().items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    import numpy as np

    array = np.asarray(value)
    return array.tolist() if array.size <= _WRITTEN_OUT else _fingerprint(array)


def _leaves(thing: Any) -> list[Any]:
    import jax

    return jax.tree.leaves(thing)


def _fingerprint(*arrays: Any) -> str:
    import numpy as np

    found = hashlib.sha256()
    for array in arrays:
        found.update(np.asarray(array).tobytes())
    return f"sha256 {found.hexdigest()[:16]}"
