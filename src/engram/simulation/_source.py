"""What a result was made of, in words that can be read back: it is enough to run it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from engram.observables import SPIKE_FACTOR
from engram.problem import Problem, as_key
from engram.registry import origins, table, used_in
from engram.simulation._stop import named_stop
from engram.simulation._when import When

FORMAT = 2  # of files; 1 had no `format`, and layer norm among the dynamics
_PLAIN = ("space", "spike_factor", "devices")  # what a spec has as it is given


@dataclass(frozen=True)
class Request:
    """What `simulate` was asked for, as it was given."""

    problem: Any
    dynamics: Any
    system: Any = None
    start: Any = None
    record: Any = ("loss", "error", "margins")
    space: str = "auto"
    key: Any = None
    when: When = When()
    stop: Any = None
    events: Any = True
    spike_factor: float = SPIKE_FACTOR
    devices: int = 1


def source_of(request: Request) -> dict[str, Any]:
    """Attributes of a dataset: the spec of the run, the format, and the plugins that it needs.

    The problem itself is stored as arrays, and so are the weights at the start.
    """
    problem, dynamics, system, key = request.problem, request.dynamics, request.system, request.key
    when = {"every": request.when.every, "points": request.when.points}
    plain = (
        {name: getattr(request, name) for name in _PLAIN}
        | when
        | {"stop": named_stop(request.stop)}
    )
    tables: dict[str, Any] = {
        "problem": dict(problem) if isinstance(problem, Mapping) else {"family": "stored"},
        "dynamics": dict(dynamics) if isinstance(dynamics, Mapping) else table(dynamics),
        "run": {name: value for name, value in plain.items() if value is not None},
    }
    tables["run"] |= {"record": _items(request.record), "events": _events(request.events)}
    if system is not None:
        tables["system"] = {"kind": system} if isinstance(system, str) else dict(system)
    elif not isinstance(problem, Mapping | Problem):
        tables["system"] = table(problem)
    given = {}
    if isinstance(key, int | np.integer):
        tables["run"]["seed"] = int(key)
    elif key is not None:
        given["key"] = np.asarray(jax.random.key_data(as_key(key))).tolist()
    if request.when.at is not None:
        given["at"] = np.asarray(request.when.at).tolist()
    if request.start is not None:
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
