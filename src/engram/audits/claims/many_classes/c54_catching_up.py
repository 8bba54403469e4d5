"""C54: how rare tokens catch up."""

from collections.abc import Iterator

import numpy as np
from flint import fmpq

from engram.audits._balls import descent_margins
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, both, equal
from engram.audits._runs import descend_token
from engram.audits.claims._checks import Checks

_X = np.geomspace(1e-2, 1e3, 96)  # η c of the frequent token


def _ratios(p1: float) -> np.ndarray:
    """The rare token's margin over the frequent one's, for each learning rate and step."""
    margins = lambda x: descend_token(x, np.ones(96), np.arange(51))[:, 1:]
    return margins(_X * (1 - p1) / p1) / margins(_X)


class C54(Checks):
    @all_of
    def _catches_up(self, largest: float) -> Iterator[Evidence]:
        few, step = largest >= _X, np.arange(1, 51)[None, :]
        at = {"learning_rate_times_rate": _X[few][1:, None], "step": step, "tolerance": 1e-9}
        for p1 in (0.501, 0.51, 0.6, 0.75, 0.9, 0.99):
            yield at_least(np.diff(_ratios(p1)[few], axis=0), 0.0, **at, p1=p1)

    def printed(self, seed: int) -> Evidence:
        return self._catches_up(np.inf)

    def corrected(self, seed: int) -> Evidence:
        ratio = _ratios(0.9)
        least = equal(ratio[-1], 1 / 9, tolerance=1e-6)
        return both(self._catches_up(3.0), least, at_least(ratio[:, 19].max(), 0.5))

    def certificates(self) -> list[Certificate]:
        ratio = lambda x: descent_margins(x / 9, 20)[20] / descent_margins(x, 20)[20]
        statement = "p = (9/10, 1/10), 20 steps: the ratio of margins at ηc_1 = 100 is at least that at ηc_1 = 5"
        return [Certificate(statement, ratio(fmpq(100)), ">=", ratio(fmpq(5)))]

    def curves(self) -> Curves:
        title = "margin of the rare token over the frequent one after 20 steps (p = 0.9, 0.1)"
        series = {"true": _ratios(0.9)[:, 19]}
        return Curves(title, ("η c of the frequent token", _X), series, "ratio", log_x=True)
