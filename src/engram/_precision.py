"""The library's own settings of JAX, in scope: no global switch is set, and no user's switch matters.

JAX computes in float32 unless `jax_enable_x64` is set, and demotes float64 input without a word. Here the
inputs decide: a function marked `in_input_precision` runs in a scoped, thread-local context, with x64 on if
one of its inputs is float64 and off if none is. Outside of tracing its results are NumPy values: a float64
JAX array would be demoted by the next operation where x64 is off, and one type in all settings is one
behaviour.
"""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, is_traced

GENERATOR = "threefry2x32"  # of random numbers, so that no setting of JAX changes a result
P = ParamSpec("P")  # so that editors show what was decorated, with its docstring
R = TypeVar("R")


def _has_double(*trees: Any) -> bool:
    doubles = (np.float64, np.complex128)
    return any(getattr(leaf, "dtype", None) in doubles for leaf in jax.tree.leaves(trees))


def to_plain(tree: Any) -> Any:
    """Turn JAX arrays into NumPy arrays, scalars into NumPy scalars; leave tracers and keys alone."""

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


def is_usual() -> bool:
    """Whether JAX promotes types, and moves arrays to a device, as it does by default."""
    config: Any = jax.config
    is_free = config.jax_transfer_guard_host_to_device in (None, "allow", "log")
    return is_free and config.jax_numpy_dtype_promotion == "standard"


@contextlib.contextmanager
def _own_settings(*, double: bool) -> Iterator[None]:
    """A precision, the usual promotion of types, and arrays that move to a device without being asked to."""
    with (
        jax.enable_x64(double),
        jax.numpy_dtype_promotion("standard"),
        jax.transfer_guard("allow"),
    ):
        yield


def in_input_precision(fn: Callable[P, R]) -> Callable[P, R]:
    """Compute in the widest dtype among the inputs: float64 in, float64 out, always.

    Outside of tracing the results are NumPy values, whatever the caller has switched on. Under jit, vmap or
    grad this is `fn` itself, which must then be traced in the precision of its inputs.
    """

    @functools.wraps(fn)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        check_backend()
        double = _has_double(args, kwargs)
        if is_traced(args, kwargs):
            if double:
                _check_traced_in_double(fn)
            return fn(*args, **kwargs)
        if double == is_x64() and is_usual():
            return to_plain(fn(*args, **kwargs))
        with _own_settings(double=double):
            return to_plain(fn(*args, **kwargs))

    return wrapped


def traceable(fn: Callable[P, R]) -> Callable[P, R]:
    """Compute in double if an input is: for what JAX programs are made of, systems and `dynamics.run`.

    Results are what `fn` returns, JAX arrays; only where the caller has x64 off, and they are float64, NumPy.
    """

    @functools.wraps(fn)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        check_backend()
        if is_x64() or not _has_double(args, kwargs):
            with jax.numpy_dtype_promotion("standard"):
                return fn(*args, **kwargs)
        if is_traced(args, kwargs):
            _check_traced_in_double(fn)
        with _own_settings(double=True):
            return to_plain(fn(*args, **kwargs))

    return wrapped


def _check_traced_in_double(fn: Callable[..., Any]) -> None:
    """Mixing precisions within one trace fails deep inside JAX, or demotes: say so first."""
    if not is_x64():
        raise InputError(
            f"`{fn.__name__}` computes in float64, but the surrounding jit, grad or vmap was begun in "
            "float32. Wrap the outer call in `with jax.enable_x64(True):`, or ask for single "
            "precision with `problem.astype('float32')`."
        )


def make_key(seed: Any) -> PRNGKeyArray:
    """The key of a seed, of one generator and without an offset, whatever the user's settings of JAX say."""
    offset = jax.config.jax_random_seed_offset  # pyright: ignore[reportAttributeAccessIssue]
    return jax.random.key(seed - offset if offset else seed, impl=GENERATOR)


@functools.cache
def check_backend() -> None:
    """Refuse a `JAX_PLATFORMS` that this machine has not, where JAX itself only fails an assertion.

    And XLA's fast arithmetic, which rounds differently and takes NaN, our "never reached", for a number.
    """
    if "xla_cpu_enable_fast_math" in (flags := os.environ.get("XLA_FLAGS", "")) and not re.search(
        r"xla_cpu_enable_fast_math=(false|0)", flags
    ):
        raise InputError(
            "`XLA_FLAGS` has --xla_cpu_enable_fast_math, with which numbers are wrong and NaN is lost. Take "
            "it out."
        )
    try:
        jax.default_backend()
    except (AssertionError, RuntimeError):
        wanted = jax.config.jax_platforms  # pyright: ignore[reportAttributeAccessIssue]
        raise InputError(
            f"`JAX_PLATFORMS` = {wanted!r} names no platform that JAX finds here. Unset it, or "
            "install a JAX that supports it."
        ) from None


@contextlib.contextmanager
def nan_is_a_result() -> Iterator[None]:
    """Switch the user's `jax_debug_nans` and `jax_debug_infs` off: NaN is how we say "never reached"."""
    with jax.debug_nans(False), jax.debug_infs(False):
        yield


def in_double(fn: Callable[P, R]) -> Callable[P, R]:
    """Run a verb that returns results in double precision, whatever its inputs and the caller's settings."""

    @functools.wraps(fn)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_traced(args, kwargs):
            _check_traced_in_double(fn)
            return fn(*args, **kwargs)
        check_backend()
        with _own_settings(double=True), jax.threefry_partitionable(True), nan_is_a_result():
            return to_plain(fn(*args, **kwargs))

    return wrapped


def compiled(*static: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile `fn` once per shape, computing in the widest float dtype among its positional arguments.

    Keywords named in `static` select what is compiled; all other arguments are arrays or pytrees of
    arrays, and reach `fn` as JAX arrays of one float dtype.
    """

    def decorate(fn: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(fn)
        def cast_and_call(*args: P.args, **options: P.kwargs) -> R:
            is_float = lambda leaf: jnp.issubdtype(leaf.dtype, jnp.floating)
            dtypes = [leaf.dtype for leaf in jax.tree.leaves(args) if is_float(leaf)]
            dtype = functools.reduce(jnp.promote_types, dtypes)
            cast = lambda leaf: jnp.asarray(leaf, dtype if is_float(leaf) else None)
            return fn(*jax.tree.map(cast, args), **options)

        return in_input_precision(jax.jit(cast_and_call, static_argnames=static))

    return decorate
