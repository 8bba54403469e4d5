"""How every public function of `memory` begins: its matrices are read."""

import functools
from typing import Any

from engram._checks import read_shaped
from engram.problem import Problem, function_of


def read_matrix(problem: Problem, name: str, W: Any) -> Any:
    """Read a k x d matrix, or a stack of them, from whatever array was given."""
    shape = (problem.output_dim, problem.dim)
    return read_shaped(name, W, shape, "(k, d)", "It acts on columns: W e_x.", stacks=True)


entry = functools.partial(function_of, read_matrix)
