"""How every public function of `particles` begins: check its arrays, then call what was compiled."""

import functools
from collections.abc import Callable
from typing import Any

from engram._checks import InputError, read_shaped
from engram._precision import compiled
from engram.problem import Problem


def entry(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate `fn(problem, w, ...)` whose array arguments are particles, one per pair."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        call = compiled(*static)(fn)

        @functools.wraps(fn)
        def wrapped(problem: Any, w: Any, *more: Any, **options: Any) -> Any:
            particles = [read_particles(problem, value) for value in (w, *more)]
            return call(problem, *particles, **options)

        return wrapped

    return decorate


def read_particles(problem: Any, w: Any, name: str = "w") -> Any:
    """Read an N x M array of particles, whatever kind of array was given."""
    _check_problem(problem)
    hint = "Scores of weights come from `particles.weights_to_scores(problem, W)`."
    return read_shaped(name, w, (problem.num_tokens, problem.num_classes), "(N, M)", hint)


def read_weights(problem: Any, W: Any, name: str = "W") -> Any:
    """Read a k x d matrix."""
    _check_problem(problem)
    shape = (problem.output_dim, problem.dim)
    return read_shaped(name, W, shape, "(k, d)", "It acts on columns: W e_x.")


def read_brownian(problem: Any, brownian: Any) -> Any:
    """Read one increment per sample."""
    _check_problem(problem)
    axes = "(N, M)" if problem.is_noisy else "(N,)"
    return read_shaped(
        "brownian", brownian, problem.law.shape, axes, "Give one increment per sample."
    )


def _check_problem(problem: Any) -> None:
    if not isinstance(problem, Problem):
        raise InputError(
            f"`problem` must be a Problem, got {type(problem).__name__}. It comes first."
        )
