"""J3a: tokens on one line: below half of the edge descent converges from everywhere."""

from collections.abc import Iterator

import numpy as np

from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_most, equal, true
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.theory import cycles


def _tokens(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two to six tokens on a line, of lengths over three decades, which pull both ways."""
    N = int(rng.integers(2, 7))
    z = 10 ** rng.uniform(-1.5, 1.5, N) * rng.choice([-1, 1], N)
    z[:2] = abs(z[0]), -abs(z[1])
    return z, rng.dirichlet(np.ones(N)) * 0.95 + 0.05 / N


class J3a(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "J3a")
        for index in range(60):
            z, p = _tokens(rng)
            g = cycles.minimiser(z, p)
            H = cycles.curvature(g, z, p)
            reach = np.geomspace(1e-3, 1e3, 25) * (1 + abs(g))
            before, after = (np.logaddexp(0.0, -z * (g + 1 + move)) @ p for move in (-1e-4, 1e-4))
            around = (after - before) / 2e-4
            yield equal(cycles.slope(g + 1, z, p), around, tolerance=1e-4, model=index)
            # Where all margins are on the side of the minimiser, the slope is at most H times the distance.
            side = np.sign(g) if g != 0 else 1.0
            far = g + side * reach
            yield at_most(side * cycles.slope(far, z, p) / (H * reach), 1.0, tolerance=1e-7, model=index)  # fmt: skip
            share = np.array([[0.5], [0.9], [1.0]])
            starts = np.concatenate([g - reach[::6], g + reach[::6]])
            end = cycles.descend(starts, share / H, z, p, skip=600, keep=2)
            near = np.abs(end[1] - g) <= 1e-6 * (1 + abs(g))
            # What has not arrived is on its way over a flat stretch: each step is towards the minimiser, and shorter.
            onward = (end[1] - g) * (end[0] - g) > 0
            shorter = np.abs(end[1] - g) < np.abs(end[0] - g)
            yield true(near | (onward & shorter), model=index)

    def curves(self) -> Curves:
        z, p, eta, found = cycles.tokens_with_cycle(1.5)
        steps, series = np.arange(25), {}
        for share in (1.0, 1.5):
            path = cycles.descend(found.points[0] * 1.02, eta * share / 1.5, z, p, skip=0, keep=25)
            series[f"η H = {share:g}"] = path
        return Curves("one start, the data of J3b at 3/2", ("step", steps), series, "g")
