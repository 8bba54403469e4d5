"""A bound asked outside its hypotheses is an error that says which hypothesis fails."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from engram._checks import InputError, check_finite, is_traced, read_array
from engram._precision import is_x64
from engram.problem import Problem


class HypothesisError(InputError):
    """A statement was asked where it is not known to hold, or is known to be false."""


def read(**values: Any) -> tuple[Any, ...]:
    """Read numbers, lists and arrays as finite float64 arrays, after the library to compute with.

    That is NumPy, with no compilation; under jit, vmap or grad it is JAX, in double precision.
    """
    if is_traced(values):
        if not is_x64():
            raise InputError(
                "Formulas compute in float64, but the surrounding jit, grad or vmap was begun in float32. "
                "Wrap the outer call in `with jax.enable_x64(True):`."
            )
        return jnp, *(jnp.asarray(value, float) for value in values.values())
    arrays = []
    for name, value in values.items():
        array = read_array(name, value)
        if array.dtype.kind not in "fiu":
            raise InputError(f"`{name}` must be real, got dtype {array.dtype}. Pass numbers.")
        array = array.astype(np.float64)
        check_finite(name, array)
        arrays.append(array)
    return np, *arrays


# What a name may be, wherever it is asked for.
_AT_LEAST_ZERO = ("times", "time", "steps", "rate", "rates", "learning_rate")


def given(**values: Any) -> tuple[Any, ...]:
    """Read as `read` does, for formulas whose arguments share one shape; times and rates are not negative."""
    xp, *arrays = read(**values)
    try:
        np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = ", ".join(
            f"`{name}` {array.shape}" for name, array in zip(values, arrays, strict=True)
        )
        raise InputError(
            f"The arguments must broadcast together, got {shapes}. Add axes."
        ) from None
    for name, array in zip(values, arrays, strict=True):
        if name in _AT_LEAST_ZERO:
            require(array >= 0, f"{name} >= 0", array)
    return xp, *arrays


def require(holds: Any, hypothesis: str, value: Any, remedy: str = "") -> None:
    """Check a hypothesis on concrete values; `value` is what was met."""
    if is_traced(holds, value):
        return
    holds, value = np.broadcast_arrays(np.asarray(holds), np.asarray(value))
    if not holds.all():
        met = value[~holds].flat[0]
        raise HypothesisError(
            f"The hypothesis {hypothesis} fails: got {met:.6g}. {remedy}".rstrip()
        )


def require_pair(correlation: Any, p1: Any, contrast: Any) -> None:
    """Two unit tokens, the first at least as frequent, and two distinct outputs."""
    require(abs(correlation) <= 1, "-1 <= correlation <= 1", correlation)
    require((p1 >= 0.5) & (p1 < 1), "1/2 <= p1 < 1", p1, "Number the likelier token first.")
    require(contrast > 0, "contrast > 0", contrast, "It is |u_1 - u_2|^2.")


def require_orthogonal(name: str, rows: Any, *, unit: bool = False) -> None:
    """Orthogonal rows, of unit length if asked."""
    if is_traced(rows):
        return
    gram = np.asarray(rows) @ np.asarray(rows).T
    length = np.sqrt(np.diag(gram))
    room = np.outer(length, length)
    cosine = np.divide(gram, room, out=np.zeros_like(gram), where=room > 0)
    off = np.abs(cosine - np.diag(np.diag(cosine))).max()
    require(off <= 1e-9, f"`{name}` are orthogonal", off, "That is the largest cosine.")
    if unit:
        worst = length[np.argmax(np.abs(length - 1))]
        require(abs(worst - 1) <= 1e-9, f"`{name}` have unit length", worst)


def require_certain(problem: Problem, *, classes: int | None = None) -> None:
    """Targets that are functions of the token, and a given number of classes if asked."""
    require(not problem.is_noisy, "targets are certain", float(problem.is_noisy))
    if classes is not None:
        require(problem.num_classes == classes, f"M = {classes}", problem.num_classes)
