"""Which programs are compiled: a new one takes seconds, and many of them take memory."""

import contextlib
import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from engram.explorer._jobs import Job

_MOST_BYTES = 2**30  # that programs may add to the process before all are dropped
_GUESS = 25 * 2**20  # bytes of a program, where the system does not say how large the process is
_lock = threading.Lock()
_compiled: set[Any] = set()
_bytes_without: int | None = None  # of the process, when there were no programs


def program_of(*what: Any) -> Any:
    """A name for the program that runs this: what differs only in its real numbers shares it."""
    leaves, structure = jax.tree.flatten(what)
    return structure, tuple(map(_form, leaves))


def _form(leaf: Any) -> Any:
    if eqx.is_array(leaf):
        return leaf.shape, leaf.dtype
    return float if isinstance(leaf, float) else leaf


@contextlib.contextmanager
def compiling(job: Job, *what: Any) -> Iterator[bool]:
    """Around work that may need a program of its own: only some threads may make one. Says if it is new.

    What it takes to compile is not counted.
    """
    program = program_of(*what)
    with _lock:
        is_new = program not in _compiled
    if is_new:
        job.will_compile()
    yield is_new
    if is_new:
        job.begin()
        _note(program)


def _note(program: Any) -> None:
    """Remember a program. When all of them take too much memory, all are dropped, and compiled as needed."""
    global _bytes_without
    with _lock:
        if program in _compiled:
            return
        _compiled.add(program)
        _return_memory()
        if _bytes_without is None:
            _bytes_without = _resident()
        if _resident() - _bytes_without > _MOST_BYTES:
            _compiled.clear()
            jax.clear_caches()
            eqx.clear_caches()
            gc.collect()
            _return_memory()
            _bytes_without = _resident()


def _resident() -> int:
    """Bytes of memory that the process has."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return len(_compiled) * _GUESS


def _return_memory() -> None:
    """Give back what compiling has used: the C library of Linux keeps it otherwise, some 30 MB each time."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
