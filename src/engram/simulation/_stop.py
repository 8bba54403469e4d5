"""Conditions that end a run early."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from engram._checks import InputError, check_scalar
from engram._types import Array

_ALLOWED = {
    "loss": lambda system, state: system.loss(state),
    "error": lambda system, state: system.shown(system.look(state), "error"),
    "grad_norm": lambda system, state: system.grad_norm(state),
}


class Below(eqx.Module):
    """True once a number has fallen to `bound` or below."""

    name: str = eqx.field(static=True)
    bound: Any
    system: Any

    def __call__(self, state: Any) -> Array:
        return _ALLOWED[self.name](self.system, state) <= self.bound


def make_stop(stop: Any, system: Any) -> Below | None:
    """Read "perfect", {"loss": bound}, or nothing."""
    if stop is None:
        return None
    if stop == "perfect":
        return Below("error", np.asarray(0.0), system)
    if isinstance(stop, Mapping) and len(stop) == 1:
        ((name, bound),) = stop.items()
        if name in _ALLOWED:
            return Below(name, np.asarray(check_scalar(f"stop[{name!r}]", bound)), system)
    raise InputError(
        f"`stop` must be 'perfect' or a bound on one of {', '.join(_ALLOWED)}, got {stop!r}. "
        "Write for example stop={'loss': 1e-3}."
    )
