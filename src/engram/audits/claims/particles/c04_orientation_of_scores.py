"""C04: Scores of W and of its transpose."""

from collections.abc import Iterator

import numpy as np

from engram import memory, theory
from engram.audits._balls import dot, rationals
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims._models import TOKENS, models


class C04(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for problem, W in models(seed, "C04", 5):
            said = theory.printed.scores(problem, W)
            yield equal(said, memory.scores(problem, W), token=np.arange(TOKENS)[:, None])

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        """<W, u_y ⊗ e_x>, written as the inner product of two matrices."""
        for problem, W in models(seed, "C04", 5):
            tensor = np.einsum("ij,yi,xj->xy", W, problem.outputs, problem.inputs)
            yield equal(tensor, memory.scores(problem, W), token=np.arange(TOKENS)[:, None])

    def certificates(self) -> list[Certificate]:
        W, (e, u) = rationals(["0", "1"], ["0", "0"]), rationals(["1", "0"], ["0", "1"])
        applied = lambda v: [dot(row, v) for row in W]
        statement = "⟨e, W u⟩ = ⟨u, W e⟩ for W = (0 1; 0 0), e = (1, 0), u = (0, 1)"
        return [Certificate(statement, dot(e, applied(u)), "==", dot(u, applied(e)))]
