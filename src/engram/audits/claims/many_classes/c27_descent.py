"""C27: Theorem 3 for descent."""

import functools
from collections.abc import Iterator

import numpy as np

from engram import memory
from engram.audits._claim import Curves
from engram.audits._evidence import MANY_STEPS, Evidence, all_of, at_least, at_most, equal
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_classes, steps_to
from engram.audits.claims._checks import Checks
from engram.audits.claims.many_classes._runs import CLASSES
from engram.problem import orthonormal
from engram.theory import multiclass


@functools.lru_cache(maxsize=2)
def _descents(seed: int) -> list[tuple]:
    """Descents from zero for each number of classes: M, learning rates, steps, scores."""
    rng, runs = rng_for(seed, "C27"), []
    for M in CLASSES:
        at = steps_to(1_000_000 if M < 10 else 100_000, dense=64, sparse=32)
        eta = 10 ** rng.uniform(-3, 4, 8)
        eta[:2] = 1.0, 1e-3
        runs.append((M, eta, at, descend_classes(np.ones(8), eta, np.zeros((8, M)), at)))
    return runs


class C27(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """The margin over log(M eta k t), and a random start's margins drawing level."""
        for M, eta, at, w in _descents(seed):
            ratio = (w[0, -1, 0] - w[0, -1, 1]) / np.log(M * eta[0] * at[-1])
            yield equal(ratio, 1.0, tolerance=M * 20 / at[-1] + 1e-4, classes=M)
        at = _descents(seed)[1][2]
        w = descend_classes(np.ones(8), 1.0, np.tile([0.0, 1.0, -1.0], (8, 1)), at)
        gap = np.abs(w[0, :, 1] - w[0, :, 2])
        yield at_most(gap[-1] * 1e6 ** (1 / 3), 1.3 * gap[-9] * at[-9] ** (1 / 3))

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        for M, eta, at, w in _descents(seed):
            m, rates = w[:, :, 0] - w[:, :, 1], eta[:, None]
            least = multiclass.descent_margin_bound(at[None, :], 1.0, rates, M)
            cases = {"classes": M, "learning_rate": rates, "step": at[None, :]}
            yield at_least(m, least, tolerance=MANY_STEPS, **cases)
            yield equal(m[:, 1], eta, classes=M, learning_rate=eta)
            problem = orthonormal(3, M, probs=[0.7, 0.2, 0.1], targets=[0, 1, 1])
            once = memory.loss(problem, -2.0 * memory.grad(problem, np.zeros((problem.dim,) * 2)))
            yield equal(multiclass.first_step_loss(2.0, problem), once, classes=M)
            # Small steps follow the flow, which is the bound.
            yield equal(m[1], least[1], tolerance=1e-3, classes=M, step=at)

    def curves(self) -> Curves:
        _, _, at, w = _descents(0)[-1]
        bound = multiclass.descent_margin_bound(at[1:], 1.0, 1.0, 100)
        series = {"true": w[0, 1:, 0] - w[0, 1:, 1], "corrected": bound}
        title = "margin under descent from zero, M = 100, η = 1"
        return Curves(title, ("step", at[1:]), series, "margin", log_x=True)
