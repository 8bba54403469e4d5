"""What is noted at each recorded step: observables by name."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx

from engram._checks import InputError
from engram._types import Array
from engram.dynamics import Moment, moment_of
from engram.observables._names import OBSERVABLES, AbstractObservable


class Record(eqx.Module):
    """Named observables of a run: `record(system, dynamics, carry)`; the key is the run's."""

    names: tuple[str, ...] = eqx.field(static=True)
    observables: tuple[AbstractObservable, ...]
    key: Any = None

    def __call__(self, system: Any, dynamics: Any, carry: Any) -> dict[str, Array]:
        return self.at(moment_of(system, dynamics, carry, self.key))

    def at(self, moment: Moment) -> dict[str, Array]:
        """The observables at a moment."""
        pairs = zip(self.names, self.observables, strict=True)
        return {name: observable(moment) for name, observable in pairs}


def make_record(names: Sequence[str], system: Any, dynamics: Any, key: Any = None) -> Record:
    """Check the names and prepare what they need."""
    names = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    unknown = [name for name in names if name not in OBSERVABLES]
    if unknown:
        raise InputError(
            f"`record` must name observables among {', '.join(OBSERVABLES)}; got {unknown[0]!r}. "
            "Pick from those."
        )
    prepared = tuple(OBSERVABLES[name].prepare(system, dynamics) for name in names)
    return Record(names, prepared, key)
