"""C24: whether larger learning rates are faster."""

from collections.abc import Iterator
from functools import partialmethod

import numpy as np
from flint import arb, fmpq

from engram import particles
from engram.audits._balls import descent_margins
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, equal, true
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_token
from engram.audits.claims._checks import Checks
from engram.audits.claims.many_classes._runs import family
from engram.problem import orthonormal
from engram.theory import multiclass


class C24(Checks):
    @all_of
    def _increments(self, seed: int, start: float) -> Iterator[Evidence]:
        rng = rng_for(seed, "C24")
        for index in range(20):
            rate, eta = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-3, 2)
            problem, w = family(rng, np.ones(4), rate), rng.normal(size=(1, 4)) * 3
            force = eta * particles.force(problem, w)
            rises = multiclass.descent_margin_steps(w, np.array([rate]), eta)
            yield equal(force[:, :1] - force[:, 1:], rises, tolerance=1e-12, model=index)
            yield at_least(rises, 0.0, model=index)
        # Margins after up to 50 steps, against those of a learning rate 10 % smaller.
        x, at = np.geomspace(1e-3, 1e4, 96), np.arange(51)
        gains = np.diff(descend_token(x, np.ones(96), at, start), axis=0)
        yield at_least(gains, 0.0, learning_rate_times_rate=x[1:, None], step=at[None, :])

    printed = partialmethod(_increments, start=-10.0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield self._increments(seed, start=0.0)
        # Two steps from zero with M classes: monotone in x = ηk while e^(6 − 4/M) ≥ 2M − 1, up to M = 198.
        x = np.linspace(1e-3, 30.0, 100_000)
        for M in (2, 3, 30, 100, 198, 199, 1000):
            two = lambda x, M=M: x + x * M / (np.exp(x) + M - 1)
            problem, w = orthonormal(1, M, targets=[0]), np.zeros((1, M))
            for _ in range(2):
                w = w + 1.5 * np.asarray(particles.force(problem, w))
            yield equal(w[0, 0] - w[0, 1], two(1.5), tolerance=1e-12, classes=M)
            slope = 1 + M / (np.exp(x) + M - 1) - x * M * np.exp(x) / (np.exp(x) + M - 1) ** 2
            yield true((slope > 0).all() == (np.exp(6 - 4 / M) >= 2 * M - 1), classes=M)

    def certificates(self) -> list[Certificate]:
        slow, fast = (descent_margins(x, 2, -10)[2] for x in (fmpq(19, 2), fmpq(21, 2)))
        statement = "M = 2, m_0 = −10, two steps: ηc = 10.5 is at least as far as 9.5"
        two = lambda x: x + x * 1000 / (arb(x).exp() + 999)
        many = "M = 1000, from zero, two steps: ηk = 7.5 is at least as far as 6.5"
        edge = lambda M: arb(fmpq(6 * M - 4, M)).exp()
        return [
            Certificate(statement, fast, ">=", slow),
            Certificate(many, two(fmpq(15, 2)), ">=", two(fmpq(13, 2))),
            proof(
                "M = 198 is the last number of classes with e^{6 − 4/M} ≥ 2M − 1",
                edge(198),
                ">",
                fmpq(395),
            ),
            proof("M = 199 is the first without", edge(199), "<", fmpq(397)),
        ]

    def curves(self) -> Curves:
        x = np.linspace(0.5, 20, 96)
        margin = descend_token(x, np.ones(96), np.arange(51), -10.0)[:, 2]
        title = "margin after two steps from m_0 = −10 (M = 2)"
        return Curves(title, ("η c", x), {"true": margin}, "margin")
