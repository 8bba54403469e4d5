"""C48: how often memories are forgotten."""

import dataclasses
import functools

import numpy as np

from engram.audits import _independent as independent
from engram.audits._evidence import Evidence, at_least, both, frequency
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks

_DRAWS = 400


@functools.lru_cache(maxsize=2)
def _random_planes(seed: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """For each N: whether the minimiser has excess risk, and whether it forgets the likeliest token."""
    rng, planes = rng_for(seed, "C48"), {}
    for N in (3, 5, 8, 12, 20, 40):
        angle = rng.uniform(0, 2 * np.pi, (_DRAWS, N))
        z = np.stack([np.cos(angle), np.sin(angle)], 2)
        p = np.broadcast_to(1 / np.arange(1, N + 1) / (1 / np.arange(1, N + 1)).sum(), (_DRAWS, N))
        least = independent.least_plane_error(z, p[:, None, :])
        g = independent.plane_minimiser(z, p)
        separable = least < 1e-12  # then the loss leads to a direction without error
        wrong = np.einsum("bni,bi->bn", z, g) <= 0
        excess = ~separable & ((p * wrong).sum(1) > least + 1e-9)
        forgot = ~separable & wrong[:, 0]
        planes[N] = excess, forgot
    return planes


class C48(Checks):
    def printed(self, seed: int) -> Evidence:
        return frequency(_random_planes(seed)[40][1], above=0.5)

    def corrected(self, seed: int) -> Evidence:
        planes = _random_planes(seed)
        share = {N: excess.mean() for N, (excess, _) in planes.items()}
        often = [frequency(planes[N][0], above=0.5) for N in (20, 40)]
        error = 3 * np.sqrt(0.5 / _DRAWS)
        rising = at_least(np.diff(list(share.values())), 0.0, tolerance=error)
        evidence = both(*often, frequency(planes[40][1], below=0.1), rising)
        note = ", ".join(f"{N}: {value:.2f}" for N, value in share.items())
        return dataclasses.replace(evidence, note=f"excess risk by N: {note}")
