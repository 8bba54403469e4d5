"""What a sweep spec may say: a simulation, the axes that vary in it, and what to measure."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engram._checks import InputError
from engram.registry import entries, fields_of, names_of
from engram.specs import SimulationSpec, read_spec, read_toml
from engram.specs._read import with_read_out
from engram.sweeps._axes import read_axes
from engram.sweeps._observables import NEEDS_TAIL, OBSERVABLES, TAIL, About

PARTS = ("problem", "system", "dynamics", "run")
_OF_A_RUN = (
    "start_scale",
)  # the only fields of [run] that can vary: the others say what is recorded


class SweepTable(BaseModel):
    """The table [sweep]."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    observables: list[str] = Field(default=["first_perfect"], min_length=1)
    chunk: Annotated[int, Field(ge=1, le=2**24)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @field_validator("observables")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        known = dict.fromkeys((*OBSERVABLES, *entries("event"), *entries("observable")))
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"unknown {', '.join(map(repr, unknown))}; known: {', '.join(known)}")
        return list(dict.fromkeys(names))


class SweepSpec:
    """A sweep of a simulation: its spec, its axes, and what to measure.

    Args:
        simulation: The simulation, with a valid value in every field that varies.
        axes: Values by name.
        table: Observables, chunk size and seed.
        text: The spec as it was given, in plain values, for the record.
        homes: The table of each axis.
    """

    def __init__(
        self,
        simulation: SimulationSpec,
        axes: dict[str, np.ndarray],
        table: SweepTable,
        text: dict[str, Any],
        homes: dict[str, str],
    ):
        self.simulation, self.axes, self.table, self.text = simulation, axes, table, text
        self.homes = homes

    @property
    def static(self) -> list[str]:
        """Axes that change shapes, or programs otherwise: one program for each of their values."""
        tables = self.simulation.tables
        fields = {part: fields_of(part, tables[part]) for part in tables if part != "run"}
        return [
            axis
            for axis, home in self.homes.items()
            if axis in fields.get(home, {}) and fields[home][axis].is_static
        ]


def read_sweep(source: Any, axes: Any = None) -> SweepSpec:
    """Read a sweep from a TOML file or from tables, and check all of it.

    Args:
        source: The path of a TOML file, or a dictionary with the same tables.
        axes: Axes to use instead of, or besides, those of the spec.
    """
    if isinstance(source, str | Path):
        name, tables = str(source), read_toml(Path(source))
    else:
        name, tables = "the spec", dict(source)
    tables = with_read_out(tables)
    unknown = [key for key in tables if key not in (*PARTS, "axes", "sweep", "plugins")]
    if unknown:
        raise InputError(
            f"{name}: no such table [{unknown[0]}]. Tables are {', '.join(PARTS)}, axes, sweep."
        )
    given = {**_table(name, tables, "axes"), **(dict(axes) if axes is not None else {})}
    values = read_axes(given)
    try:
        table = SweepTable.model_validate(_table(name, tables, "sweep"))
    except ValidationError as error:
        faults = "; ".join(
            f"sweep.{'.'.join(map(str, f['loc']))}: {f['msg'].removeprefix('Value error, ')}"
            for f in error.errors()
        )
        raise InputError(f"{name}: {faults}") from None
    parts = {part: dict(_table(name, tables, part)) for part in PARTS if part in tables}
    homes = _homes(name, parts, values)
    simulation = _checked(name, parts, values, homes)
    _check_runnable(name, simulation, values, table)
    text = {
        **{part: content for part, content in parts.items() if content},
        "axes": {axis: array.tolist() for axis, array in values.items()},
        "sweep": table.model_dump(exclude_none=True),
    }
    return SweepSpec(simulation, values, table, text, homes)


def _table(name: str, tables: dict[str, Any], part: str) -> dict[str, Any]:
    content = tables.get(part, {})
    if not isinstance(content, dict):
        raise InputError(f"{name}: [{part}] must be a table, got {content!r}. Write [{part}].")
    return content


def _homes(name: str, parts: dict[str, Any], axes: dict[str, np.ndarray]) -> dict[str, str]:
    """The table that each axis belongs to; one that no chosen table has is refused."""
    known: dict[str, str] = dict.fromkeys(_OF_A_RUN, "run")
    for part, chooser, usual in (
        ("system", "kind", "memory"),
        ("dynamics", "kind", "gd"),
        ("problem", "family", "two"),
    ):
        table = {chooser: usual} | parts.get(part, {})
        if (part != "system" or part in parts) and table[chooser] in names_of(part):
            fields = fields_of(part, table)
            mine = [field for field, about in fields.items() if about.is_number]
            if double := [axis for axis in axes if axis in mine and axis in known]:
                raise InputError(
                    f"{name}: axis `{double[0]}` is a field of [{known[double[0]]}] and of [{part}]. "
                    "Give one of them another name."
                )
            known |= dict.fromkeys(mine, part)
    if known.get("p1") == "problem":
        known["log_odds"] = "problem"
    for axis in axes:
        if axis not in known:
            raise InputError(
                f"{name}: axis `{axis}` cannot vary here. Axes are {', '.join(known)}."
            )
    return {axis: known[axis] for axis in axes}


def _checked(
    name: str, parts: dict[str, Any], axes: dict[str, np.ndarray], homes: dict[str, str]
) -> SimulationSpec:
    """The simulation at the first value of every axis; each value of each axis is checked in its place."""
    first = {axis: values[0] for axis, values in axes.items()}
    for axis, home in homes.items():
        field = "p1" if axis == "log_odds" else axis
        if field in parts.get(home, {}):
            raise InputError(
                f"{name}: `{field}` is an axis and also set in [{home}]. Leave it out there."
            )
    if "log_odds" in axes and "p1" in axes:
        raise InputError(f"{name}: `log_odds` and `p1` are two names of one thing. Keep one axis.")
    fill = lambda values: _filled_in(parts, values, homes)
    spec = read_spec(fill(first), name)
    for axis, values in axes.items():
        if values.dtype.kind == "f" and not _takes_reals(spec, axis, homes[axis]):
            raise InputError(f"{name}: axis `{axis}` must hold whole numbers, got {values[0]!r}.")
        # Of numbers in order the ends decide.
        several = values if len(values) <= 200 else ()
        for value in (*several, values.max(), values.min()):
            read_spec(fill(first | {axis: value}), f"{name} at {axis} = {value}")
    return spec


def _takes_reals(spec: SimulationSpec, axis: str, home: str) -> bool:
    if axis == "log_odds" or home == "run":
        return True
    return fields_of(home, spec.tables[home])[axis].is_real


def _filled_in(
    parts: dict[str, Any], values: dict[str, Any], homes: dict[str, str]
) -> dict[str, Any]:
    tables = {part: dict(content) for part, content in parts.items()}
    for axis, value in values.items():
        field, plain = axis, value.item()
        if axis == "log_odds":
            field, plain = "p1", float(1 / (1 + np.exp(-plain)))
        tables.setdefault(homes[axis], {})[field] = plain
    return {part: content for part, content in tables.items() if content}


def _check_runnable(
    name: str, simulation: SimulationSpec, axes: dict[str, Any], table: SweepTable
) -> None:
    kind, steps = simulation.dynamics["kind"], simulation.dynamics.get("steps")
    if kind in ("flow", "sgf"):
        raise InputError(
            f"{name}: a sweep counts steps, and {kind!r} has none. Sweep a function of your own with "
            "`engram.sweep(function, axes)`."
        )
    which = ", ".join(each for each in table.observables if each in NEEDS_TAIL)
    if which and (steps or 0) < 2 * TAIL:
        raise InputError(
            f"{name}: {which} looks at the last {2 * TAIL} steps, got steps = {steps}. Give more."
        )
    by_token = [
        each for each in table.observables if "token" in OBSERVABLES.get(each, About("")).axes
    ]
    if by_token and "num_tokens" in axes:
        raise InputError(
            f"{name}: {by_token[0]} has one entry per token, and num_tokens varies. Use likeliest_margin."
        )
    if (simulation.system or {}).get("layer_norm") and not simulation.run["start_scale"]:
        raise InputError(
            f"{name}: layer norm divides by the length of W e_x, which is zero at W = 0. Set run.start_scale."
        )
    for field in ("every", "points", "stop"):
        if field in simulation.run:
            raise InputError(f"{name}: run.{field} has no meaning in a sweep. Leave it out.")


def hash_of(text: dict[str, Any]) -> str:
    """A fingerprint of a spec: equal for equal sweeps, however they were written down."""
    return hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()[:16]
