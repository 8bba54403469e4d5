"""C19: the two families of equations for orthogonal outputs."""

from collections.abc import Iterator

import numpy as np

from engram import particles
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.audits.claims.many_classes._runs import family
from engram.theory import multiclass


class C19(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C19")
        for index in range(20):
            norms, rate = rng.uniform(0.5, 2.0, 4), 10 ** rng.uniform(-1, 1)
            problem, w = family(rng, norms, rate), rng.normal(size=(1, 4)) * 3
            velocity = multiclass.flow_velocity(w, np.array([rate]), norms)
            yield equal(particles.force(problem, w), velocity, tolerance=1e-13, model=index)
            # From zero, with one length for the target and one for the others, they have a closed form.
            first, other = norms[0] ** 2, norms[1] ** 2
            norms[2:], t = norms[1], 10 ** rng.uniform(-1, 3)
            before, m, after = multiclass.flow_margin(
                t * np.array([1 - 1e-4, 1.0, 1 + 1e-4]),
                rate,
                4,
                target_norm=norms[0],
                other_norm=norms[1],
            )
            w = m * np.array([[3 * first, -other, -other, -other]]) / (3 * first + other)
            velocity = multiclass.flow_velocity(w, np.array([rate]), norms)[0]
            slope = (after - before) / (2e-4 * t)
            yield equal(slope / (velocity[0] - velocity[1]), 1.0, tolerance=1e-6, model=index)
