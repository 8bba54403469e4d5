"""C49 to C51: the transformer's memories, and collected slips."""

import functools

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import dot, precisely, rationals
from engram.audits._certificate import Certificate
from engram.audits._claim import Amendment, Claim
from engram.audits._evidence import Evidence, at_least, at_most, both, equal, true
from engram.audits._parameters import rng_for
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


C49 = Claim(
    "C49", "sub:appx_transformer", "what the memories W_K^1, W_K^2 and W_O^2 maximise over",
    "The lookup is arg max_j ⟨p_j, W_K^1 p_t⟩ = t − 1 and arg max_j ⟨e_j, W_K^2 φ_k(e_i)⟩ = i; margins use φ.",
    "TYPO", lambda seed: _over(seed, 1),
    why="W_K^1 is written keyᵀW query, W_K^2 queryᵀW key, and the second arg max runs over queries; attention is a softmax over keys. φ in the margin of W_O^2 is φ_o.",
    amendment=Amendment(
        "arg max_j ⟨p_t, W_K^1 p_j⟩ = t − 1 and arg max_i ⟨e_j, W_K^2 φ_k(e_i)⟩ = j, both over keys.",
        lambda seed: _over(seed, 2), "A lookup that attention gets right need not be right column by column. Checked on memories trained alone; `engram.transformer.memories` looks them up this way in the whole transformer."),
    certificates=lambda: [_lookup_proof()],
)  # fmt: skip


def _lookup_proof() -> Certificate:
    """Two tokens, W = I: each query finds its own key, and yet key 1 is best matched by query 2."""
    queries, keys = rationals(["1", "0"], ["5", "6"]), rationals(["1", "0"], ["0", "1"])
    scores = [[dot(q, k) for k in keys] for q in queries]
    assert scores[0][0] > scores[0][1] and scores[1][1] > scores[1][0]  # noqa: PT018
    return Certificate(
        "e = (1,0), (5,6), φ = (1,0), (0,1), W = I: query 1 matches key 1 at least as well as query 2 does",
        scores[0][0],
        ">=",
        scores[1][0],
    )


C50 = Claim(
    "C50", "sub:transformer", "training W_O^2 alone is convex; large rates are faster at the cost of spikes",
    "Training W_O^2 alone is convex; margins grow, larger learning rates are faster with spikes, larger d accelerates.",
    "NOT-TESTABLE", None,
    why="Observations on one trained transformer, whose code and data are not public; Figure 7 of `engram reproduce` reports each as shown or not shown, with numbers. Convexity holds whenever logits are affine in W_O^2, as here.",
)  # fmt: skip


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
        at_least(factor, np.exp(-2 / np.e), s=s),
        at_most(factor, 1.0, s=s),
        equal(sums, w.sum(), tolerance=1e-9, time=times),
        at_most(theta, len(w) - 1 - equal_ones),
    )


C51 = Claim(
    "C51", "proof:ortho", "collected slips",
    "w_ij changes w_ik if u_iᵀu_k ≠ 0; θ_k in [0, M − M_k]; Σ w_i = o(1); e^{γ_2} in c_t t · [e^{e/2}, 1]; 1.05 under a root.",
    "TYPO", lambda seed: _which_scores_move(seed, lambda i, j: i),
    why="The interval [e^{e/2}, 1] is empty: e^{e/2} = 3.89.",
    amendment=Amendment(
        "u_jᵀu_k ≠ 0; θ_k in [0, M − 1 − M_k]; Σ w_i is constant; e^{γ_2} = (c_t t + 1) e^{−h} with e^{−h} in [e^{−2/e}, 1]; 1.05².",
        _slips, "Each by its own line."),
    certificates=precisely(lambda: [Certificate("the interval [e^{e/2}, 1] is not empty: e^{e/2} ≤ 1", (arb(1).exp() / 2).exp(), "<=", fmpq(1))]),
)  # fmt: skip

CLAIMS = [C49, C50, C51]
