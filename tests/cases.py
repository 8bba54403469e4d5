"""Named problems that every law is tested on; a new row is tested everywhere."""

import numpy as np

import engram


def _noisy() -> engram.Problem:
    base = engram.on_sphere(5, 6, 4, 3)
    table = np.random.default_rng(0).dirichlet(np.ones(4), 6)
    return engram.Problem(base.inputs, base.outputs, base.probs, table)


def _unseen_token() -> engram.Problem:
    base = engram.on_sphere(6, 4, 3, 5)
    return engram.Problem(base.inputs, base.outputs, [0.5, 0.0, 0.25, 0.25], base.targets)


PROBLEMS = {
    "two tokens": engram.two_tokens(0.95, 0.75),
    "opposed tokens": engram.two_tokens(-1.0, 0.6, dim=3),
    "orthonormal": engram.orthonormal(5, 4, exponent=1.0, key=0),
    "sphere, d > N": engram.on_sphere(1, 5, 4, 8),
    "sphere, d < N": engram.on_sphere(2, 9, 5, 3, targets="random"),
    "not separable": engram.on_sphere(2, 9, 2, 3, targets="random"),
    "many inputs, few classes": engram.gaussian(3, 40, 3, 6),
    "few inputs, many classes": engram.gaussian(4, 3, 30, 6),
    "one dimension": engram.gaussian(5, 4, 3, 1),
    "one token": engram.on_sphere(6, 1, 2, 2),
    "noisy targets": _noisy(),
    "a token that never comes": _unseen_token(),
}


def weights(problem: engram.Problem, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal((problem.dim, problem.dim))
