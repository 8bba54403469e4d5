"""One table of a spec, checked by pydantic against the fields that the registry has for it."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic
from pydantic import ConfigDict, create_model

from engram.registry import (
    CHOOSERS,
    Entry,
    Field,
    all_fields,
    entries,
    entry_of,
    fields_of,
    find,
    names_of,
)
from engram.specs._faults import Faults

_USUAL = {"problem": "two", "dynamics": "gd", "system": "memory"}
_models: dict[Any, tuple[Any, Any]] = {}


def read_table(kind: str, given: Any, faults: Faults) -> dict[str, Any]:
    """A table with its defaults filled in; what is wrong with it goes to `faults`."""
    if not isinstance(given, dict):
        faults.add(kind, f"must be a table, got {given!r}. Write [{kind}].")
        return {}
    chosen, entry = _choose(kind, given, faults)
    fields = all_fields(kind) if entry is None else _fields(kind, entry, chosen)
    rest = {name: value for name, value in given.items() if name not in chosen}
    what = " ".join(f"{chooser} {name!r}" for chooser, name in list(chosen.items())[:1])
    unused = sorted(name for name in rest if name not in fields and name in all_fields(kind))
    if unused:
        faults.add(kind, f"{what} does not take {', '.join(unused)}. Leave it out.")
    faults.unknown(kind, [name for name in rest if name not in {*fields, *unused}], rest, fields)
    known = {name: value for name, value in rest.items() if name in fields}
    for name, field in fields.items():
        if field.takes_schedule and isinstance(known.get(name), dict):
            known[name] = read_table("schedule", known[name], faults)
    read, missing = _validated(kind, fields, known, faults)
    if entry is not None:
        groups = [group for group in entry.needs if not any(name in rest for name in group)]
        missing += [
            part for part in _open_parts(entry) if part == "optimizer" and part not in chosen
        ]
        missing += [" or ".join(group) for group in groups]
        if missing:
            faults.add(kind, f"{what} needs {', '.join(missing)}. Give it.")
    return chosen | read


def _choose(kind: str, given: Mapping[str, Any], faults: Faults) -> tuple[dict[str, Any], Any]:
    """What the table chooses, by the field that chooses; and its entry, if there is one."""
    if kind in ("run", "transformer"):  # tables that choose nothing
        return {}, find(kind, kind)
    chooser = CHOOSERS.get(kind, "kind")
    name = given.get(chooser, _USUAL.get(kind))
    if not _is_among(names_of(kind), name, f"{kind}.{chooser}", faults):
        return {chooser: name}, None
    entry, chosen = entry_of(kind, str(name)), {chooser: name}
    for part in _open_parts(entry):
        if part in given and _is_among(list(entries(part)), given[part], f"{kind}.{part}", faults):
            chosen[part] = given[part]
        elif part in given:
            return chosen | {part: given[part]}, None
    return chosen, entry


def _open_parts(entry: Entry) -> list[str]:
    return [part for part, name in entry.parts.items() if name is None]


def _is_among(names: list[str], name: Any, place: str, faults: Faults) -> bool:
    if isinstance(name, str) and name in names:
        return True
    options = " or ".join(filter(None, (", ".join(map(repr, names[:-1])), repr(names[-1]))))
    faults.add(
        place,
        f"must be {options}, got {faults.brief(name)}. {faults.near(name, names, 'Pick one.')}",
    )
    return False


def _fields(kind: str, entry: Entry, chosen: Mapping[str, Any]) -> dict[str, Field]:
    return dict(entry.fields) if not chosen else fields_of(kind, chosen)


def _validated(
    kind: str, fields: Mapping[str, Field], given: dict[str, Any], faults: Faults
) -> tuple[dict[str, Any], list[str]]:
    """The values, defaults included, and the names of those that are missing."""
    try:
        # By way of JSON, where strict is as strict as TOML: neither true nor "5" is a number.
        text = json.dumps(given, default=str)
        read = _model_of(fields).model_validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        return {}, faults.of_pydantic(kind, error)
    return read.model_dump(exclude_none=True), []


def _model_of(fields: Mapping[str, Field]) -> Any:
    """A pydantic model with these fields, made once."""
    key = tuple((name, id(field)) for name, field in fields.items())
    if key not in _models:
        shown: Any = {name: (_annotation(field), _default(field)) for name, field in fields.items()}
        model = create_model("Table", __config__=ConfigDict(extra="forbid"), **shown)
        _models[key] = model, fields  # the fields stay, so that no other gets their ids
    return _models[key][0]


def _default(field: Field) -> Any:
    return ... if field.is_required else field.default


def _annotation(field: Field) -> Any:
    """The type with its bounds, which hold for the numbers in it, alone or in a list."""
    low, high = field.bounds
    bounds = {"ge": low, "le": high, "gt": field.above, "lt": field.below}
    bounds = {name: bound for name, bound in bounds.items() if bound is not None}
    return _bounded(field.type, bounds)


def _bounded(form: Any, bounds: dict[str, Any]) -> Any:
    import types
    import typing

    if form is float:
        return Annotated[float, pydantic.Field(allow_inf_nan=False, **bounds)]
    if form is int:
        return Annotated[int, pydantic.Field(**bounds)]
    origin, inner = typing.get_origin(form), typing.get_args(form)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(_bounded(each, bounds) for each in inner)]  # noqa: UP007
    if origin is list and inner and inner[0] is not Any:
        return list[_bounded(inner[0], bounds)]
    return form
