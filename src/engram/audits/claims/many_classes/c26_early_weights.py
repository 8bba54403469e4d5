"""C26: the weights early in training."""

from collections.abc import Iterator

import numpy as np
from flint import fmpq

from engram import memory
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._parameters import random_problem, rng_for
from engram.audits.claims._checks import Checks
from engram.theory import multiclass, printed


class C26(Checks):
    @all_of
    def _early(self, seed: int, form) -> Iterator[Evidence]:
        rng = rng_for(seed, "C26")
        for index in range(20):
            problem = random_problem(rng, 4, 3, 5)
            first = -memory.grad(problem, np.zeros((5, 5)))
            yield equal(form(1.0, problem), first, tolerance=1e-13, model=index)

    def printed(self, seed: int) -> Evidence:
        return self._early(seed, printed.early_weights)

    def corrected(self, seed: int) -> Evidence:
        return self._early(seed, multiclass.early_weights)

    def certificates(self) -> list[Certificate]:
        # That of u_1 in Σ_z p_W(z) (u_1 − u_z) at W = 0.
        coefficient = sum((fmpq(1, 2) * (1 - (z == 0)) for z in range(2)), fmpq(0))
        statement = "M = 2, orthonormal, one token: the coefficient of u_1 ⊗ e in −∇L(0) is p = 1"
        return [Certificate(statement, coefficient, "==", fmpq(1))]
