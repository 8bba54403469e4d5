"""C55: how far embeddings may be displaced."""

import itertools
from collections.abc import Iterator

import numpy as np

from engram import memory
from engram.audits._evidence import Evidence, all_of, at_least, at_most, both, equal
from engram.audits._independent import most_robust, robust_radius
from engram.audits._parameters import random_problem, rng_for
from engram.audits.claims._checks import Checks
from engram.capacity import is_separable, max_margin
from engram.problem import Problem, orthonormal


def _radius(problem: Problem) -> float:
    return robust_radius(problem, np.asarray(max_margin(problem)))


def _robust_gain(problem: Problem) -> float:
    """The best radius of any W over that of the max-margin solution, less 1."""
    ours = _radius(problem)
    return most_robust(problem, ours * 0.95, ours * 20.0) / ours - 1


def _random_gains(seed: int, M: int, count: int) -> list[float]:
    """The same for random separable problems."""
    rng = rng_for(seed, f"C55 {M}")
    drawn = (random_problem(rng, 3, M, 3) for _ in itertools.count())
    separable = itertools.islice(filter(is_separable, drawn), count)
    return [_robust_gain(problem) for problem in separable]


class C55(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """Orthonormal embeddings: inputs displaced by less than the radius keep their classes."""
        rng = rng_for(seed, "C55")
        for targets in ([0, 1, 2], [0, 1, 1], [2, 2, 2]):
            problem = orthonormal(3, 3, targets=targets)
            W, radius = max_margin(problem), _radius(problem)
            yield at_least(radius, 0.5)
            for _ in range(20):
                moves = rng.normal(size=(3, 3))
                moves *= 0.99 * radius / np.linalg.norm(moves, axis=1, keepdims=True)
                moved = Problem(problem.inputs + moves, problem.outputs, problem.probs, targets)
                yield at_least(memory.margins(moved, W), 0.0)

    def corrected(self, seed: int) -> Evidence:
        even, uneven = orthonormal(3, 3), orthonormal(4, 3, targets=[0, 1, 1, 2])
        radii = [1 / np.sqrt(2), 1 / np.sqrt(3)]
        return both(
            # Bisection between 0.95 and 20 times, halved fourteen times.
            at_most(_random_gains(seed, 2, 6), 0.0, tolerance=5e-3, draw=np.arange(6)),
            at_most([_robust_gain(even), _robust_gain(uneven)], 0.0, tolerance=5e-3),
            equal([_radius(even), _radius(uneven)], radii, tolerance=1e-6),
            # Correlated embeddings and three classes: another W tolerates more.
            at_least(max(_random_gains(seed, 3, 4)), 0.01),
        )
