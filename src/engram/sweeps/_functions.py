"""Functions of the user's as sweeps: mapped over all cells in one program, or called cell by cell."""

import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError, check_count
from engram._precision import in_double, make_key
from engram.sweeps._axes import read_axes
from engram.sweeps._fingerprint import Fingerprint, name_of, parameters_of
from engram.sweeps._plan import Output, Plan, Unit, block_of

_CELLS = 4096  # per unit, unless asked otherwise
_CELLS_ONE_BY_ONE = 16  # per unit of a function that is called for each cell


class FunctionPlan(Plan):
    """A function of one cell: mapped over all of them in one compiled program, if JAX can trace it.

    Otherwise it is called cell by cell, with plain numbers.

    Args:
        function: From the axes' values, by name, to a number or array, or a dictionary of them. If it takes
            `key`, it gets a key of the cell's own.
        axes: The axes.
        chunk: Cells per unit.
        seed: From which, with the cell's number, keys derive.
        version: What stands for the function when a store is resumed; by default its fingerprint.
        outputs: What it returns, if that is known.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        axes: Any,
        chunk: int | None = None,
        seed: int = 0,
        version: str | None = None,
        outputs: tuple[dict[str, Output], bool] | None = None,
    ):
        self.axes = read_axes(axes)
        self.function, self.seed = function, check_count("seed", seed, least=0)
        self._seconds = {"compiling": 0.0, "computing": 0.0}
        self._program: Any = None
        self._first: dict[str, np.ndarray] | None = None  # of the first cell, if it was called
        self._lock = threading.Lock()
        takes = parameters_of(function)
        missing = [name for name in self.axes if takes is not None and name not in takes]
        if missing:
            raise InputError(
                f"the function does not take `{missing[0]}`, which is an axis. It takes "
                f"{', '.join(takes or ()) or 'nothing'}."
            )
        self._takes_key = takes is not None and "key" in takes and "key" not in self.axes
        self.block = (1,) * len(self.axes)
        self.outputs, self.is_traced = outputs or self._find_outputs()
        chunk = check_count("chunk", chunk or (_CELLS if self.is_traced else _CELLS_ONE_BY_ONE))
        self.block = block_of(self.axes, chunk)
        self.text = {
            "function": name_of(function),
            "axes": {name: values.tolist() for name, values in self.axes.items()},
            "sweep": {"chunk": chunk, "seed": self.seed},
        }
        if version is None:
            fingerprint = Fingerprint(function)
            self.text["source"], self.vague = fingerprint.hash, fingerprint.vague
        else:
            self.text["version"] = str(version)
        known = {"version": version, "outputs": (self.outputs, self.is_traced)}
        self.source = (function, axes), {"chunk": chunk, "seed": seed, **known}

    @property
    def seconds(self) -> dict[str, float]:
        return self._seconds

    def _one(self, values: Mapping[str, Any], cell: Any) -> dict[str, Any]:
        if self._takes_key:
            values = {**values, "key": jax.random.fold_in(make_key(self.seed), cell)}
        result = self.function(**values)
        results = result if isinstance(result, dict) else {"value": result}
        return {str(name): value for name, value in results.items()}

    def _find_outputs(self) -> tuple[dict[str, Output], bool]:
        """What the function returns, and whether JAX can trace it."""
        columns, numbers, _ = self.cells((0,) * len(self.axes))
        one = {name: jax.ShapeDtypeStruct((), column.dtype) for name, column in columns.items()}
        number = jax.ShapeDtypeStruct((), numbers.dtype)
        # As pairs, in the function's order: JAX sorts dictionaries.
        pairs = lambda values, cell: [
            (name, jnp.asarray(value)) for name, value in self._one(values, cell).items()
        ]
        try:
            with jax.enable_x64(True):
                forms, is_traced = dict(eqx.filter_eval_shape(pairs, one, number)), True
        except Exception as error:  # whatever a tracer does to the user's code
            self._first = self._call(columns, numbers, 0)
            forms, is_traced = self._first, False
            warnings.warn(
                f"the function cannot be traced by JAX ({type(error).__name__}): it is called cell by cell. "
                "Written with jax.numpy, without float(), int() or `if` on its arguments, it runs as one "
                "compiled program, often a hundred times as fast; a simulation is faster as a spec.",
                stacklevel=5,
            )
        if not forms:
            raise InputError("the function must return at least one number or array, got {}.")
        if strange := [name for name in forms if not name.isidentifier()]:
            raise InputError(
                f"the function must return plain names, got {strange[0]!r}. Use letters, digits and _."
            )
        outputs = {}
        for name, form in forms.items():
            axes = tuple(f"{name}_{i}" for i in range(len(form.shape)))
            # Called cell by cell, whole numbers may be followed by others.
            is_real = not is_traced and form.dtype.kind != "c"
            outputs[name] = Output(axes, form.shape, "float64" if is_real else str(form.dtype), {})
        return outputs, is_traced

    def _call(
        self, columns: Mapping[str, np.ndarray], numbers: Any, k: int
    ) -> dict[str, np.ndarray]:
        """The function of one cell, with plain numbers."""
        results = self._one(
            {name: column[k].item() for name, column in columns.items()}, numbers[k]
        )
        arrays = {name: np.asarray(value) for name, value in results.items()}
        for name, array in arrays.items():
            if array.dtype.kind not in "biufc":
                raise InputError(
                    f"the function must return numbers or arrays, got {results[name]!r} for `{name}`."
                )
        return arrays

    def compute(self, unit: Unit) -> dict[str, np.ndarray]:
        columns, numbers, shape = self.cells(unit)
        if self.is_traced:
            results = self._mapped(columns, numbers)
        else:
            began = time.perf_counter()
            results = self._called(columns, numbers)
            self._seconds["computing"] += time.perf_counter() - began
        return {name: value.reshape(*shape, *value.shape[1:]) for name, value in results.items()}

    @in_double
    @jax.disable_jit(False)
    def _mapped(self, columns: dict[str, np.ndarray], numbers: np.ndarray) -> dict[str, np.ndarray]:
        """The cells of a unit in one program, filled up to a whole one."""
        size, count = math.prod(self.block), len(numbers)
        fill = lambda rows: np.concatenate([rows, np.repeat(rows[-1:], size - count, axis=0)])
        args = ({name: fill(column) for name, column in columns.items()}, fill(numbers))
        with self._lock:
            if self._program is None:
                began = time.perf_counter()
                self._program = jax.jit(jax.vmap(self._arrays)).lower(*args).compile()
                self._seconds["compiling"] += time.perf_counter() - began
        began = time.perf_counter()
        results = {name: np.asarray(value)[:count] for name, value in self._program(*args).items()}
        self._seconds["computing"] += time.perf_counter() - began
        return results

    def _arrays(self, values: Mapping[str, Any], cell: Any) -> dict[str, Any]:
        return {name: jnp.asarray(value) for name, value in self._one(values, cell).items()}

    def _called(self, columns: dict[str, np.ndarray], numbers: np.ndarray) -> dict[str, np.ndarray]:
        """The cells of a unit one after another; each must return what the first did."""
        rows = []
        for k, number in enumerate(numbers):
            is_first = number == 0 and self._first is not None
            row = self._first if is_first else self._call(columns, numbers, k)
            forms = {name: value.shape for name, value in (row or {}).items()}
            if forms != {name: output.sizes for name, output in self.outputs.items()}:
                place = ", ".join(f"{name} = {column[k]}" for name, column in columns.items())
                raise InputError(
                    f"the function must return the same names and shapes everywhere, got {forms} at {place}."
                )
            rows.append(row)
        return {
            name: np.stack([row[name] for row in rows]).astype(output.dtype)
            for name, output in self.outputs.items()
        }
