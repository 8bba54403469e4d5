"""From a table to the object that it describes, and back."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from engram.registry._entries import KINDS, Entry, entries, find, name_of
from engram.registry._fields import REQUIRED, Field

# The field of a table that says which entry it is about; tables of other kinds choose nothing.
CHOOSERS = dict.fromkeys(KINDS, "kind") | {
    "problem": "family",
    "optimizer": "optimizer",
    "sampling": "sampling",
    "schedule": "schedule",
    "study": "name",
}
_OPTIONS = {"family": "tokens", "path": "problem_file", "events": "event"}  # unlike their fields
_WRITTEN_OUT = 4096  # numbers of an array; a longer one is named by its fingerprint


def names_of(kind: str) -> list[str]:
    """What a table of this kind may choose: for dynamics, an optimizer's name as well."""
    return [*entries(kind), *(entries("optimizer") if kind == "dynamics" else ())]


def entry_of(kind: str, name: str) -> Entry:
    """The entry that a table chooses: the name of an optimizer is practical descent with it."""
    optimizer = entries("optimizer").get(name) if kind == "dynamics" else None
    if optimizer is None:
        return find(kind, name)
    return dataclasses.replace(
        find("practical", "descent"),
        kind=kind,
        name=name,
        help=optimizer.help,
        parts={"optimizer": name, "sampling": None},
        origin=optimizer.origin,
    )


def parts_of(entry: Entry, table: Mapping[str, Any]) -> dict[str, Entry]:
    """The entries that an entry is made up of, as far as its table chooses registered ones."""
    chosen = {kind: name or table.get(kind) for kind, name in entry.parts.items()}
    return {
        kind: entries(kind)[name]
        for kind, name in chosen.items()
        if isinstance(name, str) and name in entries(kind)
    }


def used_in(tables: Mapping[str, Any]) -> list[Entry]:
    """The entries that the tables of a spec use: one table of a kind, or a list of tables or names."""
    run = tables.get("run", {})
    lists = {"observable": run.get("record", ()), "event": run.get("events", ()), **tables}
    used = []
    for kind, chooser in CHOOSERS.items():
        items = lists.get(kind, ())
        for item in [items] if isinstance(items, Mapping | str) else items:
            table = {chooser: item} if isinstance(item, str) else item
            if table.get(chooser) in names_of(kind):
                entry = entry_of(kind, table[chooser])
                used += [entry, *parts_of(entry, table).values()]
    return used


def fields_of(kind: str, table: Mapping[str, Any]) -> dict[str, Field]:
    """All fields that a table of this kind may have, given what it chooses; the chooser aside."""
    entry = entry_of(kind, table[CHOOSERS[kind]]) if kind in CHOOSERS else find(kind, kind)
    fields = dict(entry.fields)
    for part in parts_of(entry, table).values():
        fields |= part.fields
    return fields


def all_fields(kind: str) -> dict[str, Field]:
    """What tables of this kind may have, whatever they choose; a default only where all agree on it."""
    kinds = (kind, "practical", "optimizer", "sampling") if kind == "dynamics" else (kind,)
    fields: dict[str, Field] = {}
    for name, field in [
        item for each in kinds for entry in entries(each).values() for item in entry.fields.items()
    ]:
        first = fields.setdefault(name, dataclasses.replace(field, type=field.type | None))
        if field.is_required or field.default != first.default:
            fields[name] = dataclasses.replace(first, default=None)
    return fields


def option_of(kind: str, field: str) -> str:
    """The option of the command line that fills a field of a table."""
    name = kind if field == "kind" else _OPTIONS.get(field, field)
    return "--" + name.replace("_", "-")


def make(kind: str, table: Mapping[str, Any] | str, **supplied: Any) -> Any:
    """The object that a table, or a name alone, describes.

    Names are checked here and values are not, so that tracers pass; numbers become float64 arrays.

    Args:
        kind: Of the table.
        table: The chooser (`family` or `kind`) and the fields.
        supplied: What no table says: the `problem` of a system and its `law`.
    """
    from engram.registry._values import check_table

    table = {CHOOSERS[kind]: table} if isinstance(table, str) else dict(table)
    check_table(kind, table, names_only=True)
    entry = entry_of(kind, table.pop(CHOOSERS[kind]))
    arguments = {name: supplied[name] for name in entry.supplied if name in supplied}
    for part, chosen in parts_of(entry, table).items():
        table.pop(part, None)
        own = {name: table.pop(name) for name in chosen.fields if name in table}
        arguments[part] = make(part, {CHOOSERS[part]: chosen.name} | own)
    usual = {
        name: each.default for name, each in entry.fields.items() if type(each.default) is float
    }
    for name, value in (usual | table).items():
        field = entry.fields[name]
        if field.takes_schedule and isinstance(value, Mapping):
            value = make("schedule", value)
        arguments[name if field.argument is None else field.argument] = field.holds(value)
    arguments.pop("", None)  # fields that the target does not take
    return entry.load()(**arguments)


def complete(kind: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with the defaults of whatever it leaves out."""
    usual = {name: field.default for name, field in fields_of(kind, table).items()}
    return {
        name: value for name, value in usual.items() if value is not None and value is not REQUIRED
    } | dict(table)


def read_off(kind: str, thing: Any) -> dict[str, Any]:
    """The table of an object whose attributes are called as its fields are."""
    name, chooser = name_of(kind, thing), CHOOSERS[kind]
    if name is None:
        import jax

        return {
            chooser: type(thing).__qualname__, "numbers": _fingerprint(*jax.tree.leaves(thing))
        }  # fmt: skip
    return {chooser: name} | {field: getattr(thing, field) for field in find(kind, name).fields}


def table(thing: Any) -> dict[str, Any]:
    """The table that an object stands for, in plain values: `make` gives the same object again.

    A long array, and whatever has no name, is represented by its fingerprint.
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


def _fingerprint(*arrays: Any) -> str:
    import numpy as np

    content = b"".join(np.asarray(array).tobytes() for array in arrays)
    return f"sha256 {hashlib.sha256(content).hexdigest()[:16]}"
