"""C14: the weights as a sum over margins, under all four dynamics."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flint import fmpq, fmpq_mat

from engram import memory
from engram._precision import in_double, make_key
from engram.audits._certificate import Certificate, proof
from engram.audits._evidence import Evidence, all_of, equal
from engram.audits._parameters import random_problem, rng_for
from engram.audits.claims._checks import Checks
from engram.dynamics import GradientDescent, StochasticGradientDescent, StochasticGradientFlow, run
from engram.memory import MemorySystem
from engram.problem import Problem
from engram.theory import binary


@eqx.filter_jit
def _final_weights(problem: Problem, dynamics, W0, steps, key=None):
    count = lambda system, dynamics, carry: carry.index
    path = run(MemorySystem(problem), dynamics, W0, at=steps[None], record=count, key=key)
    return path.final


class C14(Checks):
    @in_double
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """W from its signed margins against W itself, under descent, SGD and the stochastic flow."""
        rng, times = rng_for(seed, "C14"), np.array([0.0, 2.0])
        cases = (
            (GradientDescent(2.0, 30), 30),
            (StochasticGradientDescent(1.0, 30, 2), 30),
            (StochasticGradientFlow(times, learning_rate=0.5, batch_size=2, time_step=0.125), 16),
        )
        for index in range(3):
            drawn = random_problem(rng, 3, 2, 4, orthogonal=True)
            problem = Problem(drawn.inputs, drawn.outputs, drawn.probs, [0, 1, 1])
            W0, sign = rng.normal(size=(4, 4)), 1 - 2 * problem.targets
            for dynamics, steps in cases:
                key = make_key(seed) if dynamics.needs_key else None
                start, count = jnp.asarray(W0), jnp.asarray(steps)
                W = np.asarray(_final_weights(problem, dynamics, start, count, key))
                signed = sign * memory.margins(problem, W)
                rebuilt = binary.weights_from_margins(problem, signed, W0)
                yield equal(rebuilt, W, tolerance=1e-12, model=index)

    @in_double
    def corrected(self, seed: int) -> Evidence:
        """E|Pi_perp (W_t - W_0)|^2 of an isotropically shaken flow, d = 3, N = 1, sigma = 1/2, t = 2."""
        problem = Problem(np.eye(1, 3), np.eye(2, 3), [1.0], [0])
        dynamics = StochasticGradientFlow(np.array([0.0, 2.0]), noise_scale=0.5, time_step=0.125)
        u = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)

        def left_over(key):
            W = _final_weights(problem, dynamics, jnp.zeros((3, 3)), jnp.asarray(16), key)
            return jnp.square(W).sum() - (u @ W)[0] ** 2

        parts = np.asarray(jax.vmap(left_over)(jax.random.split(make_key(seed), 2000)))
        expected = 0.5**2 * 2.0 * (9 - 1)
        error = 4 * parts.std() / np.sqrt(len(parts))
        return equal(parts.mean() / expected, 1.0, tolerance=error / expected)

    def certificates(self) -> list[Certificate]:
        u, e = [1, -1, 0], [1, 0, 0]
        rank = fmpq_mat(1, 9, [a * b for a in u for b in e]).rank()  # of (u_1 - u_2) ⊗ e
        statement = "E‖Π_⊥(W_t − W_0)‖² = 4 for isotropic noise, d = 3, N = 1, σ = 1/2, t = 2"
        return [proof(statement, fmpq(1, 4) * 2 * (9 - rank), "==", fmpq(4))]
