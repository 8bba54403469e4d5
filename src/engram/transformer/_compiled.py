"""Passes by the compiled kernel: which can use it, and sums over sequences, a thread for each device."""

import concurrent.futures
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from threadpoolctl import ThreadpoolController

from engram.transformer._gradients import Sums
from engram.transformer._kernel_arrays import (
    MOST_POSITIONS,
    Space,
    Tables,
    Totals,
    finish,
    make_space,
    make_tables,
    no_totals,
)
from engram.transformer._model import Model


def load_kernel() -> Any:
    """The module that needs numba, or None where that is not installed or does not fit NumPy."""
    try:
        from engram.transformer import _kernel
    except ImportError:
        return None
    return _kernel


def can_compile(model: Model, trained: tuple[str, ...]) -> bool:
    """Whether the kernel computes this: all gradients on a CPU, and tables that are not large."""
    is_small = "wk1" in trained and len(model.W_P) <= MOST_POSITIONS
    return is_small and jax.default_backend() == "cpu" and load_kernel() is not None


class CompiledSums:
    """Sums over sequences by the kernel; every device of this process is a thread.

    Args:
        model: All matrices; the trained ones are replaced in each call.
        data: A `Data` of NumPy arrays.
        mesh: The devices.
    """

    def __init__(self, model: Model, data: Any, mesh: Mesh):
        dtype = np.asarray(model.W_E).dtype
        self._add_up, self._unit = load_kernel().compiled(dtype.name)
        self._model: Model = jax.tree.map(np.asarray, model)
        kinds = {"tokens": np.uint8, "positions": np.int32, "targets": np.uint8, "counts": np.int32}
        self._data = [
            np.ascontiguousarray(getattr(data, name), kind) for name, kind in kinds.items()
        ]
        self._sizes: tuple[int, int, int] = (len(model.W_E), len(model.W_P), model.dim)
        self._dtype = dtype
        here = jax.process_index()
        self._mine = [k for k, device in enumerate(mesh.devices) if device.process_index == here]
        self._blas = (
            ThreadpoolController()
        )  # its threads wait for one another, and these products are small
        looks = data.positions.shape[1]
        self._spaces = [make_space(*self._sizes, looks, self._unit, dtype) for _ in self._mine]

    def sums(
        self, state: dict[str, Any], shares: list[Any], report: Callable[[], None] | None
    ) -> Sums:
        """Loss, hits and gradients, added up over all processes."""
        model = self._model.replace({name: np.asarray(x) for name, x in state.items()})
        total = no_totals(*self._sizes, self._unit, self._dtype)
        add = functools.partial(np.add, dtype=np.float64)
        with (
            np.errstate(over="ignore", invalid="ignore"),  # it shows in the results
            self._blas.limit(limits=1, user_api="blas"),
            concurrent.futures.ThreadPoolExecutor(len(self._mine)) as threads,
        ):
            tables = make_tables(model, self._unit)
            for share in shares:
                one = lambda space, device, share=share: self._add(tables, space, share, device)
                for part in threads.map(one, self._spaces, self._mine):
                    total = Totals(*map(add, total, part))
                if report is not None:
                    report()
            sums = Sums(*finish(model, total))
        return _over_processes(sums, self._dtype)

    def _add(self, tables: Tables, space: Space, share: Any, device: int) -> Totals:
        totals = no_totals(*self._sizes, self._unit, self._dtype)
        rows = np.ascontiguousarray(share.rows[device].ravel(), np.int64)
        weights = np.ascontiguousarray(share.weights[device].ravel(), self._dtype)
        self._add_up(tables, space, totals, *self._data, rows, weights, self._sizes[0])
        return totals


def _over_processes(sums: Sums, dtype: np.dtype) -> Sums:
    if jax.process_count() == 1:
        return sums
    from jax.experimental import multihost_utils

    mine = jax.tree.map(lambda part: np.asarray(part, dtype), sums)
    everyone = multihost_utils.process_allgather(mine)
    return jax.tree.map(lambda parts: np.asarray(parts, np.float64).sum(axis=0), everyone)
