"""C56: how many memories the best W stores."""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
from scipy.stats import binomtest

from engram.audits._evidence import Evidence, all_of, at_least, between, both, frequency
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.capacity import is_separable
from engram.problem import on_sphere


def _recalled(rng: np.random.Generator, N: int, d: int, stored: int) -> int:
    """How many of N random associations a sum of outer products of the first `stored` recalls."""
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
    E, U = unit(rng.normal(size=(N, d))), unit(rng.normal(size=(N, d)))
    W = U[:stored].T @ E[:stored]
    return int((np.argmax(E @ W.T @ U.T, 1) == np.arange(N)).sum())


_DRAWS, _DIMS = 16, np.array([16, 32, 64])


@functools.lru_cache(maxsize=2)
def _capacities(seed: int) -> dict[str, np.ndarray]:
    """Associations recalled per dimension, mean and standard error over draws, shape (dimensions, 2).

    By outer products of all associations, or of the most frequent of 8d, at the number that is recalled best.
    """
    rng, shares = rng_for(seed, "C56"), (1, 1.5, 2, 3, 4, 6, 8)

    def best(d: int, of_all: bool) -> tuple[float, float]:
        recalled = lambda n: _recalled(rng, n if of_all else 8 * d, d, n)
        counts = [[recalled(int(d * share)) for _ in range(_DRAWS)] for share in shares]
        most = np.array(max(counts, key=np.mean)) / d
        return most.mean(), most.std(ddof=1) / np.sqrt(_DRAWS)

    names = {"outer products": True, "the most frequent": False}
    return {name: np.array([best(d, of_all) for d in _DIMS]) for name, of_all in names.items()}


@functools.lru_cache(maxsize=2)
def _stored(seed: int) -> dict[tuple[int, str], np.ndarray]:
    """Whether N = 2d random associations can be stored, with as many classes or with two; 80 draws each."""
    rng = rng_for(seed, "C56 stored")
    draw = lambda d, M, targets: on_sphere(int(rng.integers(2**31)), 2 * d, M, d, targets=targets)
    return {
        (d, name): np.array([is_separable(draw(d, M, targets)) for _ in range(80)])
        for d in (2, 3, 6)
        for name, M, targets in (("M = N", 2 * d, "identity"), ("M = 2", 2, "random"))
    }


class C56(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """As printed: between d/2 and 2d, however W is fitted and for every d, short of three standard errors."""
        for rows in _capacities(seed).values():
            for d, (mean, error) in zip(_DIMS, rows, strict=True):
                yield between(0.5, mean, 2.0, tolerance=3 * error, dimension=d)
        # The best W: half of the draws with M = N = 2d can be stored at most, however large d is.
        yield frequency(_stored(seed)[6, "M = N"], below=0.5)

    def corrected(self, seed: int) -> Evidence:
        stored, (products, _) = _stored(seed), _capacities(seed).values()
        means, errors = products.T
        evidence = both(
            # Cover: half of the labellings of N = 2d points can be stored.
            *(frequency(stored[d, "M = 2"], above=0.5) for d in (2, 3, 6)),
            *(frequency(stored[d, "M = 2"], below=0.5) for d in (2, 3, 6)),
            # Sums of outer products recall more per dimension the larger d, each time by three standard errors.
            at_least(
                np.diff(means) - 3 * np.hypot(errors[1:], errors[:-1]), 0.0, dimension=_DIMS[1:]
            ),
            at_least(means[-1] - 3 * errors[-1], 2.5),
            frequency(stored[2, "M = N"], below=0.5),
            frequency(stored[6, "M = N"], above=0.8),
        )
        return dataclasses.replace(evidence, note="; ".join(self._notes(seed)))

    def _notes(self, seed: int) -> Iterator[str]:
        for (d, classes), hits in _stored(seed).items():
            low, high = binomtest(int(hits.sum()), hits.size).proportion_ci(method="wilson")
            yield f"N = 2d, d = {d}, {classes}: {hits.mean():.2f} stored (95 %: {low:.2f} to {high:.2f})"
        for name, rows in _capacities(seed).items():
            each = zip(_DIMS, rows, strict=True)
            yield f"{name}: " + ", ".join(
                f"{mean:.2f}d ± {error:.2f}d at d = {d}" for d, (mean, error) in each
            )
