"""C47: Cross-entropy may forget the most frequent token."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits import _independent as independent
from engram.audits._balls import isolate, sigma
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, all_of, equal, true
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.problem import Problem


class C47(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """The exact example by engram's own descent, and the family's condition by Newton's method."""
        z, p = np.array([[1.0, 0.0], [-0.8, 0.6], [-0.8, -0.6]]), np.array([0.4, 0.3, 0.3])
        problem, W = Problem(z, np.eye(2), p, [0, 0, 0]), np.zeros((2, 2))
        for _ in range(300):
            W = W - memory.grad(problem, W)
        yield equal(W[0] - W[1], [-0.204667982367761, 0.0], tolerance=1e-9)
        excess = memory.error_rate(problem, W) - independent.least_plane_error(z[None], p)[0]
        yield equal(excess, 0.1, tolerance=1e-12)
        rng = rng_for(seed, "C47")
        theta, p1 = rng.uniform(0.1, 1.4, 200), rng.uniform(0.34, 0.6, 200)
        p = np.stack([p1, (1 - p1) / 2, (1 - p1) / 2], 1)
        across, up, zero = -np.cos(theta), np.sin(theta), np.zeros(200)
        z = np.stack([np.stack([zero + 1, across, across], 1), np.stack([zero, up, -up], 1)], 2)
        forgets = independent.plane_minimiser(z, p)[:, 0] < 0
        excess = (1 - p1) * np.cos(theta) - p1
        clear = np.abs(excess) > 1e-6
        yield true((forgets == (excess > 0))[clear], angle=theta[clear], p1=p1[clear])

    def certificates(self) -> list[Certificate]:
        pull = lambda g: fmpq(2, 5) * sigma(g) - fmpq(3, 5) * fmpq(4, 5) * sigma(-fmpq(4, 5) * g)
        best = isolate(pull, fmpq(-1, 2), fmpq(-1, 10))
        return [
            proof("z_1 = (1, 0), z_{2,3} = (−4/5, ±3/5), p = (2/5, 3/10, 3/10): the minimiser's first coordinate is negative, so token 1 is wrong", best, "<", fmpq(0)),
            proof("it is −0.204667982367761 up to 10^−15", abs(best + fmpq(204667982367761, 10**15)), "<", arb(10) ** -15),
            proof("its 0-1 loss is 2/5, that of the direction (1, 2) is 3/10", fmpq(2, 5), ">", fmpq(3, 10)),
        ]  # fmt: skip
