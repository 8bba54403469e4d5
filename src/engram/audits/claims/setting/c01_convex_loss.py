"""C01: the loss is convex, and a learning rate only rescales a flow's time."""

import numpy as np
from scipy.integrate import solve_ivp

from engram import memory
from engram.audits._evidence import Evidence, at_least, both, equal
from engram.audits._runs import flow_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims._models import DIM, MODELS, models


class C01(Checks):
    def printed(self, seed: int) -> Evidence:
        hessians = [memory.hessian(*model).reshape(DIM**2, DIM**2) for model in models(seed, "C01")]
        values = np.linalg.eigvalsh(hessians)
        # d^2 rounded products per entry, relative to the largest eigenvalue.
        lowest = values[:, 0] / np.maximum(values[:, -1], 1e-300)
        convex = at_least(lowest, 0.0, tolerance=DIM**2 * 1e-15, model=np.arange(MODELS))
        return both(convex, self._is_time_change())

    def _is_time_change(self) -> Evidence:
        """A flow at speed eta(t) = 1 + sin(t)^2, against the plain flow at the time it has used up."""
        times = np.linspace(0.5, 20.0, 50)

        def velocity(t, m):
            push = np.array([0.75, 0.25]) / (1 + np.exp(m))
            return (1 + np.sin(t) ** 2) * 2 * (push - 0.9 * push[::-1])

        hurried = solve_ivp(velocity, (0, 20), np.zeros(2), "DOP853", times, rtol=1e-12, atol=1e-13)
        spent = 1.5 * times - np.sin(2 * times) / 4
        plain = flow_pairs(np.array([0.9]), 0.75, 2.0, spent)[0]
        return equal(hurried.y.T, plain, tolerance=1e-9, time=times[:, None])
