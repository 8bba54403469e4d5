"""Whether values suit their fields: for tables that come from Python, where nobody else looks."""

import typing
from collections.abc import Mapping
from typing import Any, Literal

from engram._errors import InputError
from engram.registry._fields import Field
from engram.registry._tables import CHOOSERS, fields_of


def check_table(kind: str, table: Mapping[str, Any] | str) -> None:
    """Refuse a table with a value of the wrong type, or out of bounds; arrays and tracers pass."""
    chooser = CHOOSERS.get(kind, "kind")
    if isinstance(table, str) or chooser not in table:
        return
    for name, field in fields_of(kind, table).items():
        if name in table and (fault := _fault(field, table[name])):
            raise InputError(f"`{name}` of {kind} {table[chooser]!r} {fault}, got {table[name]!r}.")


def _fault(field: Field, value: Any) -> str | None:
    """What is wrong with a value, in words."""
    if type(value).__module__ not in ("builtins",):
        return None  # an array, or one's own: what takes it will look
    if not any(_is_a(form, value) for form in (*field.forms, *_absent(field))):
        words = [repr(word) for word in field.choices]
        words += [_WORDS[form] for form in field.forms if form in _WORDS]
        return f"must be {' or '.join(words) or 'of another type'}"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    low, high = field.bounds
    if value != value or abs(value) == float("inf"):
        return "must be finite"
    if (low is not None and value < low) or (field.above is not None and value <= field.above):
        return f"must be {f'at least {low}' if low is not None else f'above {field.above}'}"
    if (high is not None and value > high) or (field.below is not None and value >= field.below):
        return f"must be {f'at most {high}' if high is not None else f'below {field.below}'}"
    return None


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _absent(field: Field) -> tuple[Any, ...]:
    return () if field.is_required else (type(None),)


def _is_a(form: Any, value: Any) -> bool:
    origin = typing.get_origin(form)
    if origin is Literal:
        return value in typing.get_args(form)
    if form is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if form is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is list:
        return isinstance(value, list | tuple)
    if origin is dict:
        return isinstance(value, dict)
    return not isinstance(form, type) or isinstance(value, form)
