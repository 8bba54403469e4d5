"""Conditions that end a run early."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError, check_scalar
from engram._types import Array
from engram.observables import OBSERVABLES
from engram.observables._names import View

_ALLOWED = ("loss", "error", "grad_norm")


class Below(eqx.Module):
    """True once an observable has fallen to `bound` or below."""

    name: str = eqx.field(static=True)
    bound: Any
    system: Any

    def __call__(self, state: Any) -> Array:
        nan = jnp.full((), jnp.nan)
        view = View(self.system, state, nan, None, nan, None)
        return OBSERVABLES[self.name].compute(view) <= self.bound


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
