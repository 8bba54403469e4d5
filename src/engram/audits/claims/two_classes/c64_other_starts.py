"""C64: Descent from starts other than zero."""

from collections.abc import Iterator

import numpy as np

from engram.audits._evidence import Evidence, all_of, at_most
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_token
from engram.audits.claims._checks import Checks
from engram.theory import binary


class C64(Checks):
    def _late_losses(self, seed: int) -> tuple[np.ndarray, ...]:
        """X = ηc, starts, the first step with a margin that is not negative, and x (t − t_0) times the loss."""
        rng, steps = rng_for(seed, "C64"), np.arange(4001)
        x, start = 10 ** rng.uniform(-1.5, 2, 96), rng.uniform(-4, -0.1, 96)
        x[0], start[0] = 0.1, -1.0
        m = descend_token(x, np.ones(96), steps, start)
        first = np.where((m >= 0).any(1), (m >= 0).argmax(1), 4001)
        after = np.maximum(steps[None, :] - first[:, None], 0)
        return x, start, first, after * x[:, None] * np.logaddexp(0.0, -m)

    def printed(self, seed: int) -> Evidence:
        x, start, _, scaled = self._late_losses(seed)
        at = {"learning_rate_times_rate": x[:, None], "start": start[:, None]}
        return at_most(scaled, 1.0, **at)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        x, start, first, scaled = self._late_losses(seed)
        yield at_most(scaled, binary.LOSS_CONSTANT, start=start[:, None])
        reached = first <= 4000
        latest = 1 + (1 - start - np.exp(start)) / x
        yield at_most(first[reached], latest[reached], start=start[reached])
