"""C21: the equation of the tightest margin."""

from collections.abc import Iterator

import numpy as np

from engram import particles
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.audits.claims.many_classes._runs import family
from engram.theory import multiclass


class C21(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C21")
        for index in range(20):
            rate = 10 ** rng.uniform(-1, 1)
            problem, w = family(rng, np.ones(4), rate), rng.normal(size=(1, 4)) * 3
            force = particles.force(problem, w)
            velocity = multiclass.margin_velocity(w, np.array([rate]))
            yield equal(force[:, :1] - force[:, 1:], velocity, tolerance=1e-13, model=index)
            c = np.exp(w[0, 1:] - w[0, 1:].max()).sum()
            yield at_least(c, 1.0, model=index)
            yield at_most(c, 3.0, model=index)
