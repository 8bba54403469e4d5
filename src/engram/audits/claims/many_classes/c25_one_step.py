"""C25: whether one step is enough."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import memory, particles
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, true
from engram.audits._parameters import random_problem, rng_for
from engram.audits.claims._checks import Checks
from engram.problem import Problem, orthonormal
from engram.theory import multiclass


class C25(Checks):
    def _one_step(self, seed: int, rates) -> np.ndarray:
        """Whether one step from random scores gives perfect accuracy, for multiples of the threshold."""
        rng, right = rng_for(seed, "C25"), []
        for _ in range(200):
            p, y = rng.dirichlet(np.ones(3)) * 0.9 + 0.1 / 3, rng.integers(0, 4, 3)
            problem = orthonormal(3, 4, probs=p, targets=y)
            w = rng.normal(size=(3, 4)) * 10 ** rng.uniform(-1, 1.5)
            etas = rates(multiclass.one_step_threshold(problem, w))
            force = particles.force(problem, w)
            right.append([(particles.margins(problem, w + eta * force) > 0).all() for eta in etas])
        return np.array(right)

    def printed(self, seed: int) -> Evidence:
        return true(self._one_step(seed, lambda _: (1.0,))[:, 0])

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        # A threshold below zero means perfect already: any step keeps it so, and there is nothing below it.
        near = lambda eta: (eta * (1 + 1e-6), eta * (1 - 1e-6)) if eta > 0 else (1.0, np.nan)
        above, below = self._one_step(seed, near).T
        yield true(above)
        yield true(~below)
        rng = rng_for(seed, "C25")
        for _ in range(20):
            problem = random_problem(rng, 3, 4, 5, orthogonal=True)
            problem = Problem(problem.inputs, np.eye(4, 5), problem.probs, problem.targets)
            W = -(10 ** rng.uniform(-6, 4)) * memory.grad(problem, np.zeros((5, 5)))
            yield true(memory.error_rate(problem, W) == 0)

    def certificates(self) -> list[Certificate]:
        target, other = arb(-50).exp() / (arb(-50).exp() + 2), 1 / (arb(-50).exp() + 2)
        statement = "M = 3, w_0 = (−50, 0, 0), p‖e‖² = 1, η = 1: the margin after one step is at least 0"  # fmt: skip
        return [Certificate(statement, -50 + (1 - target + other), ">=", fmpq(0))]
