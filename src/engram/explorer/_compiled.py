"""Which programs are compiled: what is new takes seconds, and what is many takes memory."""

import gc
import threading
from typing import Any

import equinox as eqx
import jax

_MOST = 100  # programs kept, at some 25 MB each
_lock = threading.Lock()
_compiled: set[Any] = set()


def program_of(*what: Any) -> Any:
    """A name for the program that runs this: what differs only in its real numbers shares it."""
    leaves, structure = jax.tree.flatten(what)
    return structure, tuple(map(_form, leaves))


def _form(leaf: Any) -> Any:
    if eqx.is_array(leaf):
        return leaf.shape, leaf.dtype
    return float if isinstance(leaf, float) else leaf


def is_compiled(program: Any) -> bool:
    with _lock:
        return program in _compiled


def note_compiled(program: Any) -> None:
    """Remember a program. When there are too many, all are dropped, and compiled again as needed."""
    with _lock:
        if program not in _compiled and len(_compiled) >= _MOST:
            _compiled.clear()
            jax.clear_caches()
            eqx.clear_caches()
            gc.collect()
        _compiled.add(program)
