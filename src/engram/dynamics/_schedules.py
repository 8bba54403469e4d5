"""Schedules: learning rates as functions of the step, by name; any other function will do as well."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np

from engram._checks import InputError, check_count, check_scalar
from engram._types import Array, Scalar

Schedule = Callable[[Array | int], Array]


def warmup(peak: Scalar, steps: int) -> Schedule:
    r"""From $\eta / T$ up to $\eta$ in $T$ equal steps, then constant.

    Args:
        peak: $\eta$.
        steps: $T$.
    """
    steps = check_count("steps", steps)
    return lambda t: peak * jnp.minimum(1.0, (t + 1) / steps)


def cosine(peak: Scalar, steps: int, end: Scalar = 0.0) -> Schedule:
    r"""From $\eta$ down to $\eta_T$ along half a cosine, then constant.

    Args:
        peak: $\eta$.
        steps: $T$, how many steps it takes.
        end: $\eta_T$.
    """
    steps = check_count("steps", steps)
    return lambda t: end + (peak - end) * (1 + jnp.cos(jnp.pi * jnp.minimum(t / steps, 1.0))) / 2


def piecewise(rates: Sequence[float], changes: Sequence[int]) -> Schedule:
    """Constant rates that change at given steps.

    Args:
        rates: One more than there are changes.
        changes: The first step of each rate but the first, increasing.
    """
    values = np.asarray([check_scalar("rates", rate) for rate in rates])
    at = np.asarray([check_count("changes", step, least=0) for step in changes], int)
    if len(values) != len(at) + 1 or (np.diff(at) <= 0).any():
        raise InputError(
            f"`changes` must increase, one fewer than `rates`, got {list(changes)} for {list(rates)}."
        )
    return lambda t: jnp.asarray(values)[jnp.searchsorted(jnp.asarray(at), t, side="right")]
