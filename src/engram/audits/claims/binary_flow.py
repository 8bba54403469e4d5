"""C09 to C14: orthogonal inputs, two classes, gradient flow (Theorem 2)."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flint import arb, fmpq, fmpq_mat

from engram import memory
from engram._precision import in_double, make_key
from engram.audits._balls import inverse_g, maximum
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, between, both, equal
from engram.audits._parameters import random_problem, random_weights, rng_for
from engram.audits._runs import flow_token
from engram.audits.claims._binary_runs import SOLVER, encloses, flows
from engram.audits.claims._checks import Checks
from engram.dynamics import GradientDescent, StochasticGradientDescent, StochasticGradientFlow, run
from engram.memory import MemorySystem
from engram.problem import Problem
from engram.theory import binary, printed


class C09(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng = rng_for(seed, "C09")
        for index in range(30):
            problem = random_problem(rng, 4, 2, 6, orthogonal=True)
            W, eta = random_weights(rng, 6, 3.0), 10 ** rng.uniform(-3, 2)
            after = memory.margins(problem, W - eta * memory.grad(problem, W))
            step = binary.descent_step(memory.margins(problem, W), binary.rates(problem), eta)
            yield equal(after, step, tolerance=1e-12, model=index)


class C10(Checks):
    def _from_zero(self, seed: int, form) -> Evidence:
        rate, start, times, m = (part[:16] for part in flows(seed))
        told = form(times, rate)
        return equal(m, told, tolerance=SOLVER, rate=rate, start=start, time=times)

    def printed(self, seed: int) -> Evidence:
        return self._from_zero(seed, printed.flow_margin)

    def corrected(self, seed: int) -> Evidence:
        return self._from_zero(seed, binary.flow_margin)

    def certificates(self) -> list[Certificate]:
        sum_at_zero = arb(0) + arb(0).exp()
        return [Certificate("m + e^m = c t at t = 0, m = 0", sum_at_zero, "==", fmpq(0))]

    def curves(self) -> Curves:
        t = np.linspace(0.05, 12, 200)
        series = {"true": flow_token(np.ones(1), t)[0], "printed": printed.flow_margin(t, 1.0)}
        series["corrected"] = binary.flow_margin(t, 1.0)
        title = "margin of one token under gradient flow (c = 1)"
        return Curves(title, ("time", t), series, "margin")


class C11(Checks):
    def printed(self, seed: int) -> Evidence:
        rate, start, times, m = flows(seed)
        told = binary.flow_margin(times, rate, start)
        s = rate * (times - binary.flow_origin(rate, start))
        ahead = s > 1e-3
        s = s[ahead]
        return both(
            equal(m, told, tolerance=SOLVER, rate=rate, start=start, time=times),
            # log s - h cancels where s is small.
            equal(np.log(s) - binary.flow_correction(s), told[ahead], tolerance=1e-10, s=s),
        )


_GRID = 1 + np.geomspace(1e-5, 1e300, 4000)
_SMALL = np.linspace(0.02, 0.98, 97)


def _ratio(s: np.ndarray) -> np.ndarray:
    return binary.flow_correction(s) * s / np.log(s)


class C12(Checks):
    def printed(self, seed: int) -> Evidence:
        positive = at_least(binary.flow_correction(_GRID), 0.0, s=_GRID)
        return both(positive, at_most(_ratio(_GRID), 2.0, s=_GRID))

    def corrected(self, seed: int) -> Evidence:
        low, high = binary.flow_correction_bounds(_GRID)
        scale, near = _GRID / np.log(_GRID), 1 + np.geomspace(1e-7, 1e-4, 50)
        value = binary.flow_correction(_GRID) * scale
        return both(
            # (s - 1) of 1e-5 is known to 1e-11 of itself.
            between(low * scale, value, high * scale, tolerance=1e-10, s=_GRID),
            equal(_ratio(np.array(23.1526)), binary.CORRECTION_CONSTANT, tolerance=1e-9),
            equal(_ratio(near), 0.5, tolerance=1e-3, s=near),
        )

    def certificates(self) -> list[Certificate]:
        ratio = lambda m: (m + m.exp()) * (1 + m * (-m).exp()).log() / (m + m.exp()).log()
        top = maximum(ratio, fmpq(1, 20), fmpq(40), (fmpq(29, 10), fmpq(31, 10)))
        start, end = arb(fmpq(1, 20)), arb(40)
        return [
            proof("max of h s/log s over m in [1/20, 40], by subdivision: below 1.0237150810", top, "<", fmpq(10237150810, 10**10)),
            proof("the same maximum is above 1.0237150809", top, ">", fmpq(10237150809, 10**10)),
            *encloses(binary.CORRECTION_CONSTANT, top),
            proof("m < 1/20: the ratio is at most m(1 + m)/log(1 + 2m) < 0.56", start * (1 + start) / (2 * start).log1p(), "<", fmpq(56, 100)),
            proof("m > 40: the ratio is at most 1 + m e^(−m) < 1.0001", 1 + end * (-end).exp(), "<", fmpq(10001, 10000)),
        ]  # fmt: skip

    def curves(self) -> Curves:
        s = _GRID[_GRID < 1e4]
        flat = np.ones(len(s))
        series = {"true": _ratio(s), "printed": 2 * flat, "corrected": binary.CORRECTION_CONSTANT * flat}  # fmt: skip
        return Curves("h(s) s / log(s)", ("s", s), series, "ratio", log_x=True)


class C13(Checks):
    def printed(self, seed: int) -> Evidence:
        s = np.concatenate([_SMALL, _GRID])
        low, high = printed.flow_correction_bounds(s)
        scale = s / np.log(s)  # negative below 1, where it turns both inequalities round
        return between(low * scale, _ratio(s), high * scale, s=s)

    def corrected(self, seed: int) -> Evidence:
        return both(between(0.0, _ratio(_SMALL), 0.5, s=_SMALL), C12().corrected(seed))

    def certificates(self) -> list[Certificate]:
        s = arb(fmpq(1, 2))
        ratio = (s.log() - inverse_g(s)) * s / s.log()
        return [Certificate("h̃(1/2) ≥ 1/2, where s = 1/2 ≥ 0", ratio, ">=", fmpq(1, 2))]

    def curves(self) -> Curves:
        s = np.concatenate([_SMALL, 1 + np.geomspace(0.02, 40, 200)])
        series = {"true": _ratio(s), "printed": np.full(len(s), 0.5)}
        return Curves("h̃(s)", ("s", s), series, "h̃", log_x=True)


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
                told = binary.weights_from_margins(problem, signed, W0)
                yield equal(told, W, tolerance=1e-12, model=index)

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
