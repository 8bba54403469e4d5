"""Optimizers as a setting: names or tables, of whatever is registered."""

from collections.abc import Mapping, Sequence
from typing import Any

from engram._checks import InputError
from engram.registry import check_table, find


def optimizer_tables(items: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """The table of each optimizer by what to call it: its name, with the fields that are given."""
    tables: dict[str, dict[str, Any]] = {}
    for item in items:
        table = {"optimizer": item} if isinstance(item, str) else dict(item)
        rate = {"learning_rate": 1.0} if needs_rate(table) else {}
        check_table("optimizer", rate | table)
        fields = ", ".join(
            f"{name} = {value}" for name, value in table.items() if name != "optimizer"
        )
        label = table["optimizer"] + (f" ({fields})" if fields else "")
        if label in tables:
            raise InputError(f"`optimizers` must differ, got {label!r} twice. Leave one out.")
        tables[label] = table
    return tables


def needs_rate(table: Mapping[str, Any]) -> bool:
    """Whether it has a learning rate that the table does not say."""
    if "learning_rate" in table or "optimizer" not in table:
        return False
    return "learning_rate" in find("optimizer", table["optimizer"]).fields
