"""C29: one step for tokens that do not compete."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import sigma
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, at_least, true
from engram.audits._parameters import pairs, rng_for
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import RUNS
from engram.theory import interference


class C29(Checks):
    def _one_step_learns(self, seed: int, scale: float) -> Evidence:
        rng = rng_for(seed, "C29")
        drawn = pairs(rng, RUNS)
        drawn = drawn._replace(correlation=-np.abs(drawn.correlation))
        m = descend_pairs(*drawn, np.arange(257), scale * rng.normal(size=(RUNS, 2)))[:, 1]
        at = drawn._asdict()
        del at["contrast"]
        return true((m > 0).all(1), **at)

    def printed(self, seed: int) -> Evidence:
        return self._one_step_learns(seed, 5.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        """From zero: perfect after one step exactly where α < p_2/p_1; monotone for α ≤ 0."""
        yield self._one_step_learns(seed, 0.0)
        drawn = pairs(rng_for(seed, "C29 condition"), RUNS)
        m = descend_pairs(*drawn, np.arange(257))
        alpha, rest = drawn.correlation, drawn.correlation <= 0
        learns = interference.is_learned_in_one_step(alpha, drawn.p1)
        yield true((m[:, 1] > 0).all(1) == learns, correlation=alpha, p1=drawn.p1)
        # Just below and above the threshold, too.
        p1 = np.linspace(0.55, 0.95, RUNS)
        near = (1 - p1) / p1 * np.where(np.arange(RUNS) % 2, 1.01, 0.99)
        first = descend_pairs(near, p1, 2.0, 1.0, np.arange(257))[:, 1]
        yield true((first > 0).all(1) == interference.is_learned_in_one_step(near, p1), p1=p1)
        yield at_least(np.diff(m[rest], axis=1), 0.0, correlation=alpha[rest, None, None])

    def certificates(self) -> list[Certificate]:
        # One step adds at most c eta (1 + 1/2)/2.
        after = -50 + 2 * (arb(fmpq(1, 2)) * sigma(arb(-50)) * fmpq(3, 2))
        statement = "α = −1/2, p_1 = 1/2, c = 2, η = 1, both margins −50: positive after one step"
        return [Certificate(statement, after, ">", fmpq(0))]
