"""C03: what multiplies the Brownian motion of the stochastic flow."""

import numpy as np
from flint import fmpq

from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, equal
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits.claims._checks import Checks
from engram.memory import MemorySystem


class C03(Checks):
    def _noise(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The covariance of one-sample gradients, and the factor that multiplies N Brownian motions."""
        rng = rng_for(seed, "C03")
        problem, W = random_problem(rng, 3, 3, 3), random_weights(rng, 3, 1.0)
        p, system = problem.probs, MemorySystem(problem)
        gradient = lambda law: np.asarray(system.grad(W, law)).ravel()
        one = np.array([gradient(row) for row in np.eye(3)])
        mean = p @ one
        covariance = (one - mean).T @ (p[:, None] * (one - mean))
        # dp = sqrt(p) dB - p sum(sqrt(p) dB): column k is what the k-th Brownian motion does to the law.
        factor = np.array([gradient(np.sqrt(p[k]) * (np.eye(3)[k] - p)) for k in range(3)]).T
        return covariance, factor

    def printed(self, seed: int) -> Evidence:
        covariance, _ = self._noise(seed)
        return equal(covariance @ covariance.T, covariance, entry=np.arange(9)[:, None])

    def corrected(self, seed: int) -> Evidence:
        covariance, factor = self._noise(seed)
        return equal(factor @ factor.T, covariance, entry=np.arange(9)[:, None])

    def certificates(self) -> list[Certificate]:
        statement = "a coefficient 1/4 gives increments of variance 1/4 per unit of time"
        return [Certificate(statement, fmpq(1, 4) * fmpq(1, 4), "==", fmpq(1, 4))]
