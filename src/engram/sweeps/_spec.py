"""What a sweep spec may say: a simulation, the axes that vary in it, and what to measure."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engram._checks import InputError
from engram.registry import (
    CHOOSERS,
    USUAL,
    Field,
    entries,
    entry_of,
    fields_of,
    find,
    names_of,
    near,
)
from engram.specs import Faults, SimulationSpec, read_spec, read_table, read_toml, with_read_out
from engram.sweeps._axes import read_axes
from engram.sweeps._outcomes import NEEDS_TAIL, OUTCOMES, TAIL

PARTS = ("problem", "system", "dynamics", "run")
_OF_A_RUN = ("start_scale", "spike_factor")  # the other fields of [run] say what is recorded
_ENDS = 200  # values of an axis, beyond which only the smallest and the largest are checked


class Home(NamedTuple):
    """Where an axis belongs: a table of the simulation, or the name of what is measured; and its field."""

    table: str
    field: Field


@dataclasses.dataclass(frozen=True)
class SweepSpec:
    """A sweep of a simulation: its spec, its axes, and what to measure.

    Args:
        simulation: The simulation, with a valid value in every field that varies.
        measured: Outcomes, observables and events by name; each a name, or a table with fields.
        axes: Values by name.
        homes: Where each axis belongs.
        chunk: Cells per unit of work, if the spec says so.
        seed: From which, with the number of a cell, its random numbers derive.
        text: The spec as it was given, in plain values, for the record.
    """

    simulation: SimulationSpec
    measured: dict[str, Any]
    axes: dict[str, np.ndarray]
    homes: dict[str, Home]
    chunk: int | None
    seed: int
    text: dict[str, Any]

    @property
    def static(self) -> list[str]:
        """Axes that change shapes, or programs otherwise: one program for each of their values."""
        return [axis for axis, home in self.homes.items() if home.field.is_static]

    def with_static(self, values: dict[str, Any]) -> "SweepSpec":
        """The same at values of the static axes; another choice has other fields, with their own defaults."""
        if not any(isinstance(value, str) for value in values.values()):
            return self.at(values)
        given = {part: self.text.get(part, {}) for part in PARTS if part in self.simulation.tables}
        values = {name: array[0].item() for name, array in self.axes.items()} | values
        tables = _placed({**given, **self.measured}, values, self.homes)
        return dataclasses.replace(
            self,
            simulation=read_spec(
                {part: tables[part] for part in given if tables[part]}, "the spec"
            ),
            measured={name: tables[name] for name in self.measured},
        )

    def at(self, values: Mapping[str, Any], exp: Callable[[Any], Any] = np.exp) -> "SweepSpec":
        """The same with values, or tracers, in the fields of some axes; nothing is checked."""
        tables = _placed({**self.simulation.tables, **self.measured}, values, self.homes, exp)
        return dataclasses.replace(
            self,
            simulation=SimulationSpec(**{name: tables[name] for name in self.simulation.tables}),
            measured={name: tables[name] for name in self.measured},
        )


def read_sweep(source: Any, axes: Any = None) -> SweepSpec:
    """Read a sweep from a TOML file or from tables, and check all of it.

    Args:
        source: The path of a TOML file, or a dictionary with the same tables.
        axes: Axes to use instead of, or in addition to, those of the spec.
    """
    if isinstance(source, str | Path):
        name, tables = str(source), read_toml(Path(source))
    else:
        name, tables = "the spec", dict(source)
    tables, faults = with_read_out(tables), Faults(name)
    faults.unknown(tables, (*PARTS, "axes", "sweep", "plugins", "files"))
    for part, content in tables.items():
        if part != "plugins" and not isinstance(content, dict):
            faults.add(part, f"must be a table, got {content!r}. Write [{part}].")
    faults.check()
    table = read_table("sweep", tables.get("sweep", {}), faults)
    measured = _measured(table.get("observables", ()), faults)
    for part in ("system", "dynamics", "problem"):  # which axes there are follows from these
        chosen = tables.get(part, {}).get(CHOOSERS[part], USUAL[part])
        if chosen not in names_of(part):
            read_table(part, tables[part], faults)
    faults.check()
    values = read_axes({**tables.get("axes", {}), **(dict(axes) if axes is not None else {})})
    parts = {part: dict(tables[part]) for part in PARTS if part in tables}
    homes = _homes(name, parts, measured, values)
    simulation = _checked(name, parts, measured, values, homes)
    _check_runnable(name, simulation, measured, values)
    text = {
        **{part: content for part, content in parts.items() if content},
        "axes": {axis: array.tolist() for axis, array in values.items()},
        "sweep": table | {"observables": list(measured.values())},
    }
    chunk, seed = table.get("chunk"), table["seed"]
    return SweepSpec(simulation, measured, values, homes, chunk, seed, text)


def _measured(items: Any, faults: Faults) -> dict[str, Any]:
    """What is measured, by name, each once."""
    measured: dict[str, Any] = {}
    known = dict.fromkeys((*OUTCOMES, *entries("event"), *entries("observable")))
    for item in items:
        name = item.get("kind") if isinstance(item, dict) else item
        if name not in known:
            move = near(name, known, f"Known: {', '.join(known)}.")
            faults.add("sweep.observables", f"unknown {name!r}. {move}")
        elif isinstance(item, dict):
            read_table(kind_of(name), item, faults, "sweep.observables")
        if measured.setdefault(str(name), item) != item:
            faults.add("sweep.observables", f"has {name!r} twice. Measure one of them.")
    if not measured:
        faults.add("sweep.observables", f"must name at least one. Known: {', '.join(known)}.")
    return measured


def kind_of(name: str) -> str:
    """Whether a name is that of an outcome, an event or an observable, in this order."""
    return next(kind for kind in ("outcome", "event", "observable") if name in entries(kind))


def _homes(
    name: str, parts: dict[str, Any], measured: dict[str, Any], axes: dict[str, np.ndarray]
) -> dict[str, Home]:
    """Where each axis belongs; one that no table has is refused, and one that two have."""
    known = {field: [Home("run", find("run", "run").fields[field])] for field in _OF_A_RUN}
    for part in ("system", "dynamics", "problem"):
        table = {CHOOSERS[part]: USUAL[part]} | parts.get(part, {})
        if part == "system" and part not in parts:
            continue
        entry = entry_of(part, table[CHOOSERS[part]])
        choices = {each: Field(type=str) for each, fixed in entry.parts.items() if not fixed}
        table |= {axis: str(axes[axis][0]) for axis in choices if axis in axes}
        for field, about in (choices | fields_of(part, table)).items():
            if about.is_number or about.choices or field in choices:
                known.setdefault(field, []).append(Home(part, about))
    for item in measured:
        kind = kind_of(item)
        for field, about in find(kind, item).fields.items():
            if about.is_number and item != "events":  # whose spike_factor is that of the run
                # Events are folded lane by lane; an observable is the same in all lanes.
                about = dataclasses.replace(about, static=True) if kind == "observable" else about
                known.setdefault(field, []).append(Home(item, about))
    if "p1" in known:
        known["log_odds"] = known["p1"]
    for axis in axes:
        if axis not in known:
            move = near(axis, known, f"Axes are {', '.join(known)}.")
            raise InputError(f"{name}: axis `{axis}` cannot vary here. {move}")
        if len(known[axis]) > 1:
            both = " and of ".join(f"[{home.table}]" for home in known[axis])
            raise InputError(
                f"{name}: axis `{axis}` is a field of {both}. Give one of them another name."
            )
    return {axis: known[axis][0] for axis in axes}


def _checked(
    name: str,
    parts: dict[str, Any],
    measured: dict[str, Any],
    axes: dict[str, np.ndarray],
    homes: dict[str, Home],
) -> SimulationSpec:
    """The simulation at the first value of every axis; each value of each axis is checked in its place."""
    first = {axis: values[0].item() for axis, values in axes.items()}
    for axis, home in homes.items():
        field, table = "p1" if axis == "log_odds" else axis, {**parts, **measured}.get(home.table)
        if isinstance(table, dict) and field in table:
            raise InputError(
                f"{name}: `{field}` is an axis and also set in [{home.table}]. Leave it out there."
            )
    if "log_odds" in axes and "p1" in axes:
        raise InputError(f"{name}: `log_odds` and `p1` are two names of one thing. Keep one axis.")

    def read(values: dict[str, Any], where: str) -> SimulationSpec:
        tables = _placed({**parts, **measured}, values, homes)
        faults = Faults(where)
        for item in measured:
            if isinstance(tables[item], dict):
                read_table(kind_of(item), tables[item], faults, "sweep.observables")
        faults.check()
        return read_spec({part: tables[part] for part in PARTS if tables.get(part)}, where)

    spec = read(first, name)
    for axis, values in axes.items():
        several = values if len(values) <= _ENDS else (values.max(), values.min())
        for value in several:
            read(first | {axis: value.item()}, f"{name} at {axis} = {value}")
    return spec


def _placed(
    tables: Mapping[str, Any],
    values: Mapping[str, Any],
    homes: Mapping[str, Home],
    exp: Callable[[Any], Any] = np.exp,
) -> dict[str, Any]:
    """Tables with the values of axes in their fields."""
    tables = dict(tables)
    for axis, value in values.items():
        name, field = homes[axis].table, axis
        if axis == "log_odds":
            field, value = "p1", 1 / (1 + exp(-value))
            value = float(value) if exp is np.exp else value
        table = tables.get(name, {})
        tables[name] = ({"kind": table} if isinstance(table, str) else table) | {field: value}
    return tables


def _check_runnable(
    name: str, simulation: SimulationSpec, measured: dict[str, Any], axes: dict[str, Any]
) -> None:
    kind, steps = simulation.dynamics["kind"], simulation.dynamics.get("steps")
    if steps is None:
        raise InputError(
            f"{name}: a sweep counts steps, and {kind!r} has none. Sweep a function of your own with "
            "`engram.sweep(function, axes)`."
        )
    which = ", ".join(each for each in measured if each in NEEDS_TAIL)
    if which and steps < 2 * TAIL:
        raise InputError(
            f"{name}: {which} looks at the last {2 * TAIL} steps, got steps = {steps}. Give more."
        )
    outcomes = [OUTCOMES[each] for each in measured if each in OUTCOMES]
    by_token = [entry.name for entry in outcomes if "token" in entry.about["axes"]]
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
