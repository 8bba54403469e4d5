"""C61: what Figure 6 shows."""

import functools
from collections.abc import Iterator

import numpy as np

from engram.audits._evidence import Evidence, all_of, at_least
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.problem import zipf


@functools.lru_cache(maxsize=6)
def _figure_6(seed: int, d: int, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Figure 6 for 96 draws, written out: margins, shape (draws, steps, 5), and losses."""
    rng, p, own = rng_for(seed, f"C61 {d}"), np.asarray(zipf(5), float), np.eye(5, dtype=bool)
    E, U = rng.normal(size=(2, 96, 5, d))
    E, U = (x / np.linalg.norm(x, axis=2, keepdims=True) for x in (E, U))
    across, up = E @ E.transpose(0, 2, 1), U @ U.transpose(0, 2, 1)
    w, margins, losses = np.zeros((96, 5, 5)), [], []
    for _ in range(100):
        q = np.exp(w - w.max(2, keepdims=True))
        q /= q.sum(2, keepdims=True)
        w = w + eta * across @ (p[:, None] * (own - q)) @ up
        lead = np.diagonal(w, axis1=1, axis2=2) - np.where(own, -np.inf, w).max(2)
        margins.append(lead)
        losses.append(
            (p * np.log(np.exp(w - np.diagonal(w, axis1=1, axis2=2)[..., None]).sum(2))).sum(1)
        )
    return np.stack(margins, 1), np.stack(losses, 1)


class C61(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """Means over draws, less three standard errors, are positive."""
        sure = lambda gains: at_least(gains.mean() - 3 * gains.std() / np.sqrt(len(gains)), 0.0)
        turns = lambda m: (np.diff(np.sign(np.diff(m, axis=1)), axis=1) != 0).sum((1, 2))
        for d in (3, 5, 10):
            (margins, losses), (_, fast) = _figure_6(seed, d, 1.0), _figure_6(seed, d, 10.0)
            yield sure(margins[:, 29, 0] - margins[:, 29, 4])
            yield sure(losses[:, -1] - fast[:, -1])
        (calm, _), (low, _), (high, _) = (_figure_6(seed, *case) for case in ((3, 1.0), (3, 10.0), (10, 10.0)))  # fmt: skip
        yield sure(turns(low) - turns(calm))
        yield sure(turns(low) - turns(high))
        yield sure(high[:, -1].min(1) - low[:, -1].min(1))
