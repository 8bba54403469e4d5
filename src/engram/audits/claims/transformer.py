"""C49 to C51: the transformer's memories, and collected slips."""

import functools
from collections.abc import Iterator
from functools import partialmethod

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import dot, rationals
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, at_most, between, both, equal, true
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.problem import Problem
from engram.theory import binary, multiclass


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


class C50(Checks):
    pass


class C51(Checks):
    def _which_scores_move(self, seed: int, first: int) -> Evidence:
        """A push on w_01 alone, along u_1 ⊗ e_0: w_02 moves with it exactly if u_first and u_2 correlate."""
        rng, same = rng_for(seed, "C51"), []
        for _ in range(20):
            U = rng.normal(size=(4, 5))
            U[2] -= U[1] * (U[1] @ U[2]) / (U[1] @ U[1])  # u_2 ⊥ u_1, and neither to u_0
            e = rng.normal(size=5)
            moved = U[2] @ np.outer(U[1], e) @ e
            same.append((abs(moved) > 1e-9) == (abs(U[first] @ U[2]) > 1e-9))
        return true(np.array(same))

    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        yield self._which_scores_move(seed, 0)
        yield at_most(np.exp(np.e / 2), 1.0)  # the ends of the interval [e^(e/2), 1]
        w = rng_for(seed, "C51 sums").normal(size=6)
        sums = multiclass.flow_scores_from(np.array([1e6]), 1.0, w).sum(1)
        yield equal(sums, 0.0, tolerance=1e-3)  # o(1)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._which_scores_move(seed, 1)
        s = 1 + np.geomspace(1e-3, 1e6, 200)
        yield between(np.exp(-2 / np.e), np.exp(-binary.flow_correction(s)), 1.0, s=s)
        w, times = rng_for(seed, "C51 sums").normal(size=6), np.geomspace(1.0, 1e6, 8)
        sums = multiclass.flow_scores_from(times, 1.0, w).sum(1)
        yield equal(sums, w.sum(), tolerance=1e-9, time=times)
        wrong = w[1:]
        equal_ones = np.sum(wrong == wrong.max())
        theta = np.exp(wrong - wrong.max()).sum() - equal_ones
        yield at_most(theta, len(w) - 1 - equal_ones)
        # e^asinh(a) = a + √(a² + 1): with a = 1.05 x the square is that of 1.05 x.
        x = np.geomspace(1e-3, 1e3, 50)
        yield equal(np.exp(np.arcsinh(1.05 * x)), 1.05 * x + np.sqrt(1.05**2 * x**2 + 1))

    def certificates(self) -> list[Certificate]:
        statement = "the interval [e^{e/2}, 1] is not empty: e^{e/2} ≤ 1"
        return [Certificate(statement, (arb(1).exp() / 2).exp(), "<=", fmpq(1))]
