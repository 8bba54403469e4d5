"""Plans: a sweep cut into units of work, each a block of the grid, and the way to compute one."""

import abc
import hashlib
import itertools
import math
import threading
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from engram._checks import InputError
from engram._memory_limits import check_bytes
from engram.registry import Entry, entries, origins, used_in
from engram.sweeps._cells import Runner
from engram.sweeps._fingerprint import Fingerprint
from engram.sweeps._outcomes import CLASSES, OUTCOMES, TAIL
from engram.sweeps._spec import SweepSpec, hash_of

_TILES = 16  # batches of lanes per unit of a simulation


class Output(NamedTuple):
    """A variable of the result: its axes in addition to the sweep's, their sizes, and what it is."""

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    dtype: str
    attrs: dict[str, Any]


Unit = tuple[int, ...]  # the number of a block along each axis


class Plan(abc.ABC):
    """A sweep as units of work.

    Args:
        axes: The values of every axis, in the order of the result's dimensions.
        block: How many values of each axis a unit holds.
        outputs: The variables of the result.
        text: The spec in plain values: two sweeps with the same text are the same.
        vague: What the text cannot tell from something else, or None.
        origins: The plugins that it uses.
        source: What `make_plan` takes to make it elsewhere: its arguments, and those by name.
        labels: What the places along an output's own axis are called, where they have names.
    """

    axes: dict[str, np.ndarray]
    block: tuple[int, ...]
    outputs: dict[str, Output]
    text: dict[str, Any]
    vague: str | None = None
    source: tuple[tuple[Any, Any], dict[str, Any]]
    origins: tuple[dict[str, str], ...] = ()
    labels: Mapping[str, list[str]] = MappingProxyType({})

    @property
    @abc.abstractmethod
    def seconds(self) -> dict[str, float]:
        """Where the time went: compiling, computing."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the grid."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def hash(self) -> str:
        """The fingerprint of the spec."""
        return hash_of(self.text)

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        return tuple(-(-n // b) for n, b in zip(self.shape, self.block, strict=True))

    def units(self) -> list[Unit]:
        """All units, in order."""
        return list(itertools.product(*map(range, self.blocks)))

    def region(self, unit: Unit) -> tuple[slice, ...]:
        """The part of the grid that a unit covers."""
        return tuple(
            slice(k * b, min((k + 1) * b, n))
            for k, b, n in zip(unit, self.block, self.shape, strict=True)
        )

    def num_cells(self, unit: Unit) -> int:
        """How many cells a unit has."""
        return math.prod(part.stop - part.start for part in self.region(unit))

    def cells(self, unit: Unit) -> tuple[dict[str, np.ndarray], np.ndarray, tuple[int, ...]]:
        """The values and the number of each cell of a unit, flat, and the unit's shape."""
        region = self.region(unit)
        parts = [values[part] for values, part in zip(self.axes.values(), region, strict=True)]
        grids = np.meshgrid(*parts, indexing="ij")
        places = np.meshgrid(*(np.arange(part.start, part.stop) for part in region), indexing="ij")
        numbers = np.ravel_multi_index([place.ravel() for place in places], self.shape)
        columns = {name: grid.ravel() for name, grid in zip(self.axes, grids, strict=True)}
        return columns, numbers.astype(np.uint32), grids[0].shape

    def check_memory(self, sizes: tuple[int, ...]) -> None:
        """Refuse outputs over a grid of these sizes that do not fit into memory."""
        count = math.prod(sizes)
        for name, output in self.outputs.items():
            size = count * math.prod(output.sizes) * np.dtype(output.dtype).itemsize
            check_bytes(f"`{name}` of {count:,} cells", size, "Take fewer, or return less.")

    @abc.abstractmethod
    def compute(self, unit: Unit) -> dict[str, np.ndarray]:
        """The outputs over a unit: shape of the unit, then the output's own axes."""


class SimulationPlan(Plan):
    """A simulation from a spec, measured in every cell."""

    def __init__(self, spec: SweepSpec):
        self.spec: SweepSpec = spec
        self.axes: dict[str, np.ndarray] = spec.axes
        self.static: list[str] = spec.static
        self._runners: dict[tuple[Any, ...], Runner] = {}
        self._lock = threading.Lock()
        first = self.runner(tuple(self.axes[name][0].item() for name in self.static))
        chunk = spec.chunk or _TILES * first.lanes
        self.block: tuple[int, ...] = block_of(self.axes, chunk, self.static)
        self.text: dict[str, Any] = {**spec.text, "sweep": {**spec.text["sweep"], "chunk": chunk}}
        items = list(spec.measured.values())
        measured = used_in({"observable": items, "event": items})
        used = [*spec.simulation.used(), *measured]
        self.origins: tuple[dict[str, str], ...] = tuple(origins(used))
        self.vague: str | None = next(
            (each["module"] for each in self.origins if "sha256" not in each), None
        )
        if self.origins:  # what a name stands for is in its module
            self.text["plugins"] = [
                {k: each.get(k) for k in ("module", "sha256")} | {"reached": _reached(each, used)}
                for each in self.origins
            ]
        if files := _files(spec.simulation.problem):
            self.text["files"] = files
        self.source: tuple[tuple[Any, Any], dict[str, Any]] = (self.text, None), {}
        sizes = {"token": first.num_tokens, "tail": TAIL}
        self.outputs: dict[str, Output] = {
            name: _describe(name, sizes) for name in spec.measured if name in OUTCOMES
        }
        if len(self.outputs) < len(spec.measured):  # observables and events describe themselves
            varying = {name: self.axes[name] for name in self.axes if name not in self.static}
            self.outputs |= {
                name: Output(axes, value.shape, str(value.dtype), {"long_name": _words_of(name)})
                for name, (axes, value) in first.variables(varying).items()
            }
        if first.names is not None and any("token" in each.axes for each in self.outputs.values()):
            self.labels: Mapping[str, list[str]] = {"token": list(first.names)}

    @property
    def seconds(self) -> dict[str, float]:
        """Where the time went, over all shapes."""
        runners = self._runners.values()
        return {
            kind: sum(each.seconds[kind] for each in runners) for kind in ("compiling", "computing")
        }

    def runner(self, static: tuple[Any, ...]) -> Runner:
        """The runner of one program, by the values of the static axes."""
        with self._lock:
            if static not in self._runners:
                spec = self.spec.with_static(dict(zip(self.static, static, strict=True)))
                varying = tuple(name for name in self.axes if name not in self.static)
                self._runners[static] = Runner(spec, varying)
            return self._runners[static]

    def compute(self, unit: Unit) -> dict[str, np.ndarray]:
        if _files(self.spec.simulation.problem) != self.text.get("files", {}):
            raise InputError(
                f"{self.spec.simulation.problem['path']} was changed while it was in use. Run again, into "
                "another store."
            )
        columns, numbers, shape = self.cells(unit)
        static = tuple(columns.pop(name)[0].item() for name in self.static)
        results = self.runner(static).run(columns, numbers)
        return {
            name: np.asarray(results[name], output.dtype).reshape(*shape, *output.sizes)
            for name, output in self.outputs.items()
        }


def block_of(
    axes: dict[str, np.ndarray], chunk: int, static: Collection[str] = ()
) -> tuple[int, ...]:
    """The last axes whole, the first ones in parts; static axes one value at a time."""
    block, room = [], chunk
    for name, values in reversed(axes.items()):
        size = 1 if name in static else max(1, min(len(values), room))
        block.append(size)
        room //= size
    return tuple(reversed(block))


def _reached(origin: Mapping[str, str], used: Iterable[Entry]) -> str:
    """The fingerprint of what a plugin registers for a sweep, with all that it uses in other modules."""
    return Fingerprint([each.target for each in used if each.origin == origin["module"]]).hash


def _files(problem: Mapping[str, Any]) -> dict[str, str]:
    """The content of the file that a problem is read from, by its fingerprint."""
    if not (path := problem.get("path")):
        return {}
    return {"problem.path": hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]}


def _describe(name: str, sizes: dict[str, int]) -> Output:
    entry, attrs = OUTCOMES[name], {"long_name": OUTCOMES[name].help}
    if entry.about["symbol"]:
        attrs["symbol"] = entry.about["symbol"]
    if name == "convergence":
        meanings = " ".join(each.replace(" ", "_") for each in CLASSES)
        attrs |= {"flag_values": list(range(len(CLASSES))), "flag_meanings": meanings}
    axes, dtype = entry.about["axes"], "int8" if name == "convergence" else "float64"
    return Output(axes, tuple(sizes[axis] for axis in axes), dtype, attrs)


def _words_of(name: str) -> str:
    """What an observable means, at the end of a run; of an event's variable its name."""
    known = entries("observable")
    return f"{known[name].help} after the last step" if name in known else name
