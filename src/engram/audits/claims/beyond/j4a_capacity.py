"""J4a: how many tokens random memories store."""

from collections.abc import Iterator

import numpy as np

from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_most, between, equal
from engram.audits.claims._checks import Checks
from engram.capacity import capacity_curve, storage_probability
from engram.theory import scaling


def _over_law(d: int, draws: int, seed: int) -> float:
    """N δ(N) / d² at the 50 % point."""
    curve = capacity_curve(d, draws=draws, key=seed)
    N = float(curve.half.values[0])
    return (
        np.interp(
            N,
            (int(N), int(N) + 1),
            [n * scaling.parameters_per_token(n) for n in (int(N), int(N) + 1)],
        )
        / d**2
    )


class J4a(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        # Two classes: the law is Cover's, and so are the draws (Kolmogorov's bound at one in a thousand).
        for d in (2, 5, 40):
            yield equal(storage_probability(2 * d, d), 0.5)
            yield equal(scaling.capacity(d, 2), 2 * d)
        stored = capacity_curve(5, num_classes=2, draws=150, key=seed).stored.values[0]
        N = np.arange(4, 20)
        share = (stored[:, None] >= N).mean(0)
        yield at_most(np.abs(share - storage_probability(N, 5)).max(), 1.95 / np.sqrt(150))
        yield equal(scaling.parameters_per_token(3), 5 / 6)
        large = scaling.parameters_per_token(10**6) / np.log(10**6)
        yield between(1.4, large, 2.0)
        # As many classes as tokens: near the law, nearer for larger d, with exponent 2.
        small, larger = _over_law(6, 150, seed), _over_law(16, 24, seed)
        yield between(1.0, np.array([small, larger]), [1.18, 1.13], dim=[6, 16])
        exponent = 2 + np.log(larger / small) / np.log(16 / 6)
        yield between(1.91, exponent, 2.02)

    def curves(self) -> Curves:
        dims = np.array([4, 6, 8, 11])
        curve = capacity_curve(dims, draws=30)
        series = {"true": curve.half.values, "corrected": curve.law.values}
        title = (
            "number of tokens that half of 30 random memories store; corrected: the law of cones"
        )
        return Curves(title, ("dimension", dims), series, "N", log_x=True, log_y=True)
