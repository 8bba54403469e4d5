"""Random and extreme parameters for the checks, the same for one seed on every machine."""

import zlib
from typing import NamedTuple

import numpy as np

from engram.problem import Problem


def rng_for(seed: int, name: str) -> np.random.Generator:
    """A generator of its own for each check, so that one check's draws do not move another's."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


class Pairs(NamedTuple):
    """Parameters of two-token runs, one entry per run."""

    correlation: np.ndarray
    p1: np.ndarray
    contrast: np.ndarray
    learning_rate: np.ndarray


def pairs(
    rng: np.random.Generator,
    count: int,
    *,
    nearest: float = 1e-3,
    rates: tuple[float, float] = (1e-3, 1e4),
    contrasts: tuple[float, float] = (0.1, 10.0),
) -> Pairs:
    """Correlations up to `nearest` from -1 and 1, imbalances up to 1000 to 1, steps over decades."""
    alpha = rng.uniform(-1, 1, count)
    near = 10 ** rng.uniform(np.log10(nearest), 0, count)
    kind = rng.integers(0, 4, count)
    alpha = np.where(kind == 0, 1 - near, np.where(kind == 1, near - 1, alpha))
    uneven = 1 - 10 ** rng.uniform(-3, -0.31, count)
    p1 = np.clip(np.where(rng.random(count) < 0.3, uneven, rng.uniform(0.5, 1, count)), 0.5, 0.999)
    contrast = 10 ** rng.uniform(np.log10(contrasts[0]), np.log10(contrasts[1]), count)
    eta = 10 ** rng.uniform(np.log10(rates[0]), np.log10(rates[1]), count)
    # The corners, whatever was drawn: equal frequencies, no correlation, the paper's own setting.
    alpha[:4], p1[:4] = (0.0, 0.95, 0.5, -0.5), (0.75, 0.75, 0.5, 0.75)
    contrast[:4], eta[:4] = 2.0, (1.0, 10.0, 1.0, 1.0)
    return Pairs(alpha, p1, contrast, eta)


def random_problem(
    rng: np.random.Generator, N: int, M: int, d: int, *, orthogonal: bool = False
) -> Problem:
    """Gaussian embeddings (or orthogonal inputs of random lengths), random frequencies and targets."""
    inputs, outputs = rng.normal(size=(N, d)), rng.normal(size=(M, d))
    if orthogonal:
        rows = np.linalg.qr(rng.normal(size=(d, d)))[0][:N]
        inputs = rows * rng.uniform(0.5, 2.0, N)[:, None]
    p = rng.dirichlet(np.ones(N)) * 0.9 + 0.1 / N
    return Problem(inputs, outputs, p / p.sum(), rng.integers(0, M, N))


def random_weights(rng: np.random.Generator, d: int, largest: float = 10.0) -> np.ndarray:
    """Gaussian weights, small to large."""
    return rng.normal(size=(d, d)) * 10 ** rng.uniform(-1, np.log10(largest))
