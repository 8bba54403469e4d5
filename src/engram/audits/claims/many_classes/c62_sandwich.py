"""C62: the tightest margin's velocity between two bounds."""

from collections.abc import Iterator

import numpy as np

from engram.audits._evidence import Evidence, all_of, between
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.theory import multiclass


class C62(Checks):
    def _sandwich(self, seed: int, lower: int, upper: int) -> Iterator[Evidence]:
        """dt/dm against both sides, which have M + lower and M + upper where the paper has M + 1 and M."""
        rng = rng_for(seed, "C62")
        for index in range(60):
            M = int(rng.integers(3, 12))
            w = rng.normal(size=(1, M)) * 10 ** rng.uniform(-1, 1)
            if index % 3 == 0:
                w[0, 2] = w[0, 1:].max()  # a tie
                w[0, 1] = w[0, 2]
            k = 1 + int(w[0, 1:].argmax())
            tied, m = (w[0, 1:] == w[0, k]).sum(), w[0, 0] - w[0, k]
            pace = 1 / multiclass.margin_velocity(w, np.ones(1))[0, k - 1]
            low = np.exp(m) / (M + lower) + tied / (tied + 1)
            high = np.exp(m) / (tied + 1) + (M + upper) / (M + upper + 1)
            yield between(low, pace, high, classes=M)

    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        yield from self._sandwich(seed, 1, 0)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        yield from self._sandwich(seed, 0, -1)
