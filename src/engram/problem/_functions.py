"""How public functions of a problem and arrays begin: check, read, call what was compiled."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax

from engram._checks import InputError, check_count
from engram._precision import compiled
from engram.problem._problem import Problem

P = ParamSpec("P")  # so that editors show what was decorated, with its docstring
R = TypeVar("R")


def function_of(
    read: Callable[[Problem, str, Any], Any], *static: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate `fn(problem, array, ...)`; keywords named in `static` select what is compiled.

    A stack of matrices is mapped over: its results are stacked alike.

    Args:
        read: From the problem, the name of an argument and what was given to an array.
        static: Names of keywords.
    """

    def decorate(fn: Callable[P, R]) -> Callable[P, R]:
        call: Callable[..., R] = compiled(*static)(fn)
        map_over = compiled(*static)(_mapped(fn))
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def wrapped(*args: P.args, **options: P.kwargs) -> R:
            given = signature.bind(*args, **options).arguments
            problem = check_problem(given.pop("problem"))
            chosen = {name: given.pop(name) for name in static if name in given}
            if chosen.get("block_size") is not None:
                chosen["block_size"] = check_count("block_size", chosen["block_size"])
            arrays = [read(problem, *item) for item in given.items()]
            is_stack = any(array.ndim == 3 for array in arrays)
            return (map_over if is_stack else call)(problem, *arrays, **chosen)

        return wrapped

    return decorate


def _mapped(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def over(problem: Any, *matrices: Any, **chosen: Any) -> Any:
        axes = tuple(0 if matrix.ndim == 3 else None for matrix in matrices)
        return jax.vmap(lambda *each: fn(problem, *each, **chosen), in_axes=axes)(*matrices)

    return over


def check_problem(problem: Any) -> Problem:
    """Refuse anything but a problem."""
    if not isinstance(problem, Problem):
        raise InputError(
            f"`problem` must be a Problem, got {type(problem).__name__}. It comes first."
        )
    return problem
