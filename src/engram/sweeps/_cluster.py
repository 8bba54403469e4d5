"""Units on the workers of a dask cluster: each computes, writes its chunks, and marks them."""

import os
import time
import uuid
from typing import Any

import jax
import numpy as np

import engram
from engram._checks import InputError
from engram.registry import load_origins
from engram.sweeps._plan import Plan, Unit
from engram.sweeps._store import Memory, Store

_WAITING = 4  # units in hand per worker: enough to keep it busy, few enough to lose
_plans: dict[str, Plan] = {}  # of this worker: programs are compiled once
_stores: dict[tuple[str, str], Store] = {}


def compute_on(
    client: Any, plan: Plan, results: Memory | Store, todo: list[Unit], tally: Any
) -> None:
    """Hand out units to a client's workers; a worker that dies loses its unit, which goes to another."""
    from distributed import as_completed

    check_workers(client)
    path = str(results.path.resolve()) if isinstance(results, Store) else None
    # It goes with every unit: data that were scattered once would be lost with the worker that holds them.
    payload = (plan.source, plan.origins)
    waiting, run = iter(todo), uuid.uuid4().hex
    queue = as_completed([], with_results=False)
    units: dict[str, Unit] = {}

    def submit() -> None:
        for unit in waiting:
            key = f"engram-{plan.hash}-{run}-{'-'.join(map(str, unit))}"
            units[key] = unit
            queue.add(
                client.submit(work, payload, plan.hash, path, unit, key=key, pure=False, retries=5)
            )
            return

    for _ in range(_WAITING * max(1, len(client.scheduler_info()["workers"]))):
        submit()
    for future in queue:
        unit, (values, seconds) = units.pop(future.key), future.result()
        future.release()
        submit()
        if path is None:
            results.write(unit, values)
        tally.report(unit, seconds)


def work(
    payload: Any, fingerprint: str, path: str | None, unit: Unit
) -> tuple[dict[str, np.ndarray] | None, dict[str, float]]:
    """One unit, on a worker: computed and written, or returned when there is no store."""
    plan = _plan_of(payload, fingerprint)
    before, writing = dict(plan.seconds), 0.0
    values = None
    if path is None:
        values = plan.compute(unit)
    else:
        try:
            store = _stores.get((path, fingerprint)) or Store.open(path, plan)
            _stores[path, fingerprint] = store
        except (InputError, OSError) as error:
            raise InputError(
                f"a worker cannot use the store {path} ({error}). Use a folder that all of them share."
            ) from None
        if not store.is_done(unit):  # else an earlier attempt had finished after all
            store.begin(unit)
            computed = plan.compute(unit)
            began = time.perf_counter()
            store.write(unit, computed)
            writing = time.perf_counter() - began
    spent = {kind: plan.seconds[kind] - before.get(kind, 0.0) for kind in plan.seconds}
    return values, spent | {"writing": writing}


def _plan_of(payload: Any, fingerprint: str) -> Plan:
    """The plan that this worker shares with the process that hands out units."""
    from engram.sweeps._sweep import make_plan

    if fingerprint not in _plans:
        (what, axes, chunk, seed), plugins = payload
        load_origins(plugins)
        plan = make_plan(what, axes, chunk=chunk, seed=seed)
        if plan.hash != fingerprint:
            raise InputError(
                "a worker parses the spec differently from this process. Use the same engram on all."
            )
        _plans[fingerprint] = plan
    return _plans[fingerprint]


def check_workers(client: Any) -> None:
    """Refuse workers whose engram or JAX is another version, before any work is done."""
    ours = worker_versions()
    theirs = client.run(worker_versions)
    if not theirs:
        raise InputError("the cluster has no workers. Start some, then run again.")
    for address, versions in theirs.items():
        for name, version in ours.items():
            if versions.get(name) != version:
                raise InputError(
                    f"the worker {address} has {name} {versions.get(name)}, this process has {version}. "
                    "Install the same version on both."
                )


def worker_versions() -> dict[str, str]:
    """What must be the same everywhere for the same bits."""
    return {"engram": engram.__version__, "jax": jax.__version__}


def local_client(workers: int) -> Any:
    """A client with that many local processes, spawned, one thread each."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            "more workers need dask: pip install 'dask[distributed]'. Without --workers the sweep runs in "
            "this process."
        ) from None
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,  # pyright: ignore[reportArgumentType]
        host="127.0.0.1",
        env={"OMP_NUM_THREADS": "1", "XLA_FLAGS": flags.strip()},
    )
    return Client(cluster)


def remote_client(address: str) -> Any:
    """A client of a cluster that is there already."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError("a scheduler needs dask: pip install 'dask[distributed]'.") from None
    try:
        return Client(address, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"--scheduler {address} does not answer ({error}). Check the address."
        ) from None
