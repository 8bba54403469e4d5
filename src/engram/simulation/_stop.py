"""Conditions that end a run early."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from engram._checks import InputError, check_scalar
from engram._types import Array, PyTree
from engram.system import AbstractSystem

_ALLOWED = {
    "loss": lambda system, state: system.loss(state),
    "error": lambda system, state: system.shown(system.look(state), "error"),
    "grad_norm": lambda system, state: system.grad_norm(state),
}


class Below(eqx.Module):
    """True once a number has fallen to `bound` or below."""

    name: str = eqx.field(static=True)
    bound: Array
    system: AbstractSystem

    def __call__(self, state: PyTree) -> Array:
        return _ALLOWED[self.name](self.system, state) <= self.bound


def named_stop(stop: Any) -> Any:
    """A condition as a spec has it: a number is a bound on the loss."""
    is_number = isinstance(stop, int | float | np.number) and not isinstance(stop, bool)
    return {"loss": float(stop)} if is_number else stop


def make_stop(stop: Any, system: AbstractSystem) -> Below | None:
    """Read "perfect", {"loss": bound}, a bound on the loss alone, or nothing."""
    if stop is None:
        return None
    bounds = {"error": 0.0} if stop == "perfect" else named_stop(stop)
    if isinstance(bounds, Mapping) and len(bounds) == 1:
        ((name, bound),) = bounds.items()
        if name in _ALLOWED:
            return Below(name, np.asarray(check_scalar(f"stop[{name!r}]", bound)), system)
    raise InputError(
        f"`stop` must be 'perfect', a loss, or a bound on one of {', '.join(_ALLOWED)}, got {stop!r}. "
        "Write for example stop={'loss': 1e-3}."
    )
