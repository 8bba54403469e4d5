"""Events of a series of records: for flows, which have no steps, and for logs."""

from typing import Any

import jax
import jax.numpy as jnp

from engram._precision import in_input_precision, nan_is_a_result
from engram._programs import host_program
from engram._types import Array, PyTree
from engram.dynamics import AbstractDynamics, AbstractFold, Carry, Moment, filed, with_capacity
from engram.system import AbstractSystem, Look


class Shown(AbstractSystem):
    """A system whose states are looks."""

    law: Any = ()

    def look(self, state: Look, law: Array | None = None) -> Look:
        return state

    def grad(self, state: PyTree, law: Array | None = None, look: Look | None = None) -> PyTree:
        self._does_not_know("grad")


@in_input_precision
@nan_is_a_result()
@host_program
def events_of_series(
    events: AbstractFold,
    series: PyTree,
    system: AbstractSystem | None = None,
    dynamics: AbstractDynamics | None = None,
) -> PyTree:
    """What a fold makes of a series, counted in records.

    Args:
        events: The fold.
        series: Looks, with a leading axis; or states of a system.
        system: Whose states they are.
        dynamics: How it moves.
    """
    system = Shown() if system is None else system
    row = lambda k: jax.tree.map(lambda x: jnp.asarray(x)[k], series)
    T = len(jax.tree.leaves(series)[0])
    first = with_capacity(events.init(system, row(0)), T)  # so that nothing is lost

    def take(folded: PyTree, k: Array) -> tuple[Any, None]:
        zero = jnp.zeros((), int)
        state = row(k)
        moment = Moment(system, dynamics, Carry(k, state, None, zero), system.look(state))
        return filed(events.update(folded, k, moment)), None

    return jax.lax.scan(take, first, jnp.arange(T))[0]
