"""C09: with orthogonal inputs each margin moves alone."""

from collections.abc import Iterator

from engram import memory
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits.claims._checks import Checks
from engram.theory import binary


class C09(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C09")
        for index in range(30):
            problem = random_problem(rng, 4, 2, 6, orthogonal=True)
            W, eta = random_weights(rng, 6, 3.0), 10 ** rng.uniform(-3, 2)
            after = memory.margins(problem, W - eta * memory.grad(problem, W))
            step = binary.descent_step(memory.margins(problem, W), binary.rates(problem), eta)
            yield equal(after, step, tolerance=1e-12, model=index)
