"""How every public function of `particles` begins: check the scores, then call what was compiled."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from engram._checks import InputError, read_array
from engram._precision import compiled
from engram.problem import Problem


def entry(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate `fn(problem, w, ...)` whose array arguments are particles, one per pair."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        call = compiled(*static)(fn)

        @functools.wraps(fn)
        def wrapped(problem: Problem, w: Any, *more: Any, **options: Any) -> Any:
            particles = [read_particles(problem, value) for value in (w, *more)]
            return call(problem, *particles, **options)

        return wrapped

    return decorate


def read_particles(problem: Problem, w: Any) -> Any:
    """Read an N x M array of particles, whatever kind of array was given."""
    expected = (problem.num_inputs, problem.num_outputs)
    if not isinstance(w, jax.Array):
        w = np.asarray(read_array("w", w), dtype=None)
        w = w.astype(np.float64) if w.dtype.kind in "iu" else w
        if w.dtype.kind != "f" or not np.isfinite(w).all():
            raise InputError(
                f"`w` must hold finite real numbers, got dtype {w.dtype}. Check the scores."
            )
    if w.shape != expected:
        raise InputError(
            f"`w` must have one score per pair of tokens, shape (N, M) = {expected}, got {w.shape}. "
            "Scores of weights come from `particles.weights_to_scores(problem, W)`."
        )
    return w
