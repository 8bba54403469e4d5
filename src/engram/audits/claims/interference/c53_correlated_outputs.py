"""C53: correlated outputs with orthogonal inputs."""

from collections.abc import Iterator

import numpy as np
from flint import fmpq

from engram import memory
from engram.audits._balls import dot, rationals
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal
from engram.audits._parameters import random_problem, rng_for
from engram.audits.claims._checks import Checks
from engram.problem import Problem, orthonormal


class C53(Checks):
    def printed(self, seed: int) -> Evidence:
        """As printed: with orthogonal inputs the first step raises nobody's loss, whatever the outputs."""
        # One token whose target is crowded by a correlated class: unit outputs in the plane.
        outputs = [[1.0, 0.0], [0.8, 0.6], [0.6, -0.8], [0.0, -1.0]]
        rng, losses = rng_for(seed, "C53"), []
        random = (random_problem(rng, 3, 5, 4, orthogonal=True) for _ in range(20))
        for problem in [Problem([[1.0, 0.0]], outputs, [1.0], [0]), *random]:
            W = -100.0 * memory.grad(problem, np.zeros((problem.dim, problem.dim)))
            losses.append(memory.loss(problem, W) / np.log(problem.num_classes))
        return at_most(losses, 1.0, model=np.arange(21))

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        """Tokens do not touch each other; and with two classes, or orthonormal outputs, none ever falls."""
        rng = rng_for(seed, "C53")
        for index in range(10):
            problem, W = random_problem(rng, 3, 5, 4, orthogonal=True), rng.normal(size=(4, 4))
            e = problem.inputs[0]
            alone = Problem(e[None], problem.outputs, [1.0], problem.targets[:1])
            pull = problem.probs[0] * memory.grad(alone, W) @ e
            yield equal(memory.grad(problem, W) @ e, pull, tolerance=1e-12, model=index)
            two_classes = random_problem(rng, 3, 2, 4, orthogonal=True)
            for calm in (two_classes, orthonormal(3, 4, key=index)):
                V = rng.normal(size=(4, 4))
                after = V - 10 ** rng.uniform(-1, 3) * memory.grad(calm, V)
                gain = memory.margins(calm, after) - memory.margins(calm, V)
                yield at_least(gain, 0.0, tolerance=1e-9)

    def certificates(self) -> list[Certificate]:
        U = rationals(["1", "0"], ["4/5", "3/5"], ["3/5", "-4/5"], ["0", "-1"])
        mean = [sum(column, fmpq(0)) / 4 for column in zip(*U, strict=True)]
        less = lambda u, v: [x - y for x, y in zip(u, v, strict=True)]
        statement = "u = (1,0), (4/5,3/5), (3/5,−4/5), (0,−1), target 1: the first margin against class 2, per η, is at least 0"
        return [Certificate(statement, dot(less(U[0], U[1]), less(U[0], mean)), ">=", fmpq(0))]
