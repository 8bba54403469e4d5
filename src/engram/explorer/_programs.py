"""Which programs are compiled: what is new takes seconds, and what is many takes memory."""

import gc
import threading
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax

from engram.explorer import _state as S
from engram.registry import entry_of, fields_of
from engram.simulation import segment_size

_MOST = 100  # programs kept, at some 25 MB each
_lock = threading.Lock()
_known: set[Any] = set()


def programs_of(state: S.State) -> list[Any]:
    """A name for the program of each run: two runs with one name share it."""
    records = state.steps + 1 if state.steps <= S.DENSE_STEPS else S.FEW_STEPS
    shared = (
        _problem(state.problem),
        _form("system", state.system),
        *(_form("observable", item) for item in state.record),
        *(_form("event", item) for item in state.events),
        segment_size(1, records),
    )
    return [
        (
            shared,
            _form("dynamics", run.table),
            state.steps if run.changes or entry_of("dynamics", run.kind).origin else None,
        )
        for run in state.runs
    ]


def _problem(part: Any) -> Any:
    """What decides the shapes of a problem."""
    if part.kind == "family":
        return _form("problem", part.table)
    return part.kind, len(part.tokens) if part.kind == "table" else part.name


def _form(kind: str, table: Mapping[str, Any]) -> tuple[Any, ...]:
    """A table without the numbers that may vary within one program."""
    fields = fields_of(kind, table)
    free = {name for name in fields if not fields[name].is_static}
    size = lambda value: (len(value), *size(value[0])) if isinstance(value, list) and value else ()
    return tuple(
        (name, size(value) if name in free or isinstance(value, list) else repr(value))
        for name, value in sorted(table.items())
    )


def is_known(programs: list[Any]) -> bool:
    """Whether all of them have been compiled."""
    with _lock:
        return _known.issuperset(programs)


def note(program: Any) -> None:
    """A program has been compiled. When there are too many, all are forgotten, and made again as needed."""
    with _lock:
        if program not in _known and len(_known) >= _MOST:
            _known.clear()
            jax.clear_caches()
            eqx.clear_caches()
            gc.collect()
        _known.add(program)
