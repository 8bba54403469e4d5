"""Faults of a spec in words: each with its place, the value met and what to do; all at once."""

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from engram._checks import InputError
from engram.registry import CHOOSERS, near, option_of
from engram.registry import read_table as checked_table


class Faults:
    """What is wrong with a spec.

    Args:
        source: Where it comes from.
        is_typed: Whether it was typed as options, and is to be named so.
    """

    def __init__(self, source: str, *, is_typed: bool = False):
        self.source: str = source
        self.is_typed: bool = is_typed
        self._lines: dict[str, None] = {}

    def add(self, place: str, words: str) -> None:
        """Add a fault of a place: a table, or a field of one."""
        table, _, field = place.partition(".")
        if self.is_typed and field:
            place = f"{option_of(table, field.partition('.')[0])} ({place})"
        self._lines[f"{place}: {words}"] = None

    def unknown(self, tables: Mapping[str, Any], known: Iterable[str]) -> None:
        """Add the tables of a spec that there are not."""
        known = list(known)
        for name in tables:
            if name not in known:
                move = near(name, known, "Check its spelling, or remove it.")
                self.add(str(name), f"no such table, got {reprlib.repr(tables[name])}. {move}")

    @property
    def lines(self) -> list[str]:
        """Each fault with its place, once."""
        return list(self._lines)

    def check(self) -> None:
        """Refuse the spec if anything is wrong with it."""
        if lines := self.lines:
            plural = "s" if len(lines) > 1 else ""
            raise InputError("\n  ".join([f"{len(lines)} fault{plural} in {self.source}:", *lines]))


def read_table(kind: str, given: Any, faults: Faults, place: str = "") -> dict[str, Any]:
    """A table with its defaults filled in; what is wrong with it goes to `faults`.

    With a place other than the table of its kind it is one of a list, and may be a name alone.
    """
    is_name = bool(place) and isinstance(given, str)
    table, table_faults = checked_table(kind, {CHOOSERS[kind]: given} if is_name else given)
    for fault in table_faults:
        where = place or fault.kind
        if fault.field:
            faults.add(where if is_name else f"{where}.{fault.field}", fault.words)
        else:
            choice = f"{CHOOSERS[fault.kind]} {fault.name!r} " if fault.name else ""
            faults.add(where, choice + fault.words)
    return table
