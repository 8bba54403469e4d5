"""C44: the Hessian formula, against automatic differentiation."""

from collections.abc import Iterator

from engram import memory
from engram.audits import _independent as independent
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits.claims._checks import Checks


class C44(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C44")
        for index in range(20):
            problem, W = random_problem(rng, 4, 3, 3), random_weights(rng, 3, 3.0)
            auto = independent.autohess(W, *independent.parts(problem))
            yield equal(memory.hessian(problem, W), auto, tolerance=1e-12, model=index)
