"""C02: the mean of a mini-batch's summed gradient."""

import itertools
from collections.abc import Iterator
from functools import partialmethod

import numpy as np
from flint import fmpq

from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits.claims._checks import Checks
from engram.memory import MemorySystem


class C02(Checks):
    @all_of
    def _batches(self, seed: int, divisor: float, size: int = 4) -> Iterator[Evidence]:
        """The mean of a batch's summed gradient, over all batches that can be drawn, against the gradient."""
        rng = rng_for(seed, "C02")
        for index in range(4):
            problem, W = random_problem(rng, 2, 3, 4), random_weights(rng, 4, 1.0)
            system, mean = MemorySystem(problem), np.zeros((4, 4))
            for batch in itertools.product(range(2), repeat=size):
                counts = np.bincount(batch, minlength=2).astype(float)
                mean += np.prod(problem.probs[list(batch)]) * np.asarray(system.grad(W, counts))
            yield equal(mean / divisor, np.asarray(system.grad(W)), model=index)

    printed = partialmethod(_batches, divisor=1.0)
    corrected = partialmethod(_batches, divisor=4.0)

    def certificates(self) -> list[Certificate]:
        p, mean = [fmpq(3, 4), fmpq(1, 4)], fmpq(0)
        for batch in itertools.product((0, 1), repeat=4):
            weight = fmpq(1)
            for token in batch:
                weight *= p[token]
            # At W = 0 each copy of token 1 pulls by 1/2 along (u_1 - u_2) ⊗ e_1.
            mean += weight * batch.count(0) * fmpq(1, 2)
        return [Certificate(
            "the mean pull of token 1 over all 2⁴ batches equals its pull p₁/2 in the gradient (p₁ = 3/4, |B| = 4)",
            mean, "==", p[0] / 2)]  # fmt: skip
