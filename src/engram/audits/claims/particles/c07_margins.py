"""C07: a token is right when its margins are positive."""

from functools import partialmethod

import numpy as np
from flint import fmpq

from engram import memory
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, true
from engram.audits._parameters import random_problem, rng_for
from engram.audits.claims._checks import Checks
from engram.audits.claims._models import CLASSES, DIM, MODELS, TOKENS


class C07(Checks):
    def _classified(self, seed: int, own_margin: float) -> Evidence:
        """Whether all margins are positive exactly where the token is right, given the one against its own class."""
        rng, same = rng_for(seed, "C07"), []
        for _ in range(MODELS):
            problem = random_problem(rng, TOKENS, CLASSES, DIM)
            W = -memory.grad(problem, np.zeros((DIM, DIM))) + 0.2 * rng.normal(size=(DIM, DIM))
            m = np.array(memory.class_margins(problem, W))
            m[np.arange(TOKENS), problem.targets] = own_margin
            same.append((m > 0).all(1) == (memory.predict(problem, W) == problem.targets))
        return true(
            np.array(same), model=np.arange(MODELS)[:, None], token=np.arange(TOKENS)[None, :]
        )

    printed = partialmethod(_classified, own_margin=0.0)
    corrected = partialmethod(_classified, own_margin=np.inf)

    def certificates(self) -> list[Certificate]:
        return [
            proof("m_{f*(x)}(x), the margin against the own class, is zero", fmpq(0), "==", fmpq(0))
        ]
