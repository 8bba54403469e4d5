"""sweep: the verb. It computes every unit that is not done yet, here or on other machines."""

import concurrent.futures
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from engram._checks import InputError, check_count
from engram._types import ArrayLike
from engram.sweeps._functions import FunctionPlan
from engram.sweeps._plan import Plan, SimulationPlan, Unit
from engram.sweeps._spec import SweepSpec, read_sweep
from engram.sweeps._store import MARKS, Memory, Store, this_maker

_MOST_THREADS = 1024
_MOST_CELLS = 2**32  # cells are numbered by 32 bits


def sweep(
    what: str | Path | Mapping[str, Any] | Callable[..., Any],
    axes: Mapping[str, ArrayLike | Sequence[str] | Mapping[str, Any]] | None = None,
    *,
    store: str | os.PathLike[str] | None = None,
    client: Any = None,
    chunk: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    version: str | None = None,
    accept_versions: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    """Measure something over a grid of named axes.

    Args:
        what: A simulation and what to measure of it, as the path of a TOML spec or a dictionary of its
            tables; or a function of the axes' values that returns a number, an array or a dictionary of
            them. Written with JAX it runs as one compiled program, any other is called cell by cell. A
            function that takes `key` gets a random key of its cell's own.
        axes: Values by name: a list or array, `{"linspace": [a, b, n]}`, `{"logspace": [a, b, n]}`
            (exponents of ten) or `{"seeds": n}`. For a spec, instead of or in addition to its own.
        store: A Zarr folder to write to as work is done. If it exists, what is missing is computed.
        client: A `dask.distributed.Client`: its workers compute the units.
        chunk: Cells per unit of work, for a function; specs have their own.
        seed: From which random keys of a function derive; specs have their own.
        threads: How many units to compute at a time in this process; by default one per core.
        version: What stands for a function when a store is resumed; change it when the function changes. By
            default a fingerprint of its code and of all code and values that it reaches in modules of yours.
        accept_versions: Whether to resume a store that another version of engram or JAX has begun.
        progress: Called with the cells done and the cells in all.

    Returns:
        A dataset with one dimension per axis. What was not reached is NaN. The attribute `summary` says where
        the time went. The result does not depend on order, threads, workers or restarts, to the last bit.

    Paper: fig:bin-int.
    """
    threads = check_count("threads", threads or _cores())
    if threads > _MOST_THREADS:
        raise InputError(
            f"`threads` must be at most {_MOST_THREADS}, got {threads}. One per core is enough."
        )
    plan = make_plan(what, axes, chunk=chunk, seed=seed, version=version)
    results = Memory(plan) if store is None else Store.open(store, plan)
    began = time.perf_counter()
    done = results.done()
    todo = [unit for unit in plan.units() if unit not in done]
    tally = Tally(plan, done, results.num_lost, progress)
    if client is not None and todo:
        from engram.sweeps._cluster import check_workers, compute_on

        results.check_makers(check_workers(client), accept_versions)
        compute_on(client, plan, results, todo, tally)
    elif todo:
        results.check_makers([this_maker()], accept_versions)
        _compute_here(plan, results, todo, threads, tally)
    summary = tally.summary(time.perf_counter() - began)
    return results.dataset().assign_attrs(summary=summary, spec_hash=plan.hash)


def make_plan(what: Any, axes: Any, **of_a_function: Any) -> Plan:
    """The plan of a sweep, all of it checked before any work is done; see `FunctionPlan`."""
    if callable(what):
        if axes is None:
            raise InputError("`axes` must be given with a function. Name what it varies over.")
        plan: Plan = FunctionPlan(what, axes, **of_a_function)
    elif isinstance(what, SweepSpec):
        plan = SimulationPlan(what)
    elif isinstance(what, str | Path | Mapping):
        plan = SimulationPlan(read_sweep(what, axes))
    else:
        raise InputError(
            f"`what` must be a spec or a function, got {what!r}. Give a TOML path, a dictionary or a "
            "function."
        )
    _check_names(plan)
    if math.prod(plan.shape) >= _MOST_CELLS:
        raise InputError(
            f"a sweep has fewer than 2^32 cells, got {math.prod(plan.shape):,}. Cut an axis in two."
        )
    plan.check_memory(plan.block)
    return plan


def _check_names(plan: Plan) -> None:
    """Refuse a result that has the name of an axis, and names that a store has for itself."""
    axes_of_results = {axis for output in plan.outputs.values() for axis in output.axes}
    for name in (*plan.axes, *plan.outputs):
        if name in MARKS:
            raise InputError(
                f"`{name}` is a name that stores use themselves. Call it something else."
            )
    for name in plan.axes:
        if name in plan.outputs or name in axes_of_results:
            raise InputError(
                f"what is measured has `{name}`, which is the name of an axis. Call one something else."
            )


class Tally:
    """What was done, and where the time went."""

    def __init__(
        self,
        plan: Plan,
        reused: Collection[Unit],
        num_lost: int,
        progress: Callable[[int, int], None] | None,
    ):
        self.plan, self.progress = plan, progress
        self.num_reused, self.num_lost, self.num_computed = len(reused), num_lost, 0
        self.cells_reused, self.cells = sum(map(plan.num_cells, reused)), 0
        self.seconds: dict[str, float] = {}
        self.report()

    def report(self, unit: Unit | None = None, seconds: Mapping[str, float] | None = None) -> None:
        """Report progress: one more unit is done, in so many seconds of each kind of work."""
        if unit is not None:
            self.num_computed += 1
            self.cells += self.plan.num_cells(unit)
        for kind, spent in (seconds or {}).items():
            self.seconds[kind] = self.seconds.get(kind, 0.0) + spent
        if self.progress is not None:
            self.progress(self.cells_reused + self.cells, math.prod(self.plan.shape))

    def summary(self, whole: float) -> str:
        """A line for people."""
        spent = {**self.seconds, **{k: v for k, v in self.plan.seconds.items() if v}}
        parts = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in spent.items())
        rate = self.cells / whole if whole > 0 else 0.0
        lost = f" ({self.num_lost} of them lost or damaged in the store)" if self.num_lost else ""
        return (
            f"computed {self.num_computed} units{lost}, reused {self.num_reused}; {self.cells:,} cells in "
            f"{whole:.2f} s ({rate:,.0f}/s); {parts or 'nothing to do'}"
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compute_here(
    plan: Plan, results: Memory | Store, todo: list[Unit], threads: int, tally: Tally
) -> None:
    """Compute units in threads of this process, and keep each as soon as it is done."""
    waiting = iter(todo)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        running: dict[Any, Unit] = {}

        def submit() -> None:
            for unit in waiting:
                results.begin(unit)
                running[pool.submit(plan.compute, unit)] = unit
                return

        try:
            for _ in range(threads):
                submit()
            while running:
                ready, _ = concurrent.futures.wait(running, return_when="FIRST_COMPLETED")
                for future in ready:
                    unit, values = running.pop(future), future.result()
                    submit()
                    began = time.perf_counter()
                    results.write(unit, values)
                    tally.report(unit, {"writing": time.perf_counter() - began})
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
