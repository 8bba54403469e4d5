"""What a sweep spec may say: a simulation, the axes that vary in it, and what to measure."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engram._checks import InputError
from engram.observables import EVENTS
from engram.specs import SimulationSpec, read_spec, read_toml
from engram.sweeps._axes import read_axes
from engram.sweeps._observables import NEEDS_TAIL, OBSERVABLES, TAIL, About

# Axes that change shapes: one program for each of their values.
STATIC = ("num_tokens", "num_classes", "dim", "batch_size")
_PROBLEM = ("correlation", "p1", "log_odds", "exponent", "seed", "num_tokens", "num_classes", "dim")
_DYNAMICS = ("learning_rate", "momentum", "weight_decay", "batch_size")
_RUN = ("start_scale",)
AXES = (*_PROBLEM, *_DYNAMICS, *_RUN)


class SweepTable(BaseModel):
    """The table [sweep]."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    observables: list[str] = Field(default=["first_perfect"], min_length=1)
    chunk: Annotated[int, Field(ge=1, le=2**24)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @field_validator("observables")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        known = (*OBSERVABLES, *EVENTS)
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
    """

    def __init__(
        self,
        simulation: SimulationSpec,
        axes: dict[str, np.ndarray],
        table: SweepTable,
        text: dict[str, Any],
    ):
        self.simulation, self.axes, self.table, self.text = simulation, axes, table, text


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
    unknown = [key for key in tables if key not in ("problem", "dynamics", "run", "axes", "sweep")]
    if unknown:
        raise InputError(
            f"{name}: no such table [{unknown[0]}]. Tables are problem, dynamics, run, axes, sweep."
        )
    given = {**_table(name, tables, "axes"), **(dict(axes) if axes is not None else {})}
    values = read_axes(given)
    for axis in values:
        if axis not in AXES:
            raise InputError(f"{name}: axis `{axis}` cannot vary. Axes are {', '.join(AXES)}.")
    try:
        table = SweepTable.model_validate(_table(name, tables, "sweep"))
    except ValidationError as error:
        faults = "; ".join(
            f"sweep.{'.'.join(map(str, f['loc']))}: {f['msg'].removeprefix('Value error, ')}"
            for f in error.errors()
        )
        raise InputError(f"{name}: {faults}") from None
    parts = {part: dict(_table(name, tables, part)) for part in ("problem", "dynamics", "run")}
    simulation = _checked(name, parts, values)
    _check_runnable(name, simulation, values, table)
    text = {
        **{part: content for part, content in parts.items() if content},
        "axes": {axis: array.tolist() for axis, array in values.items()},
        "sweep": table.model_dump(exclude_none=True),
    }
    return SweepSpec(simulation, values, table, text)


def _table(name: str, tables: dict[str, Any], part: str) -> dict[str, Any]:
    content = tables.get(part, {})
    if not isinstance(content, dict):
        raise InputError(f"{name}: [{part}] must be a table, got {content!r}. Write [{part}].")
    return content


def _checked(name: str, parts: dict[str, Any], axes: dict[str, np.ndarray]) -> SimulationSpec:
    """The simulation at the first value of every axis; each value of each axis is checked in its place."""
    first = {axis: values[0] for axis, values in axes.items()}
    for axis in axes:
        home = _home(axis)
        field = "p1" if axis == "log_odds" else axis
        if field in parts[home]:
            raise InputError(
                f"{name}: `{field}` is an axis and also set in [{home}]. Leave it out there."
            )
    if "log_odds" in axes and "p1" in axes:
        raise InputError(f"{name}: `log_odds` and `p1` are two names of one thing. Keep one axis.")
    spec = read_spec(_filled_in(parts, first), name)
    for axis, values in axes.items():
        for value in values:
            if values.dtype.kind == "f" and axis in (*STATIC, "seed"):
                raise InputError(f"{name}: axis `{axis}` must hold whole numbers, got {value!r}.")
            read_spec(_filled_in(parts, first | {axis: value}), f"{name} at {axis} = {value}")
            if len(values) > 200:  # numbers in order: the ends decide
                break
        read_spec(
            _filled_in(parts, first | {axis: values.max()}), f"{name} at {axis} = {values.max()}"
        )
        read_spec(
            _filled_in(parts, first | {axis: values.min()}), f"{name} at {axis} = {values.min()}"
        )
    return spec


def _home(axis: str) -> str:
    return "problem" if axis in _PROBLEM else "dynamics" if axis in _DYNAMICS else "run"


def _filled_in(parts: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    tables = {part: dict(content) for part, content in parts.items()}
    for axis, value in values.items():
        plain = value.item()
        if axis == "log_odds":
            axis, plain = "p1", float(1 / (1 + np.exp(-plain)))
        tables[_home(axis)][axis] = plain
    return {part: content for part, content in tables.items() if content}


def _check_runnable(
    name: str, simulation: SimulationSpec, axes: dict[str, Any], table: SweepTable
) -> None:
    kind, steps = simulation.dynamics.kind, simulation.dynamics.steps
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
    if simulation.dynamics.layer_norm and not simulation.run.start_scale:
        raise InputError(
            f"{name}: layer norm divides by the length of W e_x, which is zero at W = 0. Set run.start_scale."
        )
    for field in ("every", "points", "stop"):
        if getattr(simulation.run, field) is not None:
            raise InputError(f"{name}: run.{field} has no meaning in a sweep. Leave it out.")


def hash_of(text: dict[str, Any]) -> str:
    """A fingerprint of a spec: equal for equal sweeps, however they were written down."""
    return hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()[:16]
