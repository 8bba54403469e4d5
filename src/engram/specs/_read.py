"""Specs: what a file or options say of a run, checked against the registry, every fault at once."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram._checks import InputError
from engram.registry import Entry, load_entry_points, used_in
from engram.specs._faults import Faults, read_table

OPTIONS = "the options"  # as the source of a spec that was typed, not read from a file
_LARGEST = 2**22  # bytes of a TOML file
_DEEPEST = 16  # levels of tables and lists in one
_USUAL = {"problem": {"correlation": 0.95, "p1": 0.75}}  # of a spec that says nothing of it


@dataclass(frozen=True)
class SimulationSpec:
    """A whole simulation as plain tables, with the defaults of whatever was left out.

    Args:
        problem: `family` and its fields; `engram.registry.entries("problem")` has them all.
        dynamics: `kind` and its fields.
        run: How to run and what to record.
        system: `kind` and its fields; None for the matrix W, in the cheapest space.
    """

    problem: dict[str, Any]
    dynamics: dict[str, Any]
    run: dict[str, Any]
    system: dict[str, Any] | None = None

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """The tables by name, as `read_spec` takes them."""
        return {name: table for name, table in vars(self).items() if table is not None}

    def used(self) -> list[Entry]:
        """The entries of the registry that it makes use of."""
        return used_in(self.tables)

    def with_fields(self, **changes: dict[str, Any]) -> "SimulationSpec":
        """The same with some fields of some tables replaced; nothing is checked."""
        return SimulationSpec(**{
            name: table | changes.get(name, {}) for name, table in self.tables.items()
        })  # fmt: skip


def read_spec(tables: dict[str, Any], source: str) -> SimulationSpec:
    """Check a spec whole; every fault is reported, each with its place and the value met."""
    load_entry_points()
    faults = Faults(source, is_typed=source == OPTIONS)
    tables = with_read_out(tables)
    faults.unknown(tables, SimulationSpec.__annotations__)
    read = {}
    for name in ("problem", "dynamics", "run", "system"):
        if name in tables or name != "system":
            read[name] = read_table(name, tables.get(name, _USUAL.get(name, {})), faults)
    for kind, field in (("observable", "record"), ("event", "events")):
        for item in read["run"].get(field, ()):
            read_table(kind, item, faults, f"run.{field}")
    if "system" in read and read["run"].get("space") in ("particles", "margins"):
        faults.add(
            "run.space",
            f"must be 'auto' with [system], got {read['run']['space']!r}. Leave it out.",
        )
    faults.check()
    return SimulationSpec(**read)


def with_read_out(tables: dict[str, Any]) -> dict[str, Any]:
    """Layer norm belongs to the system; specs from before said it of the dynamics."""
    dynamics = tables.get("dynamics")
    if not isinstance(dynamics, dict) or "layer_norm" not in dynamics:
        return tables
    rest = {name: value for name, value in dynamics.items() if name != "layer_norm"}
    if dynamics["layer_norm"] is False:
        return tables | {"dynamics": rest}
    system = {"layer_norm": dynamics["layer_norm"]} | tables.get("system", {})
    return tables | {"dynamics": rest, "system": system}


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST + 1)  # no more: a device may have no end
        if len(content) > _LARGEST:
            raise InputError(f"SPEC has more than {_LARGEST >> 20} MiB: {path}. It is not a spec.")
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"SPEC cannot be read: {path} ({error}). Check the name.") from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"SPEC is not TOML: {path}: {error}. Fix that line.") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"SPEC has a number of thousands of digits, or thousands of levels: {path}. Fix that."
        ) from None
    _check_values(path, tables)
    return tables


def _check_values(path: Path, tables: dict[str, Any]) -> None:
    """Refuse what TOML's parser lets pass: integers of more than 64 bits, and endless nesting."""
    left: list[tuple[str, int, Any]] = [("", 0, tables)]
    while left:
        place, depth, value = left.pop()
        if depth > _DEEPEST:
            raise InputError(f"SPEC is nested too deeply: {path}: {place}. Write fewer levels.")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(
                f"SPEC must have whole numbers below 2**63: {path}: {place} is beyond. "
                "Choose a smaller one."
            )
        items = value.items() if isinstance(value, dict) else ()
        items = enumerate(value) if isinstance(value, list) else items
        left += [(f"{place}.{key}" if place else str(key), depth + 1, item) for key, item in items]
