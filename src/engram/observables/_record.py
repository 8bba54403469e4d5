"""What is recorded at a step: observables by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
from jaxtyping import PRNGKeyArray

from engram._checks import InputError
from engram._types import Array, PyTree
from engram.dynamics import AbstractDynamics, Moment, moment_of
from engram.observables._names import AbstractObservable, make_observable
from engram.registry import check_table
from engram.system import AbstractSystem


class Record(eqx.Module):
    """Named observables of a run: `record(system, dynamics, carry)`; the key is the run's."""

    names: tuple[str, ...] = eqx.field(static=True)
    observables: tuple[AbstractObservable, ...]
    key: Any = None

    def __call__(
        self, system: AbstractSystem, dynamics: AbstractDynamics, carry: PyTree
    ) -> dict[str, Array]:
        return self.at(moment_of(system, dynamics, carry, self.key))

    def at(self, moment: Moment) -> dict[str, Array]:
        """The observables at a moment."""
        pairs = zip(self.names, self.observables, strict=True)
        return {name: observable(moment) for name, observable in pairs}


def make_record(
    names: str | Sequence[Any],
    system: AbstractSystem,
    dynamics: AbstractDynamics,
    key: PRNGKeyArray | None = None,
) -> Record:
    """Find what is named, and prepare what it needs: names, or tables with a name (`kind`) and fields."""
    items = (names,) if isinstance(names, str) else names
    named: dict[str, Any] = {}
    for item in items:
        name: Any = item.get("kind") if isinstance(item, Mapping) else item
        if named.setdefault(name, item) != item:
            raise InputError(f"`record` has {name!r} twice, with other fields. Record one of them.")
    try:
        for item in named.values():
            check_table("observable", item)
        observables = [make_observable(item) for item in named.values()]
    except InputError as error:
        raise InputError(f"`record`: {error}") from None
    return Record(tuple(named), tuple(each.prepare(system, dynamics) for each in observables), key)
