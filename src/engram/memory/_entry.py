"""How every public function of `memory` begins: check `W`, then call what was compiled."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from engram._checks import InputError, check_finite, read_array
from engram._precision import compiled
from engram.problem import Problem


def entry(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate `fn(problem, W, ...)`; keywords named in `static` select what is compiled."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        call = compiled(*static)(fn)

        @functools.wraps(fn)
        def wrapped(problem: Problem, W: Any, *more: Any, **options: Any) -> Any:
            matrices = [read_matrix(problem, value) for value in (W, *more)]
            return call(problem, *matrices, **options)

        return wrapped

    return decorate


def read_matrix(problem: Problem, W: Any) -> Any:
    """Read a d x d matrix from whatever array was given."""
    d = problem.dim
    if not isinstance(W, jax.Array):
        W = read_array("W", W)
    if W.shape != (d, d):
        raise InputError(
            f"`W` must have shape (d, d) = ({d}, {d}), got {W.shape}. It acts on columns: W e_x."
        )
    if W.dtype.kind in "iu":
        W = W.astype(np.float64)
    if not jax.numpy.issubdtype(W.dtype, np.floating):
        raise InputError(f"`W` must hold real numbers, got dtype {W.dtype}. Convert it first.")
    if isinstance(W, np.ndarray):
        check_finite("W", W)
    return W
