"""J5b: Muon's first step with orthonormal embeddings."""

from collections.abc import Iterator

import numpy as np

from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, between, equal
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.theory import muon


def _laws(rng: np.random.Generator) -> list[np.ndarray]:
    M = 24
    zipf = [np.arange(1.0, M + 1) ** -a for a in (0.0, 0.5, 1.0, 2.0)]
    rare = [np.r_[np.ones(M - 1), epsilon] for epsilon in (0.3, 0.03, 1e-3)]
    drawn = [rng.dirichlet(np.full(size, a)) for size in (2, 3, 8, 24) for a in (1.0, 5.0)]
    return [p / p.sum() for p in (*zipf, *rare, 0.7 ** np.arange(M), *drawn)]


def _by_singular_vectors(p: np.ndarray) -> np.ndarray:
    """Margins of the polar factor of the first gradient, in the canonical basis."""
    M = len(p)
    left, _, right = np.linalg.svd((np.eye(M) - 1 / M) * p)
    polar = left[:, :-1] @ right[:-1]
    return np.diag(polar) - np.where(np.eye(M) > 0, -np.inf, polar).max(0)


class J5b(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for p in _laws(rng_for(seed, "J5b")):
            M, m = len(p), _by_singular_vectors(p)
            # Singular vectors are known up to rounding over the least gap between singular values.
            yield equal(muon.first_step_margins(1.0, p), m, tolerance=1e-12 / p.min(), tokens=M)
            low, high = muon.first_step_ratio_bounds(p)
            yield between(low, m.min() / m.max(), high, tokens=M)
            v = 1 / ((p.min() / p) ** 2).sum()
            yield equal([low, high], [(1 - v) * (1 - 1 / M), (1 - v / 2) * (M / (M - 1)) ** 2])
        ratio = lambda p: np.divide(*np.quantile(muon.first_step_margins(1.0, p / p.sum()), (0, 1)))
        # Where the ratio tends to 1 and where it does not, by numbers found apart.
        yield at_least(ratio(1 / np.arange(1.0, 401)), 0.99)
        yield equal(ratio(0.5 ** np.arange(40.0)), 0.4176, tolerance=2e-4)
        yield equal(1e3 * ratio(np.r_[np.ones(399), 1e-4]), 2.0, tolerance=1e-3)

    def curves(self) -> Curves:
        p = 1 / np.arange(1.0, 51)
        p = p / p.sum()
        margins = {"true": _by_singular_vectors(p), "corrected": muon.first_step_margins(1.0, p)}
        title = "margins after exact Muon's first step, Zipf's law; printed: descent, p_x over the largest"
        return Curves(
            title,
            ("token", np.arange(1.0, 51)),
            margins | {"printed": p / p[0]},
            "margin over η",
            log_x=True,
        )
