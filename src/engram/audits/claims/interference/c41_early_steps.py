"""C41: the margins' first steps."""

from collections.abc import Iterator
from functools import partialmethod

import numpy as np
from flint import fmpq

from engram.audits._balls import pair_descent
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, at_most, equal
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import RUNS
from engram.theory import interference, printed


class C41(Checks):
    @all_of
    def _early_steps(self, seed: int, power: int) -> Iterator[Evidence]:
        """One step at zero where αp_1 ≫ p_2, against the approximation; it may be off by cηp_2 only."""
        rng = rng_for(seed, "C41")
        for _ in range(30):
            alpha, p1 = rng.uniform(0.9, 1.0), 1 - 10 ** rng.uniform(-4, -2)
            c, eta = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1)
            approximation = np.array(printed.early_margin_steps(0.0, eta, alpha, p1)) * c**power
            moved = np.array(interference.descent_step(0.0, 0.0, eta, alpha, p1, c))
            ran = descend_pairs(np.full(RUNS, alpha), p1, c, eta, np.arange(257))[0, 1]
            at = {"correlation": alpha, "p1": p1, "contrast": c}
            yield at_most(np.abs(moved - approximation), c * eta * (1 - p1), **at)
            yield equal(moved, ran, tolerance=1e-12)

    printed = partialmethod(_early_steps, power=0)
    corrected = partialmethod(_early_steps, power=1)

    def certificates(self) -> list[Certificate]:
        step, _ = pair_descent(1, fmpq(999, 1000), 2, 1, 1)[1]
        statement = "c = 2, α = 1, p_1 = 999/1000, η = 1, W = 0: Δm_1 is within 1/100 of ηp_1/2"
        return [Certificate(statement, step - fmpq(999, 2000), "<=", fmpq(1, 100))]
