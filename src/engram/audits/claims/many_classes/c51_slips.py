"""C51: harmless slips, collected."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import dot
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, all_of, at_most, between, equal, true
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.theory import binary, multiclass

_CLASSES = 6


def _random_scores(seed: int) -> np.ndarray:
    return rng_for(seed, "C51 sums").normal(size=_CLASSES)


def _tied_and_others(w: np.ndarray) -> tuple[int, int]:
    """How many wrong classes are level with the likeliest of them, and how many are not."""
    tied = int((w[1:] == w[1:].max()).sum())
    return tied, int((w[1:] < w[1:].max()).sum())


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
        """Five lines, each of which fails by itself (see the certificates)."""
        yield self._which_scores_move(seed, 0)
        tied, others = _tied_and_others(_random_scores(seed))
        yield equal(others, _CLASSES - tied)
        yield at_most(np.exp(np.e / 2), 1.0)  # the ends of the interval [e^(e/2), 1]
        sums = multiclass.flow_scores_from(np.array([1e6]), 1.0, _random_scores(seed)).sum(1)
        yield equal(sums, 0.0, tolerance=1e-3)  # o(1)
        x = np.geomspace(1e-3, 1e3, 50)
        yield equal(np.exp(np.arcsinh(1.05 * x)), 1.05 * x + np.sqrt(1.05 * x**2 + 1))

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._which_scores_move(seed, 1)
        s = 1 + np.geomspace(1e-3, 1e6, 200)
        yield between(np.exp(-2 / np.e), np.exp(-binary.flow_correction(s)), 1.0, s=s)
        w, times = _random_scores(seed), np.geomspace(1.0, 1e6, 8)
        sums = multiclass.flow_scores_from(times, 1.0, w).sum(1)
        yield equal(sums, w.sum(), tolerance=1e-9, time=times)
        tied, others = _tied_and_others(w)
        yield equal(others, _CLASSES - 1 - tied)
        yield between(0.0, np.exp(w[1:] - w[1:].max()).sum() - tied, others)  # θ
        # e^asinh(a) = a + √(a² + 1): with a = 1.05 x the square is that of 1.05 x.
        x = np.geomspace(1e-3, 1e3, 50)
        yield equal(np.exp(np.arcsinh(1.05 * x)), 1.05 * x + np.sqrt(1.05**2 * x**2 + 1))

    def certificates(self) -> list[Certificate]:
        moved = dot([0, 1], [1, 0])  # u_k · u_j, by how much w_ik moves with w_ij
        root = lambda square: fmpq(105, 100) + (square + 1).sqrt()
        return [
            Certificate("u_i = (1, 1), u_j = (1, 0), u_k = (0, 1): u_iᵀu_k ≠ 0, so w_ik moves with w_ij", moved, ">", fmpq(0)),
            Certificate("wrong scores 0, 0, −1: M = 4, M_k = 2, and one class is not tied: it is M − M_k", fmpq(1), "==", fmpq(4 - 2)),
            Certificate("scores that start at (0, 0, 1) have the sum 1 for ever: it tends to 0", fmpq(1), "==", fmpq(0)),
            Certificate("the interval [e^{e/2}, 1] is not empty: e^{e/2} ≤ 1", (arb(1).exp() / 2).exp(), "<=", fmpq(1)),
            Certificate("e^{asinh(1.05)} = 1.05 + √(1.05 + 1)", arb(fmpq(105, 100)).asinh().exp(), "==", root(arb(fmpq(105, 100)))),
            proof("with 1.05² under the root it is within 10^−50", abs(arb(fmpq(105, 100)).asinh().exp() - root(arb(fmpq(105, 100) ** 2))), "<", arb(10) ** -50),
        ]  # fmt: skip
