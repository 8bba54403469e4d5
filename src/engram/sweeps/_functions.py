"""Functions of the user's as sweeps: mapped over all cells in one compiled program."""

import functools
import hashlib
import inspect
import math
import re
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError, check_count
from engram._precision import in_double, make_key
from engram.sweeps._axes import read_axes
from engram.sweeps._plan import Output, Plan, Unit, block_of

_CELLS = 4096  # per unit, unless asked otherwise


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
        self.axes, self.source = read_axes(axes), (function, axes, chunk, seed)
        self.function, self.seed = function, check_count("seed", seed, least=0)
        chunk = check_count("chunk", chunk or _CELLS)
        self.block = block_of(self.axes, chunk)
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
