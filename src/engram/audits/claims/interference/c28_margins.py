"""C28: the two margins under descent."""

from collections.abc import Iterator

import numpy as np

from engram import memory
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import random_pairs
from engram.theory import interference


class C28(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for problem, W, at in random_pairs(seed, "C28"):
            step = -at["learning_rate"] * memory.grad(problem, W)
            after = np.array(interference.descent_step(*memory.margins(problem, W), **at))
            del at["learning_rate"]
            yield equal(memory.margins(problem, W + step), after, tolerance=1e-12, **at)
