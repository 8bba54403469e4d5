"""What a system can tell: of what is asked, that which can be recorded, and why the rest cannot."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from engram._checks import InputError
from engram._precision import in_double
from engram.dynamics import AbstractStepwise, Carry
from engram.explorer._objects import RECORD, check_state, short
from engram.explorer._state import State
from engram.memory import MemorySystem
from engram.observables import make_record


class Known(NamedTuple):
    """What is recorded, and by name why something is not."""

    record: tuple[Any, ...]
    unknown: dict[str, str]


def known_of(state: State, what: Any, dynamics: Any, start: Any) -> Known:
    """What can be recorded of a run: the page's own traces as far as the system knows them, and more.

    Args:
        state: Of the page.
        what: A problem, or a system.
        dynamics: How it moves.
        start: Where it starts; None for the system's own.
    """
    extra = tuple(map(short, state.record))
    if state.is_plain and not extra:
        return Known(RECORD, {})
    asked = extra if state.is_plain else (*RECORD, *extra)
    system = MemorySystem(what) if state.is_plain else what
    faults = _faults(system, dynamics, start, asked)
    asked = (*RECORD, *extra) if state.is_plain else asked
    known = tuple(item for item in asked if _name(item) not in faults)
    return Known(tuple({_name(item): item for item in known}.values()), faults)


def can_tell(name: str, system: Any, dynamics: Any, start: Any) -> bool:
    """Whether an observable can be recorded."""
    return not _faults(system, dynamics, start, (name,))


def _name(item: Any) -> str:
    return item if isinstance(item, str) else item["kind"]


@in_double
def _faults(system: Any, dynamics: Any, start: Any, asked: Iterable[Any]) -> dict[str, str]:
    """Why something cannot be recorded, by its name: it is traced once, and nothing is computed."""
    state = jax.tree.map(jnp.asarray, system.start() if start is None else start)
    check_state(state)
    faults = {}
    for item in asked:
        try:
            shape = _trace(item, system, dynamics, state)
        except InputError as error:
            faults[_name(item)] = (
                str(error).partition(". ")[0] + "."
            )  # what to do is not the page's
            continue
        if len(shape) > 1 and item not in RECORD:
            faults[_name(item)] = f"`{_name(item)}` has the shape {shape}, which cannot be drawn."
    return faults


def _trace(item: Any, system: Any, dynamics: Any, state: Any) -> tuple[int, ...]:
    """The shape of what an observable has at a step."""
    key = jax.random.key(0) if dynamics.needs_key else None
    record, zero = make_record((item,), system, dynamics, key), jnp.zeros((), int)

    def at(state: Any) -> Any:
        is_stepwise = isinstance(dynamics, AbstractStepwise)
        inner = dynamics.init(system, state) if is_stepwise else state
        return record(system, dynamics, Carry(zero, inner, None, zero))

    return next(iter(jax.eval_shape(at, state).values())).shape
