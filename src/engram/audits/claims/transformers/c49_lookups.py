"""C49: what the memories of the transformer maximise over."""

import functools
from functools import partialmethod

import numpy as np

from engram import memory
from engram.audits._balls import dot, rationals
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, both, true
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.problem import Problem


@functools.lru_cache(maxsize=2)
def _lookups(seed: int) -> np.ndarray:
    """Scores ⟨e_j, W_K^2 φ_k(e_i)⟩ of lookups trained by descent: query j, key i, one matrix per draw."""
    rng, scores = rng_for(seed, "C49"), []
    for _ in range(12):
        queries, keys = rng.normal(size=(2, 5, 4))
        lengths = 3 ** rng.uniform(-1, 1, 5)  # tokens of unlike length
        problem = Problem(queries * lengths[:, None], keys, np.full(5, 0.2), np.arange(5))
        W = np.zeros((4, 4))
        for _ in range(400):
            W = W - memory.grad(problem, W)
        scores.append(problem.inputs @ W.T @ problem.outputs.T)
    return np.array(scores)


class C49(Checks):
    def _over(self, seed: int, axis: int) -> Evidence:
        """Where attention, a softmax over keys, finds every query's own key: does the arg max say so?"""
        scores = _lookups(seed)
        right = (scores.argmax(2) == np.arange(5)).all(1)
        said = (scores.argmax(axis) == np.arange(5)).all(1)
        return both(true(said == right, model=np.arange(len(right))), true(right.sum() >= 3))

    printed = partialmethod(_over, axis=1)
    corrected = partialmethod(_over, axis=2)

    def certificates(self) -> list[Certificate]:
        """Two tokens, W = I: each query finds its own key, and yet key 1 is best matched by query 2."""
        queries, keys = rationals(["1", "0"], ["5", "6"]), rationals(["1", "0"], ["0", "1"])
        scores = [[dot(q, k) for k in keys] for q in queries]
        assert scores[0][0] > scores[0][1] and scores[1][1] > scores[1][0]  # noqa: PT018
        statement = "e = (1,0), (5,6), φ = (1,0), (0,1), W = I: query 1 matches key 1 at least as well as query 2 does"
        return [Certificate(statement, scores[0][0], ">=", scores[1][0])]
