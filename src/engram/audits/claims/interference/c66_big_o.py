"""C66: what the big-O of Theorem 4 hides, and curated data."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import pair_descent
from engram.audits._certificate import Certificate
from engram.audits._evidence import MANY_STEPS, Evidence, all_of, at_least, at_most, between, equal
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import descents, flows
from engram.theory import binary, interference


class C66(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """The flow's constants for descent at time ηt; and tokens that are learnt evenly are learnt first."""
        run = descents(seed)
        c2 = 8 * (1 - run.alpha) * run.c * run.p1**3 / (1 - run.p1) ** 2
        at = {"correlation": run.alpha, "p1": run.p1, "learning_rate": run.eta, "step": run.at}
        yield at_most(run.half_sum, np.log1p(c2 * run.eta * run.at), tolerance=MANY_STEPS, **at)
        yield from self._curated(seed)

    def _curated(self, seed: int) -> Iterator[Evidence]:
        """Until every margin is 1, orthonormal embeddings: uniform frequencies are the fastest."""
        rng = rng_for(seed, "C66")
        margins = lambda p, t: binary.flow_margin(t, 2 * p)
        for N in (2, 5, 20):
            even = (1 - 1 + np.e) / (2 / N)  # G(1) - G(0) over the rate
            yield equal(margins(1 / N, even), 1.0, tokens=N)
            p = rng.dirichlet(np.ones(N), 50)
            yield at_most(margins(p, even).min(1), 1.0, tokens=N)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        run = flows(seed)
        low, high = interference.half_sum_bounds(run.at, run.alpha, run.p1, run.c)
        yield between(low, run.half_sum, high, tolerance=1e-8)
        run = descents(seed)
        bound = interference.descent_half_sum_bound(run.at, run.eta, run.alpha, run.p1, run.c)
        yield at_least(run.half_sum, bound, tolerance=MANY_STEPS)
        yield from self._curated(seed)

    def certificates(self) -> list[Certificate]:
        first = sum(pair_descent(fmpq(19, 20), fmpq(3, 4), 2, 1000, 1)[1], arb(0)) / 2
        c2 = 8 * fmpq(1, 20) * 2 * fmpq(27, 64) * 16
        statement = "α = .95, p_1 = 3/4, c = 2, η = 1000, t = 1: γ_2 ≤ log(c_2 ηt + 1), the flow's upper bound"
        return [Certificate(statement, first, "<=", (1 + 1000 * arb(c2)).log())]
