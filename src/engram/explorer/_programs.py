"""Which programs are compiled: what is new takes seconds, and what is many takes memory."""

import gc
import threading
from typing import Any

import equinox as eqx
import jax

from engram.explorer import _state as S
from engram.simulation import segment_size

_MOST = 100  # programs kept, at some 25 MB each
_lock = threading.Lock()
_known: set[Any] = set()


def programs_of(state: S.State, sizes: tuple[int, int, int, int]) -> list[Any]:
    """A name for the program of each run: two runs with one name share it."""
    records = state.steps + 1 if state.steps <= S.DENSE_STEPS else S.FEW_STEPS
    N, M, d, k = sizes
    segment = segment_size(N * M + k * d, records)
    return [
        (
            sizes,
            run.method,
            run.batch if run.method == "sgd" else None,
            state.steps if run.changes else None,
            None if run.method == "flow" else segment,
        )
        for run in state.runs
    ]


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
