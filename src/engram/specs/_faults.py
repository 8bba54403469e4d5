"""Faults of a spec in words: each with its place, the value met and what to do; all at once."""

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from engram._checks import InputError
from engram.registry import option_of

_WORDS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "dataclass_type": "must be a table",
    "missing": "must be given",
    "extra_forbidden": "no such field",
    "unexpected_keyword_argument": "no such field",
}
_MOVES = {
    "missing": "Give it.",
    "greater_than": "Choose a larger one.",
    "greater_than_equal": "Choose a larger one.",
    "less_than": "Choose a smaller one.",
    "less_than_equal": "Choose a smaller one.",
    "literal_error": "Pick one.",
    "extra_forbidden": "Check its spelling, or strike it out.",
    "unexpected_keyword_argument": "Check its spelling, or strike it out.",
}
_FORMS = {  # what pydantic calls parts of a union
    "float", "int", "str", "bool", "none", "nullable", "constrained-float", "constrained-int",
}  # fmt: skip


class Faults:
    """What is wrong with a spec.

    Args:
        source: Where it comes from.
        is_typed: Whether it was typed as options, and is to be named so.
    """

    def __init__(self, source: str, *, is_typed: bool = False):
        self.source, self.is_typed = source, is_typed
        self._told: list[str] = []

    def add(self, place: str, words: str) -> None:
        """Note a fault of a place: a table, or a field of one."""
        table, _, field = place.partition(".")
        if self.is_typed and field:
            place = f"{option_of(table, field.partition('.')[0])} ({place})"
        self._told.append(f"{place}: {words}")

    def unknown(
        self, table: str, names: Iterable[str], given: Any, known: Iterable[str] = ()
    ) -> None:
        """Note fields that there are not."""
        for name in names:
            move = self.near(name, known, _MOVES["extra_forbidden"])
            place = f"{table}.{name}" if table else str(name)
            self.add(place, f"no such field, got {self.brief(given[name])}. {move}")

    @staticmethod
    def near(name: Any, known: Iterable[str], otherwise: str) -> str:
        """The name that was meant, if one comes close."""
        close = difflib.get_close_matches(str(name), list(known), n=1)
        return f"Did you mean {close[0]!r}?" if close else otherwise

    @staticmethod
    def brief(value: Any) -> str:
        return reprlib.repr(value)

    def of_pydantic(self, table: str, error: ValidationError) -> list[str]:
        """Note the faults that pydantic found in a table; the names of missing fields are returned."""
        places: dict[tuple[Any, ...], list[Any]] = {}
        for fault in error.errors():
            places.setdefault(_place(fault["loc"]), []).append(fault)
        missing = [
            str(place[0]) for place, faults in places.items() if faults[0]["type"] == "missing"
        ]
        for place, faults in places.items():
            if faults[0]["type"] == "missing" and len(place) == 1:
                continue
            if len(faults) == 1 and any(place == other[: len(place)] != other for other in places):
                continue  # a field of several forms, of which another was meant, told farther inside
            self.add(".".join(map(str, (table, *place))), _words(faults))
        return missing

    @property
    def lines(self) -> list[str]:
        """Each fault with its place, once."""
        return list(dict.fromkeys(self._told))

    def check(self) -> None:
        """Refuse the spec if anything is wrong with it."""
        told = self.lines
        if told:
            plural = "s" if len(told) > 1 else ""
            raise InputError(f"{len(told)} fault{plural} in {self.source}:\n  " + "\n  ".join(told))


def _place(loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """Where the user wrote it: without the names of forms."""
    is_form = lambda part: (
        part in _FORMS or "[" in str(part) or str(part).startswith("constrained-")
    )
    return tuple(part for part in loc if not is_form(part))


def _words(faults: list[Any]) -> str:
    first = faults[0]
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    forms = [
        _WORDS.get(fault["type"]) or fault["msg"].replace("Input should be", "must be")
        for fault in faults
    ]
    said = " or ".join(dict.fromkeys(forms)).replace(" or must be ", " or ")
    move = _MOVES.get(first["type"], "Correct it.")
    if first["type"] == "missing":
        return f"{said}. {move}"
    return f"{said}, got {reprlib.repr(first['input'])}. {move}"
