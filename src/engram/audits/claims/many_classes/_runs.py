"""Flows of one token and many classes that several checks share."""

import numpy as np

from engram.problem import Problem

CLASSES = (2, 3, 10, 100)
SOLVER = 1e-8  # a solver at rtol 1e-11 over twelve decades; e^-w amplifies its error
TIMES = np.concatenate([[0.0], np.geomspace(1e-2, 1e12, 29)])


def family(rng: np.random.Generator, norms: np.ndarray, rate: float) -> Problem:
    """One token with orthogonal outputs of given norms, the target first."""
    M = len(norms)
    Q, R = (np.linalg.qr(rng.normal(size=(M + 1, M + 1)))[0] for _ in range(2))
    return Problem(np.sqrt(rate) * Q[:1], norms[:, None] * R[:M], [1.0], [0])
