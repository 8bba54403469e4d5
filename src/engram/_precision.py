"""Double precision where it is asked for, without touching JAX's global switch.

JAX computes in float32 unless `jax_enable_x64` is set, and demotes float64 input without a word.
The library never sets that switch; a function marked `in_input_precision` runs inside a scoped,
thread-local x64 context whenever one of its inputs is float64.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError, is_traced

F = TypeVar("F", bound=Callable[..., Any])


def _is_double(leaf: Any) -> bool:
    return getattr(leaf, "dtype", None) in (np.float64, np.complex128)


def to_plain(tree: Any) -> Any:
    """Turn JAX arrays into NumPy arrays, scalars into NumPy scalars; leave tracers alone."""

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, jax.core.Tracer) or not isinstance(leaf, jax.Array):
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        return np.asarray(leaf)[()]

    return jax.tree.map(plain, tree)


def is_x64() -> bool:
    """Whether the caller has switched JAX to double precision, globally or in this scope."""
    return bool(jax.config.read("jax_enable_x64"))


def in_input_precision(fn: F) -> F:
    """Compute in the widest dtype among the inputs: float64 in, float64 out, always.

    With x64 switched on by the caller, or with float32 input only, this is `fn` itself. Otherwise
    `fn` runs in a scoped x64 context, and its float64 results come back as NumPy values: a float64
    JAX array outside that context would be demoted by the very next operation.
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if is_x64() or not any(map(_is_double, jax.tree.leaves((args, kwargs)))):
            return fn(*args, **kwargs)
        _refuse_tracers(fn, args, kwargs)
        with jax.enable_x64(True):
            return to_plain(fn(*args, **kwargs))

    return wrapped  # pyright: ignore[reportReturnType]


def _refuse_tracers(fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Mixing precisions within one trace fails deep inside JAX, or demotes: say so first."""
    if is_traced(args, kwargs):
        raise InputError(
            f"`{fn.__name__}` computes in float64, but the surrounding jit, grad or vmap was begun in "
            "float32. Wrap the outer call in `with jax.enable_x64(True):`, or ask for single "
            "precision with `problem.astype('float32')`."
        )


def in_double(fn: F) -> F:
    """Run a verb that returns results in a scoped x64 context, whatever its inputs."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if is_x64():
            return fn(*args, **kwargs)
        _refuse_tracers(fn, args, kwargs)
        with jax.enable_x64(True):
            return to_plain(fn(*args, **kwargs))

    return wrapped  # pyright: ignore[reportReturnType]


def compiled(*static: str) -> Callable[[F], F]:
    """Compile `fn` once per shape, computing in the widest float dtype among its positional arguments.

    Keywords named in `static` select what is compiled; all other arguments are arrays or pytrees of
    arrays, and reach `fn` as JAX arrays of one float dtype.
    """

    def decorate(fn: F) -> F:
        @functools.wraps(fn)
        def cast_and_call(*args: Any, **options: Any) -> Any:
            is_float = lambda leaf: jnp.issubdtype(leaf.dtype, jnp.floating)
            dtypes = [leaf.dtype for leaf in jax.tree.leaves(args) if is_float(leaf)]
            dtype = functools.reduce(jnp.promote_types, dtypes)
            cast = lambda leaf: jnp.asarray(leaf, dtype if is_float(leaf) else None)
            return fn(*jax.tree.map(cast, args), **options)

        return in_input_precision(jax.jit(cast_and_call, static_argnames=static))  # pyright: ignore

    return decorate
