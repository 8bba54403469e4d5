"""Validation that words its own errors: the argument, the value met, and the next move.

Checks of values are skipped for tracers, since sweeps build problems inside `vmap`; checks of shapes
are not.
"""

from typing import Any

import jax
import jax.core
import numpy as np

from engram._errors import InputError as InputError


def is_traced(*values: Any) -> bool:
    """Whether any of the values is known only inside a transformed function."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def read_array(name: str, value: Any) -> Any:
    """Read a list, NumPy, JAX, Keras or PyTorch array as a NumPy array; leave tracers as they are."""
    if is_traced(value):
        return value
    try:
        return _of_torch(value) if hasattr(value, "detach") else np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise InputError(
            f"`{name}` must be an array, got {brief(value)} ({said}). "
            "Pass a rectangular list, or a NumPy, JAX or PyTorch array."
        ) from None


def _of_torch(tensor: Any) -> np.ndarray:
    """A PyTorch tensor, wherever it is and whatever it requires, without importing torch."""
    tensor = tensor.detach().cpu()
    if str(getattr(tensor, "dtype", "")).endswith("bfloat16"):  # which NumPy has not, but JAX does
        return tensor.float().numpy().astype(jax.numpy.bfloat16)
    return tensor.numpy()


def _is_real(dtype: np.dtype) -> bool:
    return dtype.kind in "fiu" or dtype.name == "bfloat16"


def check_floats(name: str, value: Any, *, ndim: int, axes: str) -> Any:
    """Read `value` as finite float64 of the given number of dimensions."""
    array = read_array(name, value)
    if is_traced(array):
        check_ndim(name, array, ndim=ndim, axes=axes)
        return array
    if not _is_real(array.dtype):
        raise InputError(
            f"`{name}` must hold real numbers, got dtype {array.dtype}. "
            f"Convert it first, for example with `np.asarray({name}, dtype=float)`."
        )
    check_ndim(name, array, ndim=ndim, axes=axes)
    array = array.astype(np.float64)
    check_finite(name, array)
    return array


def read_shaped(
    name: str, value: Any, shape: tuple[int, ...], axes: str, hint: str, *, stacks: bool = False
) -> Any:
    """Read real numbers of a shape, or stacks of them; whole numbers become float64, JAX arrays stay."""
    array = value if isinstance(value, jax.Array) else read_array(name, value)
    if array.shape[-len(shape) :] != shape or array.ndim > len(shape) + stacks:
        must = f"{axes} = {shape}" + (f", or (T, {axes[1:]} for a stack" if stacks else "")
        raise InputError(f"`{name}` must have shape {must}, got {array.shape}. {hint}")
    if array.dtype.kind in "iu":
        array = np.asarray(array, dtype=np.float64)
    if not jax.numpy.issubdtype(array.dtype, np.floating):
        raise InputError(f"`{name}` must hold real numbers, got dtype {array.dtype}. Convert it.")
    return array


def check_ndim(name: str, array: Any, *, ndim: int, axes: str) -> None:
    if np.ndim(array) != ndim:
        raise InputError(
            f"`{name}` must have shape {axes}, got shape {np.shape(array)}. "
            f"Reshape it to {ndim} dimension{'s' if ndim > 1 else ''}."
        )
    if 0 in np.shape(array):
        raise InputError(
            f"`{name}` must not be empty, got shape {np.shape(array)}. Give at least one token."
        )


def check_finite(name: str, array: np.ndarray) -> None:
    """Refuse an array with an entry that is not finite, and say where it is."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise InputError(
            f"`{name}` must be finite, got {array[where]} at index {where} "
            f"({len(bad)} such value{'s' if len(bad) > 1 else ''}). Remove or replace them."
        )


def check_distribution(name: str, array: np.ndarray, *, tolerance: float) -> None:
    """Check non-negative numbers that sum to 1 along the last axis; zeros are allowed."""
    if (array < 0).any():
        where = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise InputError(
            f"`{name}` must not be negative, got {array[where]:.6g} at index {where}. "
            "Probabilities lie in [0, 1]; zero is allowed."
        )
    totals = array.sum(axis=-1)
    off = np.abs(totals - 1) > tolerance
    if off.any():
        if array.ndim == 1:
            raise InputError(
                f"`{name}` must sum to 1, got {float(totals):.9g}. "
                f"Normalise in float64 with `{name} / {name}.sum()`."
            )
        row = int(np.argmax(off))
        raise InputError(
            f"`{name}` must sum to 1 in each row, got {float(totals[row]):.9g} in row {row}. "
            f"Normalise with `{name} / {name}.sum(axis=1, keepdims=True)`."
        )


def check_interval(name: str, value: Any, low: float, high: float, remedy: str) -> None:
    """Check a scalar in the closed interval [low, high]."""
    if is_traced(value):
        return
    number = check_scalar(name, value)
    if not low <= number <= high:
        raise InputError(f"`{name}` must lie in [{low:g}, {high:g}], got {number:g}. {remedy}")


def check_not_negative(name: str, value: Any, whose: str = "") -> None:
    """Check a number that is zero or more."""
    if not is_traced(value) and not check_scalar(name, value) >= 0:
        raise InputError(f"`{name}`{whose} must not be negative, got {value}. Use 0 or more.")


def check_positive(name: str, value: Any) -> None:
    """Check a number above zero."""
    if not is_traced(value) and not check_scalar(name, value) > 0:
        raise InputError(f"`{name}` must be above zero, got {value}. Choose a larger one.")


def check_scalar(name: str, value: Any) -> float:
    array = read_array(name, value)
    if array.ndim or not _is_real(array.dtype):
        raise InputError(f"`{name}` must be a number, got {brief(value)}. Pass one real number.")
    return float(array)


def check_count(name: str, value: Any, *, least: int = 1) -> int:
    """Check a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"`{name}` must be a whole number, got {brief(value)}. Pass an int.")
    if value < least:
        raise InputError(f"`{name}` must be at least {least}, got {value}. Choose a larger one.")
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        options = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"`{name}` must be one of {options}, got {brief(value)}. Pick one.")


def brief(value: Any) -> str:
    """A value as Python writes it, in at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
