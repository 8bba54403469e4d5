"""A training of the transformer, from TOML or options."""

from typing import TYPE_CHECKING, Any

from engram.dynamics import AbstractDynamics
from engram.registry import make
from engram.specs._faults import Faults, read_table
from engram.specs._read import OPTIONS

if TYPE_CHECKING:
    from engram.transformer import Config


def read_training(
    tables: dict[str, Any], source: str
) -> tuple["Config", list[AbstractDynamics], str | None]:
    """The config, the dynamics of each run, and the fingerprint of the start, if the spec has one.

    `learning_rate` may be a list, for runs side by side.
    """
    from engram.transformer import Config  # takes long to load, and no other spec needs it

    faults = Faults(source, is_typed=source == OPTIONS)
    faults.unknown(tables, ("transformer", "dynamics", "start"))
    config = read_table("transformer", tables.get("transformer", {}), faults)
    runs = [read_table("dynamics", each, faults) for each in _side_by_side(tables, faults)]
    start = tables.get("start")
    if start is not None and (not isinstance(start, dict) or list(start) != ["sha256"]):
        faults.add(
            "start", f"must be a table with sha256, got {start!r}. Leave it as it was written."
        )
    faults.check()
    dynamics = [make("dynamics", run) for run in runs]
    return Config(**_tuples(config)), dynamics, None if start is None else str(start["sha256"])


def _tuples(table: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(x) if isinstance(x, list) else x for name, x in table.items()}


def _side_by_side(tables: dict[str, Any], faults: Faults) -> list[Any]:
    dynamics = tables.get("dynamics", {})
    rates = dynamics.get("learning_rate") if isinstance(dynamics, dict) else None
    if not isinstance(rates, list):
        return [dynamics]
    if not rates:
        faults.add("dynamics.learning_rate", "must not be empty. Give a number.")
    return [dynamics | {"learning_rate": rate} for rate in rates]
