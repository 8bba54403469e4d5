"""A training of the transformer, from TOML or options."""

from typing import Any

from pydantic import Field

from engram._checks import InputError
from engram.dynamics import AbstractDynamics
from engram.specs._build import build_dynamics
from engram.specs._models import DynamicsSpec, Strict, validate
from engram.transformer import Config


class StartSpec(Strict):
    """What the training was begun from, by its fingerprint."""

    sha256: str


class TrainingSpec(Strict):
    """A whole training; `learning_rate` may be a list, for runs side by side."""

    transformer: Config = Field(default_factory=Config)
    dynamics: list[DynamicsSpec]
    start: StartSpec | None = None


def read_training(
    tables: dict[str, Any], source: str
) -> tuple[Config, list[AbstractDynamics], str | None]:
    """The config, the dynamics of each run, and the fingerprint of the start, if the spec has one."""
    dynamics = tables.get("dynamics", {})
    if not isinstance(dynamics, dict):
        raise InputError(
            f"1 fault in {source}:\n  dynamics: must be a table, got {dynamics!r}. "
            "Write [dynamics]."
        )
    rates = dynamics.get("learning_rate")
    rates = rates if isinstance(rates, list) else [rates]
    if not rates:
        raise InputError(
            f"1 fault in {source}:\n  dynamics.learning_rate: must not be empty. Give a number."
        )
    each = [dynamics | ({} if rate is None else {"learning_rate": rate}) for rate in rates]
    spec = validate(TrainingSpec, tables | {"dynamics": each}, source)
    runs = [build_dynamics(one) for one in spec.dynamics]
    return spec.transformer, runs, None if spec.start is None else spec.start.sha256
