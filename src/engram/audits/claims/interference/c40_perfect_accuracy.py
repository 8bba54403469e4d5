"""C40: how many steps to perfect accuracy."""

from collections.abc import Iterator

import numpy as np
from flint import fmpq

from engram.audits._balls import first_step
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, all_of, at_least, true
from engram.audits._parameters import Pairs, pairs, rng_for
from engram.audits._runs import descend_pairs, steps_to
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import RUNS
from engram.theory import interference


def _steps_to_perfect(drawn: Pairs) -> np.ndarray:
    """The first recorded step with both margins positive; NaN if there is none in a million."""
    at = steps_to(1_000_000, dense=256, sparse=48)
    right = (descend_pairs(*drawn, at) > 0).all(2)
    return np.where(right.any(1), at[right.argmax(1)], np.nan)


class C40(Checks):
    def printed(self, seed: int) -> Evidence:
        """As printed: every learning rate η ≥ 0 and every correlation up to 1."""
        eta, alpha = np.repeat([1.0, 0.0, 10.0], 32), np.tile([0.5, 0.9, 1.0, -1.0], 24)
        reached = _steps_to_perfect(Pairs(alpha, np.array(0.75), np.array(2.0), eta))
        return true(np.isfinite(reached), correlation=alpha, learning_rate=eta)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C40")
        drawn = pairs(rng, RUNS, nearest=0.05, rates=(0.1, 100.0), contrasts=(1.0, 4.0))
        drawn = drawn._replace(p1=np.minimum(drawn.p1, 0.95))
        yield true(np.isfinite(_steps_to_perfect(drawn)), **drawn._asdict())
        c, eta = np.array(2.0), np.array([1.0, 2, 3, 5, 10, 30, 100, 300, 1000])
        steps = _steps_to_perfect(Pairs(np.array(0.9), np.array(0.6), c, eta))
        yield true(steps[3] < steps[0] and steps[-1] > steps[3])
        alpha = np.array([0.1, 0.5, 0.8, 0.9, 0.95, 0.98])
        harder = _steps_to_perfect(Pairs(alpha, np.array(0.75), c, np.array(1.0)))
        yield at_least(np.diff(harder), 0.0, correlation=alpha[1:])
        # At 1e7 descent is a perceptron, short of ties; five percent may be those.
        giant = _steps_to_perfect(drawn._replace(learning_rate=np.array(1e7), contrast=c))
        each = zip(drawn.correlation, drawn.p1, strict=True)
        limit = np.array([float(interference.perceptron_steps(*pair)) for pair in each])
        alike = np.isfinite(giant) & (limit <= 256)
        yield at_least(np.mean(giant[alike] == limit[alike]), 0.95)

    def certificates(self) -> list[Certificate]:
        _, second = first_step(fmpq(1, 2), fmpq(3, 4), 2, 0)
        statement = "η = 0, α = 1/2, p_1 = 3/4: the second margin is still 0 after a step"
        return [proof(statement, second, "==", fmpq(0))]
