"""C06: Theorem 1: the scores move by themselves."""

from collections.abc import Iterator

import numpy as np

from engram import memory, particles
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._independent import parts
from engram.audits.claims._checks import Checks
from engram.audits.claims._models import models


class C06(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for index, (problem, W) in enumerate(models(seed, "C06")):
            E, U, p, y = parts(problem)
            w, q = memory.scores(problem, W), memory.recall_probs(problem, W)
            gram = np.einsum("id,jd->ij", U, U)
            beta = (gram[:, :, None] - gram[:, None, :])[:, y, :].transpose(1, 0, 2)
            # eq:interaction with its own signs: beta[j, f*(x), z].
            printed = np.einsum("x,ix,xjz,xz->ij", p, E @ E.T, beta, q)
            moved = memory.scores(problem, W - memory.grad(problem, W)) - w
            size = max(1.0, np.abs(w).max())  # moved is a difference of scores of that size
            yield equal(printed / size, moved / size, tolerance=1e-12, model=index)
            yield equal(printed, particles.force(problem, w), tolerance=1e-13, model=index)
