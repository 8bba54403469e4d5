"""How every public function of `memory` begins: check its matrices, then call what was compiled."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax

from engram._checks import InputError, check_count, read_shaped
from engram._precision import compiled
from engram.problem import Problem


def entry(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate `fn(problem, W, ...)`; keywords named in `static` select what is compiled.

    A stack of matrices, shape (T, k, d), is mapped over: its results are stacked alike.
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        call = compiled(*static)(fn)
        map_over = compiled(*static)(_mapped(fn))
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def wrapped(*args: Any, **options: Any) -> Any:
            given = signature.bind(*args, **options).arguments
            problem = given.pop("problem")
            if not isinstance(problem, Problem):
                raise InputError(
                    f"`problem` must be a Problem, got {type(problem).__name__}. It comes first."
                )
            chosen = {name: given.pop(name) for name in static if name in given}
            if chosen.get("block_size") is not None:
                chosen["block_size"] = check_count("block_size", chosen["block_size"])
            matrices = [read_matrix(problem, *item) for item in given.items()]
            is_stack = any(matrix.ndim == 3 for matrix in matrices)
            return (map_over if is_stack else call)(problem, *matrices, **chosen)

        return wrapped

    return decorate


def _mapped(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def over(problem: Any, *matrices: Any, **chosen: Any) -> Any:
        axes = tuple(0 if matrix.ndim == 3 else None for matrix in matrices)
        return jax.vmap(lambda *each: fn(problem, *each, **chosen), in_axes=axes)(*matrices)

    return over


def read_matrix(problem: Problem, name: str, W: Any) -> Any:
    """Read a k x d matrix, or a stack of them, from whatever array was given."""
    shape = (problem.output_dim, problem.dim)
    return read_shaped(name, W, shape, "(k, d)", "It acts on columns: W e_x.", stacks=True)
