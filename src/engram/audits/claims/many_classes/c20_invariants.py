"""C20: what a flow keeps."""

import functools
from collections.abc import Iterator

import numpy as np
from flint import fmpq

from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_classes, flow_classes, steps_to
from engram.audits.claims._checks import Checks
from engram.audits.claims.many_classes._runs import SOLVER, TIMES
from engram.theory import multiclass, printed


@functools.lru_cache(maxsize=2)
def _flows(seed: int) -> tuple[np.ndarray, ...]:
    """Gradient flows of M = 4 classes: norms, starts, scores."""
    rng = rng_for(seed, "multiclass flows")
    rate, norms = 10 ** rng.uniform(-1, 1, 16), rng.uniform(0.5, 2.0, (16, 4))
    norms[:8] = 1.0
    start = rng.normal(size=(16, 4)) * 2
    return norms, start, flow_classes(rate, start, TIMES, norms)


class C20(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """Every pair of classes, orthogonal outputs of any length: the drift along the flow."""
        *_, w = _flows(seed)
        early = TIMES <= 10.0  # later e^-w grows without bound
        cases = {"tolerance": SOLVER, "run": np.arange(16)[:, None], "time": TIMES[early]}
        for i, j in ((1, 2), (0, 1)):
            value = printed.invariant(w[:, early], i, j)
            yield equal(value, value[:, :1], **cases)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        norms, start, w = _flows(seed)
        for run in range(16):
            exponential, linear = multiclass.invariants(w[run], norms[run])
            size = 1 + np.exp(-w[run, :, 1:]).max(1, keepdims=True) / norms[run].min() ** 2
            yield equal(exponential / size, exponential[:1] / size, tolerance=SOLVER, run=run)
            yield equal(linear, linear[0], tolerance=SOLVER, run=run, time=TIMES)
        steps = descend_classes(np.ones(16), 1.0, start, steps_to(64), norms)
        for run in range(16):
            _, linear = multiclass.invariants(steps[run], norms[run])
            yield equal(linear, linear[0], tolerance=1e-12, run=run)

    def certificates(self) -> list[Certificate]:
        def drift(norms: list[int], i: int, j: int) -> fmpq:
            """d/dt (e^-w_i - e^-w_j) at W = 0, from the exact velocities of three classes."""
            force = [norm * ((index == 0) - fmpq(1, 3)) for index, norm in enumerate(norms)]
            return -force[i] + force[j]

        return [
            Certificate("d/dt (e^{−w_2} − e^{−w_3}) = 0 at W = 0, squared norms (1, 1, 4), p‖e‖² = 1", drift([1, 1, 4], 1, 2), "==", fmpq(0)),
            Certificate("d/dt (e^{−w_1} − e^{−w_2}) = 0 at W = 0, orthonormal, target 1", drift([1, 1, 1], 0, 1), "==", fmpq(0)),
        ]  # fmt: skip
