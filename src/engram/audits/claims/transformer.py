"""C49 to C51: the transformer's memories, and collected slips."""

import functools

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import dot, precisely, rationals
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, at_most, between, both, equal, true
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.problem import Problem
from engram.theory import binary, multiclass

# --- C49 ---


@functools.lru_cache(maxsize=2)
def _lookups(seed: int) -> np.ndarray:
    """Scores ⟨e_j, W_K^2 φ_k(e_i)⟩ of lookups trained by descent: query j, key i, one matrix per draw."""
    rng, found = rng_for(seed, "C49"), []
    for _ in range(12):
        queries, keys = rng.normal(size=(2, 5, 4))
        lengths = 3 ** rng.uniform(-1, 1, 5)  # tokens of unlike length
        problem = Problem(queries * lengths[:, None], keys, np.full(5, 0.2), np.arange(5))
        W = np.zeros((4, 4))
        for _ in range(400):
            W = W - np.asarray(memory.grad(problem, W))
        found.append(problem.inputs @ W.T @ problem.outputs.T)
    return np.array(found)


def _over(seed: int, axis: int) -> Evidence:
    """Where attention, a softmax over keys, finds every query's own key: does the stated arg max say so?"""
    scores = _lookups(seed)
    right = (scores.argmax(2) == np.arange(5)).all(1)
    said = (scores.argmax(axis) == np.arange(5)).all(1)
    return both(true(said == right, model=np.arange(len(right))), true(right.sum() >= 3))


def _lookup_proof() -> list[Certificate]:
    """Two tokens, W = I: each query finds its own key, and yet key 1 is best matched by query 2."""
    queries, keys = rationals(["1", "0"], ["5", "6"]), rationals(["1", "0"], ["0", "1"])
    scores = [[dot(q, k) for k in keys] for q in queries]
    assert scores[0][0] > scores[0][1] and scores[1][1] > scores[1][0]  # noqa: PT018
    statement = "e = (1,0), (5,6), φ = (1,0), (0,1), W = I: query 1 matches key 1 at least as well as query 2 does"
    return [Certificate(statement, scores[0][0], ">=", scores[1][0])]


C49 = Checks(
    lambda seed: _over(seed, 1), corrected=lambda seed: _over(seed, 2), certificates=_lookup_proof
)

C50 = Checks(None)


# --- C51 ---


def _which_scores_move(seed: int, pair) -> Evidence:
    """A push on w_ij alone, along u_j ⊗ e_i: which w_ik move with it."""
    rng, found = rng_for(seed, "C51"), []
    for _ in range(20):
        U = rng.normal(size=(4, 5))
        U[2] -= U[1] * (U[1] @ U[2]) / (U[1] @ U[1])  # u_2 ⊥ u_1, and neither to u_0
        e = rng.normal(size=5)
        i, j, k = 0, 1, 2
        moved = U[k] @ np.outer(U[j], e) @ e
        found.append((abs(moved) > 1e-9) == (abs(U[pair(i, j)] @ U[k]) > 1e-9))
    return true(np.array(found))


def _slips(seed: int) -> Evidence:
    s = 1 + np.geomspace(1e-3, 1e6, 200)
    factor = np.exp(-np.asarray(binary.flow_correction(s)))
    w = rng_for(seed, "C51 sums").normal(size=6)
    times = np.geomspace(1.0, 1e6, 8)
    sums = np.asarray(multiclass.flow_scores_from(times, 1.0, w)).sum(1)
    wrong = w[1:]
    equal_ones = np.sum(wrong == wrong.max())
    theta = np.exp(wrong - wrong.max()).sum() - equal_ones
    return both(
        _which_scores_move(seed, lambda i, j: j),
        between(np.exp(-2 / np.e), factor, 1.0, s=s),
        equal(sums, w.sum(), tolerance=1e-9, time=times),
        at_most(theta, len(w) - 1 - equal_ones),
    )


C51 = Checks(
    lambda seed: _which_scores_move(seed, lambda i, j: i),
    corrected=_slips,
    certificates=precisely(lambda: [Certificate("the interval [e^{e/2}, 1] is not empty: e^{e/2} ≤ 1", (arb(1).exp() / 2).exp(), "<=", fmpq(1))]),
)  # fmt: skip
