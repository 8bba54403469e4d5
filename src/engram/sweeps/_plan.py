"""Plans: a sweep cut into units of work, each a block of the grid, and the way to compute one."""

import abc
import functools
import hashlib
import inspect
import itertools
import math
import re
import threading
import time
import types
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError, check_count
from engram._precision import in_double, make_key
from engram.registry import entries, origins, used_by
from engram.sweeps._axes import read_axes
from engram.sweeps._cells import Runner, with_values
from engram.sweeps._observables import CLASSES, OBSERVABLES, TAIL
from engram.sweeps._spec import SweepSpec, hash_of

_CELLS_OF_A_FUNCTION = 4096  # per unit, unless asked otherwise
_TILES = 16  # batches of lanes per unit of a simulation
_MOST_CELLS = 2**32  # cells are numbered by 32 bits


class Output(NamedTuple):
    """A variable of the result: its axes besides the sweep's, their sizes, and what it is."""

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
        origins: The plugins that it makes use of.
        labels: What the places along an output's own axis are called, where they have names.
    """

    axes: dict[str, np.ndarray]
    block: tuple[int, ...]
    outputs: dict[str, Output]
    text: dict[str, Any]
    vague: str | None = None
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

    @abc.abstractmethod
    def compute(self, unit: Unit) -> dict[str, np.ndarray]:
        """The outputs over a unit: shape of the unit, then the output's own axes."""


class SimulationPlan(Plan):
    """A simulation from a spec, measured in every cell."""

    def __init__(self, spec: SweepSpec):
        self.spec, self.axes, self.static = spec, spec.axes, spec.static
        self._runners: dict[tuple[int, ...], Runner] = {}
        self._lock = threading.Lock()
        names = tuple(spec.table.observables)
        first = self.runner(
            tuple(int(values[0]) for name, values in self.axes.items() if name in self.static)
        )
        chunk = spec.table.chunk or _TILES * first.lanes
        self.block = _block(self.axes, chunk, self.static)
        self.text = {**spec.text, "sweep": {**spec.text["sweep"], "chunk": chunk}}
        measured = [
            entry
            for kind in ("observable", "event")
            for name in names
            for entry in used_by(kind, name)
        ]
        self.origins = tuple(origins([*spec.simulation.used(), *measured]))
        self.vague = next((each["module"] for each in self.origins if "sha256" not in each), None)
        if self.origins:  # what a name stands for is in its module
            self.text["plugins"] = [
                {k: each.get(k) for k in ("module", "sha256")} for each in self.origins
            ]
        sizes = {"token": first.num_tokens, "tail": TAIL}
        self.outputs = {name: _describe(name, sizes) for name in names if name in OBSERVABLES}
        if len(self.outputs) < len(names):  # what has a name says itself what it is
            varying = {
                name: values for name, values in self.axes.items() if name not in self.static
            }
            self.outputs |= {
                name: Output(axes, value.shape, str(value.dtype), {"long_name": _words_of(name)})
                for name, (axes, value) in first.variables(varying).items()
            }
        if first.names is not None and any("token" in each.axes for each in self.outputs.values()):
            self.labels = {"token": list(first.names)}

    @property
    def seconds(self) -> dict[str, float]:
        """Where the time went, over all shapes."""
        runners = self._runners.values()
        return {
            kind: sum(each.seconds[kind] for each in runners) for kind in ("compiling", "computing")
        }

    def runner(self, static: tuple[int, ...]) -> Runner:
        """The runner of one shape, by the values of the axes that change shapes."""
        with self._lock:
            if static not in self._runners:
                fixed = dict(zip(self.static, static, strict=True))
                homes, table = self.spec.homes, self.spec.table
                spec = with_values(self.spec.simulation, fixed, homes)
                varying = tuple(name for name in self.axes if name not in self.static)
                self._runners[static] = Runner(
                    spec, varying, homes, tuple(table.observables), table.seed
                )
            return self._runners[static]

    def compute(self, unit: Unit) -> dict[str, np.ndarray]:
        columns, numbers, shape = self.cells(unit)
        static = tuple(int(columns.pop(name)[0]) for name in self.static)
        found = self.runner(static).run(columns, numbers)
        return {
            name: np.asarray(found[name], self.outputs[name].dtype).reshape(
                *shape, *found[name].shape[1:]
            )
            for name in self.outputs
        }


def _block(
    axes: dict[str, np.ndarray], chunk: int, static: Collection[str] = ()
) -> tuple[int, ...]:
    """The last axes whole, the first ones in parts; axes that change shapes one value at a time."""
    block, room = [], chunk
    for name, values in reversed(axes.items()):
        size = 1 if name in static else max(1, min(len(values), room))
        block.append(size)
        room //= size
    return tuple(reversed(block))


def _describe(name: str, sizes: dict[str, int]) -> Output:
    about = OBSERVABLES[name]
    attrs: dict[str, Any] = {"long_name": about.meaning}
    if about.symbol:
        attrs["symbol"] = about.symbol
    if name == "convergence":
        meanings = " ".join(each.replace(" ", "_") for each in CLASSES)
        attrs |= {"flag_values": list(range(len(CLASSES))), "flag_meanings": meanings}
    dtype = "int8" if name == "convergence" else "float64"
    return Output(about.axes, tuple(sizes[axis] for axis in about.axes), dtype, attrs)


def _words_of(name: str) -> str:
    """What an observable means, at the end of a run; of an event's variable its name."""
    known = entries("observable")
    return f"{known[name].help} after the last step" if name in known else name


class FunctionPlan(Plan):
    """A function of one cell, mapped over all of them in one compiled program.

    Args:
        function: From the axes' values, by name, to a number or array, or a dictionary of them; with JAX
            operations, so that it can be mapped. If it takes `key`, it gets a key of the cell's own.
        axes: The axes.
        chunk: Cells per unit.
        seed: From which, with the cell's number, keys derive.
    """

    def __init__(self, function: Callable[..., Any], axes: Any, chunk: int | None, seed: int):
        self.axes = read_axes(axes)
        self.function, self.seed = function, check_count("seed", seed, least=0)
        chunk = check_count("chunk", chunk or _CELLS_OF_A_FUNCTION)
        self.block = _block(self.axes, chunk)
        self._seconds = {"compiling": 0.0, "computing": 0.0}
        self._program: Any = None
        self._lock = threading.Lock()
        takes = _parameters(function)
        missing = [name for name in self.axes if takes is not None and name not in takes]
        if missing:
            raise InputError(
                f"the function does not take `{missing[0]}`, which is an axis. It takes "
                f"{', '.join(takes or ()) or 'nothing'}."
            )
        self._takes_key = takes is not None and "key" in takes and "key" not in self.axes
        known = _Fingerprint(function)
        self.vague = known.vague
        self.text = {
            "function": _name(function),
            "source": known.hash,
            "axes": {name: values.tolist() for name, values in self.axes.items()},
            "sweep": {"chunk": chunk, "seed": self.seed},
        }
        self.outputs = self._outputs()

    @property
    def seconds(self) -> dict[str, float]:
        return self._seconds

    def _one(self, values: dict[str, Any], cell: Any) -> dict[str, Any]:
        if self._takes_key:
            values = {**values, "key": jax.random.fold_in(make_key(self.seed), cell)}
        found = self.function(**values)
        found = found if isinstance(found, dict) else {"value": found}
        return {str(name): jnp.asarray(value) for name, value in found.items()}

    def _outputs(self) -> dict[str, Output]:
        columns, cell, _ = self.cells((0,) * len(self.axes))
        one = {name: jax.ShapeDtypeStruct((), column.dtype) for name, column in columns.items()}
        number = jax.ShapeDtypeStruct((), cell.dtype)
        # As pairs, in the function's order: JAX sorts dictionaries.
        pairs = lambda values, cell: list(self._one(values, cell).items())
        try:
            with jax.enable_x64(True):
                shapes = dict(eqx.filter_eval_shape(pairs, one, number))
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
            raise InputError(
                f"the function cannot be mapped: {str(error).splitlines()[0]} Write it with jax.numpy, "
                "without `if` on its arguments."
            ) from None
        taken = [name for name in shapes if name in self.axes]
        if taken:
            raise InputError(
                f"the function returns `{taken[0]}`, which is the name of an axis. Call it something else."
            )
        return {
            name: Output(
                tuple(f"{name}_{i}" for i in range(len(s.shape))), s.shape, str(s.dtype), {}
            )
            for name, s in shapes.items()
        }

    @in_double
    def compute(self, unit: Unit) -> dict[str, np.ndarray]:
        columns, numbers, shape = self.cells(unit)
        size, count = math.prod(self.block), len(numbers)
        fill = lambda rows: np.concatenate([rows, np.repeat(rows[-1:], size - count, axis=0)])
        args = ({name: fill(column) for name, column in columns.items()}, fill(numbers))
        with self._lock:
            if self._program is None:
                began = time.perf_counter()
                self._program = jax.jit(jax.vmap(self._one)).lower(*args).compile()
                self._seconds["compiling"] += time.perf_counter() - began
        began = time.perf_counter()
        found = {name: np.asarray(value)[:count] for name, value in self._program(*args).items()}
        self._seconds["computing"] += time.perf_counter() - began
        return {name: value.reshape(*shape, *value.shape[1:]) for name, value in found.items()}


def _parameters(function: Any) -> list[str] | None:
    """The names that a function takes; None if it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return None
    return [each.name for each in parameters]


def _name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '?')}"


_CARRIED = ("__self__", "__defaults__", "__kwdefaults__")
_ADDRESS = re.compile(" at 0x[0-9a-f]+")


class _Fingerprint:
    """What a function does, as far as its text and the values that it carries tell.

    Args:
        function: Its values are those of partial arguments, defaults, closures and of `self`.

    Attributes:
        vague: The first value that cannot be told from another of its type, or None.
    """

    def __init__(self, function: Any):
        self.vague: str | None = None
        self._seen: set[int] = set()
        self.hash = hashlib.sha256("\n".join(self._function(function)).encode()).hexdigest()[:16]

    def _function(self, function: Any) -> list[str]:
        if isinstance(function, functools.partial):
            return [
                *self._function(function.func), *self._value((function.args, function.keywords))
            ]  # fmt: skip
        function = inspect.unwrap(function)
        if id(function) in self._seen:  # it calls itself
            return []
        self._seen.add(id(function))
        code = getattr(function, "__code__", None)
        try:
            source = inspect.getsource(function)
        except (OSError, TypeError):
            source = (
                repr((code.co_code, code.co_consts, code.co_names))
                if code
                else repr(type(function))
            )
        if not inspect.isroutine(function):  # an object that can be called
            return [source, *self._value(function)]
        carried = [getattr(function, name, None) for name in _CARRIED]
        carried += [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        return [
            source,
            *(text for each in carried if each is not None for text in self._value(each)),
        ]

    def _value(self, value: Any) -> list[str]:
        try:
            leaves, structure = jax.tree.flatten(value)
        except ValueError:  # a dictionary whose keys have no order
            return [self._known(repr(value))]
        return [self._known(str(structure)), *map(self._leaf, leaves)]

    def _leaf(self, leaf: Any) -> str:
        if isinstance(leaf, np.ndarray | np.generic | jax.Array):
            array = np.asarray(leaf)
            return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
        if isinstance(leaf, type | types.ModuleType):
            return leaf.__name__
        if isinstance(leaf, set | frozenset):
            return self._known(repr(sorted(map(repr, leaf))))
        if (
            inspect.isroutine(leaf)
            or isinstance(leaf, functools.partial)
            or hasattr(leaf, "__wrapped__")
        ):
            return "\n".join(self._function(leaf))
        return self._known(repr(leaf))

    def _known(self, text: str) -> str:
        """The text of a value; one that tells where in memory it is, not what it is, is noted."""
        if self.vague is None and _ADDRESS.search(text):
            self.vague = text[:80]
        return _ADDRESS.sub("", text)


def check_size(plan: Plan) -> None:
    """Refuse a grid whose cells cannot be numbered."""
    if math.prod(plan.shape) >= _MOST_CELLS:
        raise InputError(
            f"a sweep has fewer than 2^32 cells, got {math.prod(plan.shape):,}. Cut an axis in two."
        )
