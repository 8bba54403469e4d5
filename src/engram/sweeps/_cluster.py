"""Units on the workers of a dask cluster: each computes, writes its chunks, and marks them."""

import json
import os
import time
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np

from engram._cache import use_cache
from engram._checks import InputError
from engram.registry import load_origins
from engram.sweeps._plan import Plan, Unit
from engram.sweeps._store import Maker, Memory, Store, this_maker, versions_of

_PATIENCE = 60.0  # seconds in which a first worker must come
_STARTS = 3  # attempts to start workers
_WAITING = 4  # units in hand per worker: enough to keep it busy, few enough to lose
_plans: dict[str, Plan] = {}  # of this worker: programs are compiled once
_stores: dict[tuple[str, str], Store] = {}


def compute_on(
    client: Any, plan: Plan, results: Memory | Store, todo: list[Unit], tally: Any
) -> None:
    """Hand out units to a client's workers; a worker that dies loses its unit, which goes to another."""
    from distributed import as_completed

    path = str(results.path.resolve()) if isinstance(results, Store) else None
    # It goes with every unit: data that were scattered once would be lost with the worker that holds them.
    payload = (plan.source, plan.origins, versions_of(this_maker()))
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
        use_cache()
        (args, options), plugins, versions = payload
        if versions_of(this_maker()) != versions:
            raise InputError(_differ("a worker", this_maker(), versions))
        load_origins(plugins)
        plan = make_plan(*args, **options)
        if plan.hash != fingerprint:
            raise InputError(
                "a worker parses the spec differently from this process. Use the same engram on all."
            )
        _plans[fingerprint] = plan
    return _plans[fingerprint]


def check_workers(client: Any) -> list[Maker]:
    """What the workers compute with; another version of engram or JAX is refused before any work is done.

    A worker that dies meanwhile, or joins later, is no reason to end: each checks its versions itself.
    """
    ours = versions_of(this_maker())
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        raise InputError("the cluster has no workers. Start some, then run again.") from None
    makers = {
        address: maker
        for address, maker in client.run(this_maker, on_error="return").items()
        if isinstance(maker, dict)
    }
    for address, maker in makers.items():
        if versions_of(maker) != ours:
            raise InputError(_differ(f"the worker {address}", maker, ours))
    return list({json.dumps(maker): maker for maker in makers.values()}.values())


def _differ(who: str, maker: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    name = next(name for name in ours if maker.get(name) != ours[name])
    met = f"{who} has {name} {maker.get(name)}, this process has {ours[name]}"
    return f"{met}. Install the same version on both."


def local_client(workers: int) -> Any:
    """A client with that many local processes, spawned, one thread each."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            "more workers need dask: pip install 'dask[distributed]'. Without `workers` the sweep runs in "
            "this process."
        ) from None
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    for _ in range(_STARTS):
        try:
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,  # pyright: ignore[reportArgumentType]
                host="127.0.0.1",
                env={"OMP_NUM_THREADS": "1", "XLA_FLAGS": flags.strip()},
            )
            return Client(cluster)
        except (RuntimeError, OSError):  # one was killed while it started, which ends them all
            continue
    raise InputError(
        f"{workers} workers cannot be started on this machine. Start fewer, or leave out `workers`."
    )


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
            f"`scheduler` {address} does not answer ({error}). Check the address."
        ) from None
