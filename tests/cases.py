"""Named problems that every law is tested on; a new row is tested everywhere."""

import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

import engram


def _noisy() -> engram.Problem:
    base = engram.on_sphere(5, 6, 4, 3)
    table = np.random.default_rng(0).dirichlet(np.ones(4), 6)
    return engram.Problem(base.inputs, base.outputs, base.probs, table)


def _unseen_token() -> engram.Problem:
    base = engram.on_sphere(6, 5, 4, 8)
    return engram.Problem(base.inputs, base.outputs, [0.4, 0.0, 0.2, 0.2, 0.2], base.targets)


def _rectangular() -> engram.Problem:
    rng = np.random.default_rng(7)
    inputs, outputs = rng.standard_normal((6, 5)), rng.standard_normal((4, 3))
    return engram.Problem(inputs, outputs, rng.dirichlet(np.ones(6)), rng.integers(0, 4, 6))


class _Problems(Mapping[str, engram.Problem]):
    """Problems by name, each made when it is first asked for, so that collecting tests makes none."""

    def __init__(self, makers: dict[str, Callable[[], engram.Problem]]):
        self._makers = {name: functools.cache(make) for name, make in makers.items()}

    def __getitem__(self, name: str) -> engram.Problem:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


# Each shape is compiled once for every function under test, and that is most of what the tests take: a new
# problem shares a shape with another where it can.
PROBLEMS = _Problems(
    {
        "two tokens": lambda: engram.two_tokens(0.95, 0.75),
        "opposed tokens": lambda: engram.two_tokens(-1.0, 0.6),
        "orthonormal": lambda: engram.orthonormal(5, 4, dim=8, exponent=1.0, key=0),
        "sphere, d > N": lambda: engram.on_sphere(1, 5, 4, 8),
        "a token that never comes": _unseen_token,
        "sphere, d < N < M": lambda: engram.on_sphere(2, 9, 12, 3, targets="random"),
        "not separable": lambda: engram.on_sphere(2, 9, 2, 3, targets="random"),
        "one token in one dimension": lambda: engram.gaussian(5, 1, 2, 1),
        "noisy targets": _noisy,
        "k < d": _rectangular,
    }
)


def weights(problem: engram.Problem, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal(problem.zero_weights.shape)
