"""C59: competition may erase most memories."""

from collections.abc import Iterator

import numpy as np

from engram import memory
from engram.audits._evidence import Evidence, all_of, true
from engram.audits.claims._checks import Checks
from engram.audits.claims.short_memory._plane import in_the_plane
from engram.capacity import calibration


class C59(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """Five rare tokens nearly opposite to a frequent one: stored at first, erased in the end."""
        angles = [0.0, *(np.pi + np.array([-0.2, -0.1, 0.0, 0.1, 0.2]))]
        problem = in_the_plane(angles, [0.55, *[0.09] * 5])
        forgotten = calibration(problem).forgotten
        yield true(np.array_equal(forgotten, np.arange(1, 6)))
        W = np.array([[-0.5, 0.0], [0.5, 0.0]])
        yield true(memory.margins(problem, W)[1:] > 0)
        for _ in range(200):
            W = W - memory.grad(problem, W)
        yield true(memory.margins(problem, W)[1:] < 0)
        yield true(memory.margins(problem, W)[0] > 0)
