"""C60: frequent tokens are learnt first and forgotten later."""

from collections.abc import Iterator

import numpy as np

from engram import memory
from engram.audits._evidence import Evidence, all_of, at_least, equal, true
from engram.audits.claims._checks import Checks
from engram.audits.claims.short_memory._plane import in_the_plane
from engram.capacity import calibration


class C60(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        problem = in_the_plane([-2.87, 2.15, 0.18, -0.14], [0.36, 0.26, 0.19, 0.19])
        end = calibration(problem)
        yield true(0 in end.forgotten)
        yield at_least(end.excess, 0.1)
        W, margins = np.zeros((2, 2)), []
        for _ in range(2000):  # small steps: a flow to t = 200
            W = W - 0.1 * memory.grad(problem, W)
            margins.append(memory.margins(problem, W)[0])
        margins = np.array(margins)
        turn = int(np.argmax(margins <= 0))  # the first step at which it is forgotten
        yield true(turn > 0 and (margins[:turn] > 0).all() and (margins[turn:] <= 0).all())
        yield equal(W, end.minimiser.weights, tolerance=1e-3)
