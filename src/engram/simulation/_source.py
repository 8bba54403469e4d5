"""What a result was made of, in words that can be read back: it is enough to run it again."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from engram.problem import Problem, as_key
from engram.registry import origins, table, used_in

FORMAT = 2  # of files; 1 had no `format`, and layer norm among the dynamics


def source_of(
    problem: Any,
    dynamics: Any,
    *,
    system: Any,
    start: Any,
    key: Any,
    at: Any,
    events: Any,
    record: Any,
    **run: Any,
) -> dict[str, Any]:
    """Attributes of a dataset: the spec of the run, the format, and the plugins that it needs.

    The problem itself is stored as arrays, and so are the weights at the start.
    """
    tables: dict[str, Any] = {
        "problem": dict(problem) if isinstance(problem, Mapping) else {"family": "stored"},
        "dynamics": dict(dynamics) if isinstance(dynamics, Mapping) else table(dynamics),
        "run": {name: value for name, value in run.items() if value is not None},
    }
    tables["run"] |= {"record": _items(record), "events": _events(events)}
    if system is not None:
        tables["system"] = {"kind": system} if isinstance(system, str) else dict(system)
    elif not isinstance(problem, Mapping | Problem):
        tables["system"] = table(problem)
    given = {}
    if isinstance(key, int | np.integer):
        tables["run"]["seed"] = int(key)
    elif key is not None:
        given["key"] = np.asarray(jax.random.key_data(as_key(key))).tolist()
    if at is not None:
        given["at"] = np.asarray(at).tolist()
    if start is not None:
        given["start"] = True
    tables |= {"given": given} if given else {}
    known = origins(used_in(tables))
    plugins = {"plugins": json.dumps(known)} if known else {}
    spec = json.dumps(tables, default=lambda array: np.asarray(array).tolist())
    return {"kind": "run", "format": FORMAT, "spec": spec} | plugins


def _items(record: Any) -> list[Any]:
    return [record] if isinstance(record, str) else list(record)


def _events(events: Any) -> list[Any]:
    items = events if isinstance(events, Sequence) and not isinstance(events, str) else [events]
    named = ["events" if item is True else item for item in items if item is not False]
    return [item if isinstance(item, str | Mapping) else table(item) for item in named]
