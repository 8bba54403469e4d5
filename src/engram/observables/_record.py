"""What is noted at each recorded step: observables by name."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError
from engram._types import Array
from engram.observables._names import OBSERVABLES, View, check_invariants
from engram.problem import Problem


class Record(eqx.Module):
    """Named observables of a stepwise run: `record(system, dynamics, carry)`."""

    names: tuple[str, ...] = eqx.field(static=True)
    start: Array
    direction: Array | None

    def __call__(self, system: Any, dynamics: Any, carry: Any) -> dict[str, Array]:
        view = View(
            system,
            dynamics.state_of(carry.inner),
            self.start,
            self.direction,
            dynamics.threshold(carry.index),
            dynamics.preconditioner(carry.inner),
        )
        return {name: OBSERVABLES[name].compute(view) for name in self.names}


class FlowRecord(eqx.Module):
    """Named observables of a flow: `record(state)`. A flow has no stability threshold."""

    names: tuple[str, ...] = eqx.field(static=True)
    system: Any
    start: Array
    direction: Array | None

    def __call__(self, state: Any) -> dict[str, Array]:
        nan = jnp.full((), jnp.nan)
        view = View(self.system, state, self.start, self.direction, nan, None)
        return {name: OBSERVABLES[name].compute(view) for name in self.names}


def make_record(names: Sequence[str], problem: Problem, start: Array) -> Record:
    """Check the names and prepare what they need."""
    if isinstance(names, str):
        names = (names,)
    unknown = [name for name in names if name not in OBSERVABLES]
    if unknown:
        raise InputError(
            f"`record` must name observables among {', '.join(OBSERVABLES)}; got {unknown[0]!r}. "
            "Pick from those."
        )
    if "invariants" in names:
        check_invariants(problem)
    direction = None
    if "alignment" in names:
        from engram.capacity import max_margin  # loads SciPy's optimizers, half a second

        direction = np.asarray(max_margin(problem))
    return Record(tuple(dict.fromkeys(names)), start, direction)
