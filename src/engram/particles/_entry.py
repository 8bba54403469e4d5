"""How every public function of `particles` begins: its arrays are read."""

import functools
from typing import Any

from engram._checks import read_shaped
from engram.problem import Problem, check_problem, function_of


def read_particles(problem: Problem, name: str, w: Any) -> Any:
    """Read an N x M array of particles, whatever kind of array was given."""
    check_problem(problem)
    hint = "Scores of weights come from `particles.weights_to_scores(problem, W)`."
    return read_shaped(name, w, (problem.num_tokens, problem.num_classes), "(N, M)", hint)


def read_weights(problem: Problem, name: str, W: Any) -> Any:
    """Read a k x d matrix."""
    check_problem(problem)
    shape = (problem.output_dim, problem.dim)
    return read_shaped(name, W, shape, "(k, d)", "It acts on columns: W e_x.")


def read_brownian(problem: Problem, brownian: Any) -> Any:
    """Read one increment per sample."""
    axes = "(N, M)" if problem.is_noisy else "(N,)"
    hint = "Give one increment per sample."
    return read_shaped("brownian", brownian, problem.law.shape, axes, hint)


entry = functools.partial(function_of, read_particles)
