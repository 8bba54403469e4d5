"""Whether a table suits its fields: names, types, bounds and choices, each fault in words."""

import difflib
import math
import os
import reprlib
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from engram._errors import InputError
from engram.registry._entries import entries, find
from engram.registry._fields import REQUIRED, Field, forms_of
from engram.registry._tables import CHOOSERS, all_fields, entry_of, fields_of, names_of, parts_of

USUAL = {"problem": "two", "dynamics": "gd", "system": "memory"}
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_WORDS |= {list: "a list", dict: "a table"}


class Fault(NamedTuple):
    """What is wrong with a table.

    Args:
        kind: Of the table.
        name: What the table chooses.
        field: The field, or a place within it; empty if it is the table as a whole.
        words: What is wrong, the value met, and what to do.
    """

    kind: str
    name: Any
    field: str
    words: str


def check_table(kind: str, table: Mapping[str, Any] | str, *, names_only: bool = False) -> None:
    """Refuse a table from Python with a name or a value that does not fit; arrays and tracers pass."""
    if isinstance(table, str):
        table = {CHOOSERS[kind]: table}
    if CHOOSERS[kind] not in table:
        raise InputError(
            f"{kind} as a table must say its `{CHOOSERS[kind]}`, got {table!r}. Name one."
        )
    for fault in read_table(kind, table, mode="names" if names_only else "python")[1]:
        what = f"{fault.kind} {fault.name!r}"
        raise InputError(
            f"`{fault.field}` of {what}: {fault.words}" if fault.field else f"{what} {fault.words}"
        )


def read_table(
    kind: str, given: Any, *, mode: Literal["plain", "python", "names"] = "plain"
) -> tuple[dict[str, Any], list[Fault]]:
    """A table with its defaults filled in, and everything that is wrong with it.

    Args:
        kind: Of the table.
        given: The table.
        mode: Values must be "plain", as files and requests have them; those of "python" may be arrays,
            too; and where "names" alone are checked they may be anything.
    """
    if not isinstance(given, Mapping):
        return {}, [Fault(kind, None, "", f"must be a table, got {given!r}. Write [{kind}].")]
    faults: list[Fault] = []
    chosen, entry = _choose(kind, given, faults)
    add = lambda field, words: faults.append(
        Fault(kind, next(iter(chosen.values()), None), field, words)
    )
    fields = all_fields(kind) if entry is None else fields_of(kind, chosen)
    rest = {name: value for name, value in given.items() if name not in chosen}
    unknown = rest.keys() - fields.keys()
    unused = sorted(unknown & all_fields(kind).keys()) if unknown else []
    if unused:
        add("", f"does not take {', '.join(unused)}. Leave it out.")
    for name, value in rest.items():
        if name not in fields and name not in unused:
            move = near(name, [*fields, *chosen], "Check its spelling, or remove it.")
            add(str(name), f"no such field, got {reprlib.repr(value)}. {move}")
    read = {}
    for name, field in fields.items():
        value = rest.get(name, field.default)
        if name in rest and field.takes_schedule and isinstance(value, Mapping):
            value, inside = read_table("schedule", value, mode=mode)
            faults += inside
        elif name in rest and mode != "names":
            value, wrong = _suited(field, field.type, value, name, mode == "plain")
            for place, words in wrong:
                add(place, words)
            value = None if wrong else value
        if value is not None and value is not REQUIRED:
            read[name] = value
    missing = [name for name, field in fields.items() if field.is_required and name not in rest]
    if entry is not None:
        if entry.parts.get("optimizer", "") is None and "optimizer" not in chosen:
            missing.append("optimizer")
        missing += [" or ".join(group) for group in entry.needs if not rest.keys() & {*group}]
    if missing:
        add("", f"needs {', '.join(missing)}. Give it.")
    return chosen | read, faults


def _choose(kind: str, given: Mapping[str, Any], faults: list[Fault]) -> tuple[dict[str, Any], Any]:
    """What the table chooses, by the field that chooses; and its entry, if there is one."""
    if kind not in CHOOSERS:
        return {}, find(kind, kind)
    chosen = {CHOOSERS[kind]: given.get(CHOOSERS[kind], USUAL.get(kind))}
    name = chosen[CHOOSERS[kind]]
    if fault := _not_among(names_of(kind), name):
        faults.append(Fault(kind, name, CHOOSERS[kind], fault))
        return chosen, None
    entry = entry_of(kind, name)
    is_known = True
    for part in (part for part, fixed in entry.parts.items() if fixed is None and part in given):
        chosen[part] = given[part]
        if fault := _not_among(list(entries(part)), given[part]):
            faults.append(Fault(kind, name, part, fault))
            is_known = False
    own = [field for part in parts_of(entry, chosen).values() for field in part.fields]
    for field in {field for field in own if own.count(field) > 1}:
        faults.append(Fault(kind, name, field, "is a field of both its parts. Rename one of them."))
    return chosen, entry if is_known else None


def _not_among(names: list[str], name: Any) -> str | None:
    """What to say of a name that is not registered."""
    if isinstance(name, str) and name in names:
        return None
    options = " or ".join(filter(None, (", ".join(map(repr, names[:-1])), repr(names[-1]))))
    return f"must be {options}, got {reprlib.repr(name)}. {near(name, names, 'Pick one.')}"


def near(name: Any, known: Iterable[str], otherwise: str) -> str:
    """The name that was meant, if one comes close."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"Did you mean {close[0]!r}?" if close else otherwise


def _suited(
    field: Field, type_: Any, value: Any, place: str, is_plain: bool
) -> tuple[Any, list[tuple[str, str]]]:
    """A value as a type has it, and what is wrong with it, by its place within the field."""
    if value is None and field.default is None:
        return None, []
    if is_plain:
        value = getattr(value, "tolist", lambda: value)()
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
    elif type(value).__module__ != "builtins":
        return value, []  # an array, or an object of the user's: whatever takes it will check it
    tries = [
        _inside(field, form, value, place, is_plain)
        for form in forms_of(type_)
        if _is_a(form, value)
    ]
    if tries:
        return min(tries, key=lambda each: len(each[1]))
    choices = [repr(word) for form in forms_of(type_) for word in _choices(form)]
    words = [", ".join(choices[:-1]) + " or " + choices[-1] if choices[1:] else "".join(choices)]
    words += [_WORDS.get(typing.get_origin(form) or form, "") for form in forms_of(type_)]
    said = " or ".join(dict.fromkeys(filter(None, words))) or "of another type"
    move = "Pick one." if choices else "Correct it."
    return value, [(place, f"must be {said}, got {reprlib.repr(value)}. {move}")]


def _inside(
    field: Field, form: Any, value: Any, place: str, is_plain: bool
) -> tuple[Any, list[Any]]:
    """The same for a value that is of this form on the outside."""
    origin, inner = typing.get_origin(form), typing.get_args(form)
    if origin in (list, dict) and inner and inner[-1] is not Any:
        items = value.items() if origin is dict else enumerate(value)
        read = {
            key: _suited(field, inner[-1], item, f"{place}.{key}", is_plain) for key, item in items
        }
        faults = [fault for _, its_faults in read.values() for fault in its_faults]
        if origin is dict and (words := _choices(inner[0])):
            unknown = [key for key in value if key not in words]
            known = ", ".join(map(repr, words))
            faults += [(f"{place}.{key}", f"no such field. It takes {known}.") for key in unknown]
        values = {key: item for key, (item, _) in read.items()}
        return (values if origin is dict else list(values.values())), faults
    if form not in (int, float):
        return value, []
    fault = _beyond(field, value)
    return value if form is int or fault else float(value), [(place, fault)] if fault else []


def _beyond(field: Field, value: int | float) -> str | None:
    """What to say of a number that is not finite or not within its bounds."""
    low, high = field.bounds
    # A bound that is infinite says that infinity itself is meant to be possible.
    if isinstance(value, float) and not math.isfinite(value) and value not in field.bounds:
        fault = "must be a finite number", "Correct it."
    elif low is not None and value < low:
        fault = f"must be at least {low}", "Choose a larger one."
    elif field.above is not None and value <= field.above:
        fault = f"must be above {field.above}", "Choose a larger one."
    elif high is not None and value > high:
        fault = f"must be at most {high}", "Choose a smaller one."
    elif field.below is not None and value >= field.below:
        fault = f"must be below {field.below}", "Choose a smaller one."
    elif abs(value) > 1.7e308 and value not in field.bounds:
        fault = "must be a finite number", "Choose a smaller one."
    else:
        return None
    return f"{fault[0]}, got {reprlib.repr(value)}. {fault[1]}"


def _choices(form: Any) -> tuple[Any, ...]:
    return typing.get_args(form) if typing.get_origin(form) is Literal else ()


def _is_a(form: Any, value: Any) -> bool:
    """Whether a value is of a form on the outside; true and false are not numbers."""
    if form is Any:
        return True
    if typing.get_origin(form) is Literal:
        return isinstance(value, str) and value in typing.get_args(form)
    if isinstance(value, bool):
        return form is bool
    form = typing.get_origin(form) or form
    accepted: Any = {float: (int, float), list: (list, tuple)}.get(form, form)
    return isinstance(value, accepted)
