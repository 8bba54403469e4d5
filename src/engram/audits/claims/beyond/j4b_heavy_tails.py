"""J4b: the error of random memories for heavy tails."""

import functools
from collections.abc import Iterator

import numpy as np

from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, between
from engram.audits.claims._checks import Checks
from engram.capacity import Scheme, storage_error
from engram.theory import scaling

_DIMS = {"threshold": (12, 20, 32, 48), "separate": (5, 8, 13, 20), "frequency": (64, 256, 1024)}
_DRAWS = {"threshold": 10, "separate": 24, "frequency": 24}


@functools.lru_cache(maxsize=32)
def _errors(seed: int, scheme: Scheme, N: int, M: int, a: float) -> np.ndarray:
    """Mean errors over draws, for each dimension."""

    def draw(d: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng((seed, d, k))
        E, U = (rng.normal(size=(n, d)) for n in (N, M))
        return (
            E / np.linalg.norm(E, axis=1)[:, None],
            U / np.linalg.norm(U, axis=1)[:, None],
            np.arange(N) % M,
        )

    return np.array(
        [
            np.mean([storage_error(*draw(d, k), scheme, exponent=a) for k in range(_DRAWS[scheme])])
            for d in _DIMS[scheme]
        ]
    )


def _exponent(*which) -> float:
    return -np.polyfit(np.log(_DIMS[which[1]]), np.log(_errors(*which)), 1)[0]


class J4b(Checks):
    def printed(self, seed: int) -> Evidence:
        """As printed: outer products have a - 1 with as many classes as tokens, too."""
        return between(0.8, _exponent(seed, "threshold", 512, 512, 1.5) / 0.5, 1.2)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        for a in (1.5, 2.0):
            many, few = scaling.error_exponent(a, None), scaling.error_exponent(a, 5)
            at = {"exponent": a}
            # Logarithms and small d lower fitted exponents, by these factors at most.
            yield between(0.8, _exponent(seed, "threshold", 512, 512, a) / many, 1.08, **at)
            yield between(0.55, _exponent(seed, "threshold", 400, 5, a) / few, 1.02, **at)
            if a == 2.0:
                yield between(0.94, _exponent(seed, "separate", 400, 5, a) / few, 1.06, **at)
            weighed = _exponent(seed, "frequency", 128, 128, a) / scaling.error_exponent(
                a, None, "frequency"
            )
            yield between(0.9, weighed, 1.35, **at)

    def curves(self) -> Curves:
        dims = np.array(_DIMS["threshold"])
        true = _errors(0, "threshold", 512, 512, 1.5)
        law = lambda b: true[0] * (dims / dims[0]) ** -b
        series = {
            "true": true,
            "printed": law(0.5),
            "corrected": law(scaling.error_exponent(1.5, None)),
        }
        return Curves(
            "error of outer products, M = N, a = 1.5",
            ("dimension", dims),
            series,
            "error",
            log_x=True,
            log_y=True,
        )
