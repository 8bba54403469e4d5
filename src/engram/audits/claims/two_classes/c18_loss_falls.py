"""C18: the loss falls at every step."""

from collections.abc import Iterator

import numpy as np

from engram.audits._evidence import Evidence, all_of, at_least, at_most
from engram.audits.claims._checks import Checks
from engram.audits.claims.two_classes._runs import descents
from engram.audits.claims.two_classes.c17_loss_bound import loss_bound
from engram.theory import binary


class C18(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        run = descents(seed)
        cases = run.part(slice(None), first=1).cases
        yield at_most(np.diff(np.logaddexp(0.0, -run.margins), axis=1), 0.0, **cases)
        yield at_least(np.diff(run.margins, axis=1), 0.0, **cases)
        yield loss_bound(seed, binary.LOSS_CONSTANT)
