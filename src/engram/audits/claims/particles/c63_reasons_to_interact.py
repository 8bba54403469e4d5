"""C63: what makes margins interact, and that they tell everything."""

from collections.abc import Iterator

import numpy as np

from engram import particles
from engram.audits._evidence import Evidence, all_of, equal, true
from engram.audits._parameters import random_problem, rng_for
from engram.audits.claims._checks import Checks
from engram.problem import Problem


def _margin_velocity(problem: Problem, w: np.ndarray) -> np.ndarray:
    force = np.asarray(particles.force(problem, w))
    return np.take_along_axis(force, np.asarray(problem.targets)[:, None], 1) - force


class C63(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C63")
        for index in range(10):
            for M, orthogonal in ((2, True), (3, True), (2, False)):
                problem = random_problem(rng, 3, M, 4, orthogonal=orthogonal)
                w, other = rng.normal(size=(2, 3, M))
                velocity = lambda w, problem=problem: _margin_velocity(problem, w)
                # All scores but those that make up one margin of token 0 are changed.
                wrong = int(np.flatnonzero(np.arange(M) != problem.targets[0])[0])
                mixed, own = other.copy(), [problem.targets[0], wrong]
                mixed[0, own] = w[0, own]
                moved = velocity(mixed)[0, wrong] - velocity(w)[0, wrong]
                yield true((abs(moved) < 1e-12) == (M == 2 and orthogonal), model=index)
                # The margins decide their own drift: a shift of a token's scores changes nothing.
                shifted = w + rng.normal(size=(3, 1))
                yield equal(velocity(shifted), velocity(w), tolerance=1e-12, model=index)
