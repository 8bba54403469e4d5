"""sweep: the verb. It computes every unit that is not there yet, here or on other machines."""

import concurrent.futures
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from engram._checks import InputError, check_count
from engram.sweeps._plan import FunctionPlan, Plan, SimulationPlan, Unit, check_size
from engram.sweeps._spec import SweepSpec, read_sweep
from engram.sweeps._store import Store

_MOST_THREADS = 1024


def sweep(
    what: Any,
    axes: Mapping[str, Any] | None = None,
    *,
    store: Any = None,
    client: Any = None,
    chunk: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    """Measure something over a grid of named axes.

    Args:
        what: A simulation and what to measure of it, as the path of a TOML spec or a dictionary of its
            tables; or a function of the axes' values, written with JAX, that returns a number, an array
            or a dictionary of them. A function that takes `key` gets a random key of its cell's own.
        axes: Values by name: a list or array, `{"linspace": [a, b, n]}`, `{"logspace": [a, b, n]}`
            (exponents of ten) or `{"seeds": n}`. For a spec, in place of or besides its own.
        store: A Zarr folder to write to as work is done. If it is there, what is missing is computed.
        client: A `dask.distributed.Client`: its workers compute the units.
        chunk: Cells per unit of work, for a function; specs have their own.
        seed: From which random keys of a function derive; specs have their own.
        threads: How many units to compute at a time in this process; by default one per core.
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
    plan = make_plan(what, axes, chunk=chunk, seed=seed)
    opened = None if store is None else Store.open(store, plan)
    began = time.perf_counter()
    kept = set() if opened is None else opened.done()
    todo = [unit for unit in plan.units() if unit not in kept]
    tally = Tally(plan, kept, progress, num_lost=0 if opened is None else opened.num_lost)
    if client is not None:
        from engram.sweeps._cluster import compute_on

        whole = compute_on(client, what, axes, chunk, seed, plan, opened, todo, tally)
    else:
        whole = _compute_here(plan, opened, todo, threads, tally)
    tally.seconds |= {"in all": time.perf_counter() - began}
    data = whole if opened is None else opened.dataset()
    assert data is not None
    return data.assign_attrs(summary=tally.told(), spec_hash=plan.hash)


def make_plan(what: Any, axes: Any, *, chunk: int | None = None, seed: int = 0) -> Plan:
    """The plan of a sweep, all of it checked before any work is done."""
    if callable(what):
        if axes is None:
            raise InputError("`axes` must be given with a function. Name what it varies over.")
        plan: Plan = FunctionPlan(what, axes, chunk, seed)
    elif isinstance(what, SweepSpec):
        plan = SimulationPlan(what)
    elif isinstance(what, str | Path | Mapping):
        plan = SimulationPlan(read_sweep(what, axes))
    else:
        raise InputError(
            f"`what` must be a spec or a function, got {what!r}. Give a TOML path, a dictionary or a "
            "function."
        )
    check_size(plan)
    return plan


class Tally:
    """What was done, and where the time went."""

    def __init__(
        self,
        plan: Plan,
        kept: set[Unit],
        progress: Callable[[int, int], None] | None,
        num_lost: int = 0,
    ):
        self.plan, self.num_kept, self.progress = plan, len(kept), progress
        self.num_lost = num_lost
        self.num_computed = 0
        self.total = int(np.prod(plan.shape))
        self.cells_before = sum(map(plan.num_cells, kept))
        self.cells = 0
        self.seconds: dict[str, float] = {}

    def tell(self, unit: Unit | None = None) -> None:
        """One unit more is done."""
        if unit is not None:
            self.num_computed += 1
            self.cells += self.plan.num_cells(unit)
        if self.progress is not None:
            self.progress(self.cells_before + self.cells, self.total)

    def spend(self, kind: str, seconds: float) -> None:
        """Add time to a kind of work."""
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds

    def told(self) -> str:
        """A line for people."""
        spent = {**self.seconds, **{k: v for k, v in self.plan.seconds.items() if v}}
        whole = spent.pop("in all", 0.0)
        parts = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in spent.items())
        rate = self.cells / whole if whole > 0 else 0.0
        again = f" ({self.num_lost} again: lost or damaged in the store)" if self.num_lost else ""
        return (
            f"{self.num_computed} units computed{again}, {self.num_kept} were there; {self.cells:,} cells in "
            f"{whole:.2f} s ({rate:,.0f}/s); {parts or 'nothing to do'}"
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compute_here(
    plan: Plan, store: Store | None, todo: list[Unit], threads: int, tally: Tally
) -> xr.Dataset | None:
    """Compute units in threads of this process, and keep each as soon as it is there."""
    results = None if store is not None else empty_arrays(plan)
    tally.tell()
    waiting = iter(todo)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        running: dict[Any, Unit] = {}

        def submit() -> None:
            for unit in waiting:
                if store is not None:
                    store.begin(unit)
                running[pool.submit(plan.compute, unit)] = unit
                return

        try:
            for _ in range(threads):
                submit()
            while running:
                ready, _ = concurrent.futures.wait(running, return_when="FIRST_COMPLETED")
                for future in ready:
                    unit = running.pop(future)
                    found = future.result()
                    submit()
                    began = time.perf_counter()
                    if store is not None:
                        store.write(unit, found)
                    else:
                        keep(plan, results, unit, found)
                    tally.spend("writing", time.perf_counter() - began)
                    tally.tell(unit)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return None if results is None else assembled(plan, results)


def empty_arrays(plan: Plan) -> dict[str, np.ndarray]:
    """Room for all results in memory."""
    return {
        name: np.empty((*plan.shape, *about.sizes), about.dtype)
        for name, about in plan.outputs.items()
    }


def keep(plan: Plan, results: Any, unit: Unit, found: dict[str, np.ndarray]) -> None:
    """Put a unit's results in their place."""
    for name, values in found.items():
        results[name][plan.region(unit)] = values


def assembled(plan: Plan, results: dict[str, np.ndarray]) -> xr.Dataset:
    """Results in memory as a labelled dataset."""
    axes = tuple(plan.axes)
    variables = {
        name: ((*axes, *about.axes), results[name], about.attrs)
        for name, about in plan.outputs.items()
    }
    labelled = {**plan.axes, **plan.labels}
    coords: dict[str, Any] = {name: (name, values) for name, values in labelled.items()}
    return xr.Dataset(
        variables, coords, {"kind": "engram sweep", "spec": json.dumps(plan.text), "units_left": 0}
    )
