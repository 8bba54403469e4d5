"""Random models that several checks share."""

from collections.abc import Iterator

import numpy as np

from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.problem import Problem

MODELS = 40  # random models per check; one shape, so that everything compiles once


TOKENS, CLASSES, DIM = 4, 3, 5


def models(seed: int, name: str, count: int = MODELS) -> Iterator[tuple[Problem, np.ndarray]]:
    rng = rng_for(seed, name)
    for _ in range(count):
        yield random_problem(rng, TOKENS, CLASSES, DIM), random_weights(rng, DIM)
