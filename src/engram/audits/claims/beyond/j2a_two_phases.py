"""J2a: large steps oscillate for a while, then are stable for good."""

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from engram import capacity, memory
from engram.audits._balls import maximum
from engram.audits._certificate import Certificate, proof
from engram.audits._claim import Curves
from engram.audits._evidence import MANY_STEPS, Evidence, all_of, at_most, equal, true
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import descents
from engram.problem import Problem
from engram.theory import interference, large_steps


def _pair_losses(seed: int) -> tuple[np.ndarray, ...]:
    """Losses of two-token runs at their recorded steps; with what makes a loss stable, and the bound on when."""
    run = descents(seed)
    m1, m2 = interference.margins(run.half_gap, run.half_sum)
    losses = run.p1 * np.logaddexp(0, -m1) + (1 - run.p1) * np.logaddexp(0, -m2)
    reach, norm = np.sqrt(run.c), interference.max_margin_norm(run.alpha, run.c)
    stable = large_steps.stable_loss(run.eta, reach, 1 - run.p1)
    bound = large_steps.exit_bound(run.eta, reach, norm, 1 - run.p1)
    return run.eta, norm, run.at, losses, stable, bound


def _many_classes(seed: int) -> Iterator[tuple[float, np.ndarray, float, float, np.ndarray]]:
    """Four tokens and three classes: rate, every loss, when it is stable, the bound on that step, the bounds after it."""
    rng = rng_for(seed, "J2a")
    for index in range(6):
        E, U = rng.normal(size=(4, 5)), rng.normal(size=(3, 5))
        E, U = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (E, U))
        problem = Problem(E, U, np.array([0.4, 0.3, 0.2, 0.1]), np.array([0, 1, 2, index % 3]))
        norm = float(np.linalg.norm(capacity.max_margin(problem)))
        R = large_steps.reach(problem)
        for eta in (1.0, 30.0, 1000.0):
            W, losses = np.zeros((5, 5)), []
            for _ in range(160):
                loss, grad = memory.loss_and_grad(problem, W)
                losses.append(float(loss))
                W = W - eta * np.asarray(grad)
            stable = float(large_steps.stable_loss(eta, R, 0.1))
            bound = float(large_steps.exit_bound(eta, R, norm, 0.1, 3))
            start = int(np.argmax(np.array(losses) <= stable))
            after = np.maximum(np.arange(160) - start, 0)
            later = large_steps.stable_loss_bound(after, eta, min(losses[start], stable), norm)
            yield eta, np.array(losses), stable, bound, later


def _pull() -> arb:
    return maximum(lambda m: m / (1 + m.exp()), fmpq(1, 10), fmpq(40), (fmpq(1), fmpq(3, 2)))


class J2a(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        yield from self.against_their_equations()
        eta, norm, at, losses, stable, bound = _pair_losses(seed)
        late, is_stable = at >= bound, np.asarray(losses <= stable)
        yield true((is_stable | ~late)[late], learning_rate=(eta + 0 * at)[late])
        rises = losses[:, 1:257] - losses[:, :256] * (1 + 1e-15)
        yield at_most(rises[is_stable[:, :256]], 0.0)
        start = np.argmax(is_stable, axis=1)[:, None]
        after = np.maximum(at - np.take_along_axis(at + 0 * start, start, 1), 0)
        first = np.take_along_axis(losses, start, 1)
        follows = (np.arange(at.size) >= start) & is_stable.any(axis=1, keepdims=True)
        later = large_steps.stable_loss_bound(after, eta, np.maximum(first, 1e-300), norm)
        relative = losses / np.maximum(later, 1e-300)
        # A margin of up to 700, rounded in every step, is an error of the loss relative to itself.
        yield at_most(relative[follows], 1.0, tolerance=700 * MANY_STEPS, learning_rate=(eta + 0 * at)[follows])  # fmt: skip
        for rate, path, level, latest, bounds in _many_classes(seed):
            calm, steps = path <= level, np.arange(path.size)
            if calm.any():
                first = int(np.argmax(calm))
                yield true(calm[first:] & (first <= latest), learning_rate=rate)
                yield at_most(np.diff(path[first:], prepend=path[first]), 1e-15, learning_rate=rate)
                yield at_most(path[first:], bounds[first:], learning_rate=rate)
            yield at_most(np.append(steps[~calm], 0), latest, learning_rate=rate)

    def against_their_equations(self) -> Iterator[Evidence]:
        """The functions of theory against the equations that define them, in balls."""
        pull, half = _pull(), 1 / (2 * arb(2).log())
        gain = (3 - arb(1).exp()) * half**2
        C = arb(float(large_steps.exit_constant()))
        yield equal(float(1 / C + (2 * pull / C).sqrt()), float(half), tolerance=1e-13)
        tokens = Problem([[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]], [0.5, 0.5], [0, 1])
        yield equal(float(large_steps.reach(tokens)), 2 * 5**0.5)
        eta, R2, B = 100.0, 2.0, 1.5
        yield equal(large_steps.stable_loss([eta, 0.1], R2**0.5, 0.25), [1 / 200, np.log(2) / 4])
        T = float(large_steps.exit_bound(eta, R2**0.5, B, 0.25))
        mean = R2 * B**2 / T + B * float((2 * pull / (eta * T)).sqrt())
        yield equal(mean * eta * R2, float(half), tolerance=1e-12)
        T = float(large_steps.exit_bound(1.0, R2**0.5, B, 0.25))  # where p_min/2 is less
        yield equal(R2 * B**2 / T + B * float((2 * pull / T).sqrt()), 0.125, tolerance=1e-12)
        later = large_steps.stable_loss_bound(70, eta, 0.001, B)
        yield equal(1 / later, 1000 + float(gain) * eta * 70 / B**2, tolerance=1e-12)
        horizon = large_steps.horizon_bound(1000, R2**0.5, B, 0.25)
        yield equal(horizon * 1e6, float(4 * C / gain) * R2**2 * B**4, tolerance=1e-12)

    def certificates(self) -> list[Certificate]:
        pull, half = _pull(), 1 / (2 * arb(2).log())
        until = lambda C: 1 / arb(C) + (2 * pull / arb(C)).sqrt()
        return [
            proof("1/C + √(2h/C) at C = 3.2519, against 1/(2 log 2); h = sup m/(1 + e^m)", until("3.2519"), ">", half),
            proof("the same at C = 3.2520", until("3.2520"), "<", half),
            proof("the constant 4 log² 2/(3 − e) of the stable phase", 1 / ((3 - arb(1).exp()) * half**2), "<", arb("6.822")),
        ]  # fmt: skip

    def curves(self) -> Curves:
        problem = Problem([[1.0, 0.0], [0.95, (1 - 0.95**2) ** 0.5]], np.eye(2), [0.75, 0.25], [0, 1])  # fmt: skip
        steps, series = np.arange(1, 201), {}
        for eta in (1.0, 10.0, 30.0):
            W, losses = np.zeros((2, 2)), []
            for _ in steps:
                W = W - eta * np.asarray(memory.grad(problem, W))
                losses.append(float(memory.loss(problem, W)))
            series[f"loss, η = {eta:g}"] = np.array(losses)
        return Curves("two tokens, α = 0.95, p_1 = 3/4", ("step", steps), series, "loss", log_x=True, log_y=True)  # fmt: skip
