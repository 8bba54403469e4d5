"""J2d: mini-batches, path by path: a token is never behind the flow on its own clock."""

from collections.abc import Iterator

import numpy as np

from engram.audits._claim import Curves
from engram.audits._evidence import MANY_STEPS, Evidence, all_of, at_least, equal
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.theory import binary, large_steps, multiclass


def _outputs(rng: np.random.Generator, M: int, d: int) -> np.ndarray:
    """Two outputs of any kind, or M equidistant ones around a common offset."""
    if M == 2:
        return rng.normal(size=(2, d))
    frame = np.linalg.qr(rng.normal(size=(d, d)))[0][:M]
    return rng.uniform(0.5, 1.5) * frame + rng.normal(size=d)


def _path(rng: np.random.Generator, M: int, size: float, batch: int, steps: int, scale: float = 2.0) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Descent on mini-batches, with the matrix W: speeds, the tokens' clocks and their mean margins, (steps, tokens)."""
    d, p, target = 6, np.array([0.7, 0.2, 0.1]), np.array([0, 1, M - 1])
    E = np.linalg.qr(rng.normal(size=(d, d)))[0][:3] * rng.uniform(0.5, 1.5, 3)[:, None]
    U, W = _outputs(rng, M, d), rng.normal(size=(d, d)) * rng.uniform(0, scale)
    speed = (E * E).sum(1) * ((U[0] - U[1]) ** 2).sum()
    eta = size / (speed @ p)
    counts, own, means = rng.multinomial(batch, p, steps) / batch, np.eye(M)[target], []
    for share in [*counts, None]:
        w = E @ W.T @ U.T
        means.append(((w * own).sum(1, keepdims=True) - w).sum(1) / (M - 1))
        if share is not None:
            q = np.exp(w - w.max(1, keepdims=True))
            q /= q.sum(1, keepdims=True)
            W = W + eta * ((share[:, None] * (own - q)) @ U).T @ E
    clock = np.concatenate([np.zeros((1, 3)), np.cumsum(eta * counts, 0)])
    return speed, clock, np.array(means)


class J2d(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "J2d")
        for index in range(48):
            M, size = (2, 3, 6)[index % 3], 10 ** rng.uniform(-2, 2.5)
            speed, clock, m = _path(rng, M, size, int(rng.integers(1, 9)), 300)
            bound = large_steps.batch_margin_bound(clock, speed, m[0], M)
            at = {"classes": M, "size_of_steps": size}
            yield at_least(m, bound, tolerance=MANY_STEPS, **at)
        for M in (2, 4):  # small steps: the bound is the flow's own equation, and is met
            speed, clock, m = _path(rng, M, 0.002, 4, 2500, scale=0.0)
            bound = large_steps.batch_margin_bound(clock, speed, m[0], M)
            yield equal(m[-1], bound[-1], tolerance=2e-3, classes=M)
        # The whole batch: the bounds for descent.
        t = np.arange(50.0)
        yield equal(large_steps.batch_margin_bound(3 * 0.2 * t, 1.7, -1.0), binary.descent_margin_bound(t, 0.2 * 1.7, 3.0, -1.0))  # fmt: skip
        yield equal(large_steps.batch_margin_bound(0.6 * t, 2.0, 0.0, 7), multiclass.descent_margin_bound(t, 0.6, 1.0, 7))  # fmt: skip

    def curves(self) -> Curves:
        speed, clock, m = _path(rng_for(0, "J2d curves"), 2, 3.0, 1, 200, scale=0.0)
        bound = large_steps.batch_margin_bound(clock, speed, m[0])
        series = {"true, the rarest token": m[:, 2], "corrected, the bound": bound[:, 2]}
        return Curves("a path of mini-batches of one", ("step", np.arange(201)), series, "margin")
