"""C09 to C14: orthogonal inputs, two classes, gradient flow (Theorem 2)."""

import functools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flint import arb, fmpq, fmpq_mat

from engram import memory
from engram._precision import in_double, make_key
from engram.audits._balls import inverse_g, maximum, precisely
from engram.audits._certificate import Certificate
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

# --- C09 ---


@all_of
def _decoupled(seed: int) -> Iterator[Evidence]:
    rng = rng_for(seed, "C09")
    for index in range(30):
        problem = random_problem(rng, 4, 2, 6, orthogonal=True)
        W, eta = random_weights(rng, 6, 3.0), 10 ** rng.uniform(-3, 2)
        m = np.asarray(memory.margins(problem, W))
        after = np.asarray(memory.margins(problem, W - eta * np.asarray(memory.grad(problem, W))))
        step = np.asarray(binary.descent_step(m, binary.rates(problem), eta))
        yield equal(after, step, tolerance=1e-12, model=index)


C09 = Checks(_decoupled)


# --- C10, C11 ---


def _closed_form(seed: int, form, *, from_zero: bool) -> Evidence:
    rate, start, times, m = (part.copy() for part in flows(seed))
    rows = start == 0 if from_zero else np.full(len(start), True)
    told = form(times[None, :], rate[rows, None], start[rows, None])
    return equal(
        m[rows],
        told,
        tolerance=SOLVER,
        rate=rate[rows, None],
        start=start[rows, None],
        time=times[None, :],
    )


C10 = Checks(
    lambda seed: _closed_form(seed, lambda t, c, _: printed.flow_margin(t, c), from_zero=True),
    corrected=lambda seed: _closed_form(seed, lambda t, c, m0: binary.flow_margin(t, c, m0), from_zero=True),
    certificates=lambda: [Certificate("m + e^m = c t at t = 0, m = 0", arb(0) + arb(0).exp(), "==", fmpq(0))],
    curves=lambda: Curves(
        "margin of one token under gradient flow (c = 1)", ("time", _t := np.linspace(0.05, 12, 200)),
        {"true": flow_token(np.ones(1), _t)[0], "printed": np.asarray(printed.flow_margin(_t, 1.0)),
         "corrected": np.asarray(binary.flow_margin(_t, 1.0))}, "margin"),
)  # fmt: skip


def _flow_from_any_start(seed: int) -> Evidence:
    solved = _closed_form(seed, binary.flow_margin, from_zero=False)
    rate, start, times, _ = flows(seed)
    s = rate[:, None] * (times[None, :] - np.asarray(binary.flow_origin(rate, start))[:, None])
    ahead = s > 1e-3
    told = np.log(s[ahead]) - np.asarray(binary.flow_correction(s[ahead]))
    m = np.asarray(binary.flow_margin(times[None, :], rate[:, None], start[:, None]))[ahead]
    # log s - h cancels where s is small.
    return both(solved, equal(told, m, tolerance=1e-10, s=s[ahead]))


C11 = Checks(_flow_from_any_start)


# --- C12, C13 ---

_GRID = 1 + np.geomspace(1e-5, 1e300, 4000)


def _correction_as_printed(seed: int) -> Evidence:
    h = np.asarray(binary.flow_correction(_GRID))
    return both(at_least(h, 0.0, s=_GRID), at_most(h * _GRID / np.log(_GRID), 2.0, s=_GRID))


def _correction_sharp(seed: int) -> Evidence:
    h = np.asarray(binary.flow_correction(_GRID))
    low, high = binary.flow_correction_bounds(_GRID)
    scale = _GRID / np.log(_GRID)
    near = 1 + np.geomspace(1e-7, 1e-4, 50)
    peak = float(binary.flow_correction(23.1526) * 23.1526 / np.log(23.1526))
    limit = np.asarray(binary.flow_correction(near)) * near / np.log(near)
    return both(
        # (s - 1) of 1e-5 is known to 1e-11 of itself.
        between(low * scale, h * scale, high * scale, tolerance=1e-10, s=_GRID),
        equal(peak, binary.CORRECTION_CONSTANT, tolerance=1e-9),
        equal(limit, 0.5, tolerance=1e-3, s=near),
    )


def _ratio(m):
    """h(s) s / log s at s = m + e^m."""
    return (m + m.exp()) * (1 + m * (-m).exp()).log() / (m + m.exp()).log()


@precisely
def _correction_proof() -> list[Certificate]:
    top = maximum(_ratio, fmpq(1, 20), fmpq(40), (fmpq(29, 10), fmpq(31, 10)))
    start, end = arb(fmpq(1, 20)), arb(40)
    prove = functools.partial(Certificate, violates=False)
    return [
        prove("max of h s/log s over m in [1/20, 40], by subdivision: below 1.0237150810", top, "<", fmpq(10237150810, 10**10)),
        prove("the same maximum is above 1.0237150809", top, ">", fmpq(10237150809, 10**10)),
        *encloses(binary.CORRECTION_CONSTANT, top),
        prove("m < 1/20: the ratio is at most m(1 + m)/log(1 + 2m) < 0.56", start * (1 + start) / (2 * start).log1p(), "<", fmpq(56, 100)),
        prove("m > 40: the ratio is at most 1 + m e^(−m) < 1.0001", 1 + end * (-end).exp(), "<", fmpq(10001, 10000)),
    ]  # fmt: skip


C12 = Checks(
    _correction_as_printed,
    corrected=_correction_sharp,
    certificates=_correction_proof,
    curves=lambda: Curves(
        "h(s) s / log(s)", ("s", _GRID[_GRID < 1e4]),
        {"true": (binary.flow_correction(_GRID) * _GRID / np.log(_GRID))[_GRID < 1e4],
         "printed": np.full((_GRID < 1e4).sum(), 2.0),
         "corrected": np.full((_GRID < 1e4).sum(), binary.CORRECTION_CONSTANT)}, "ratio", log_x=True),
)  # fmt: skip

_SMALL = np.linspace(0.02, 0.98, 97)


def _ratio_at(s: np.ndarray) -> np.ndarray:
    return np.asarray(binary.flow_correction(s)) * s / np.log(s)


def _expansion_as_printed(seed: int) -> Evidence:
    s = np.concatenate([_SMALL, _GRID])
    low, high = printed.flow_correction_bounds(s)
    scale = s / np.log(s)  # negative below 1, where it turns both inequalities round
    return between(low * scale, _ratio_at(s), high * scale, s=s)


def _expansion_corrected(seed: int) -> Evidence:
    return both(between(0.0, _ratio_at(_SMALL), 0.5, s=_SMALL), _correction_sharp(seed))


@precisely
def _expansion_proof() -> list[Certificate]:
    s = fmpq(1, 2)
    ratio = (arb(s).log() - inverse_g(s)) * arb(s) / arb(s).log()
    return [Certificate("h̃(1/2) ≥ 1/2, where s = 1/2 ≥ 0", ratio, ">=", fmpq(1, 2))]


C13 = Checks(
    _expansion_as_printed,
    corrected=_expansion_corrected,
    certificates=_expansion_proof,
    curves=lambda: Curves(
        "h̃(s)", ("s", _s := np.concatenate([_SMALL, 1 + np.geomspace(0.02, 40, 200)])),
        {"true": _ratio_at(_s), "printed": np.full(len(_s), 0.5)}, "h̃", log_x=True),
)  # fmt: skip


# --- C14 ---


def _binary_problem(rng: np.random.Generator) -> Problem:
    problem = random_problem(rng, 3, 2, 4, orthogonal=True)
    return Problem(problem.inputs, problem.outputs, problem.probs, [0, 1, 1])


def _nothing(system, dynamics, carry):
    return carry.index


@eqx.filter_jit
def _final_weights(problem: Problem, dynamics, W0, steps, key=None):
    path = run(MemorySystem(problem), dynamics, W0, at=steps[None], record=_nothing, key=key)
    return path.final


@in_double
@all_of
def _representation(seed: int, *, signed: bool) -> Iterator[Evidence]:
    """W from margins against W itself, under descent and SGD."""
    rng = rng_for(seed, "C14")
    for index in range(3):
        problem, W0 = _binary_problem(rng), rng.normal(size=(4, 4))
        for dynamics in (GradientDescent(2.0, 30), StochasticGradientDescent(1.0, 30, 2)):
            key = make_key(seed) if dynamics.needs_key else None
            W = np.asarray(_final_weights(problem, dynamics, jnp.asarray(W0), jnp.asarray(30), key))
            m = np.asarray(memory.margins(problem, W))
            sign = 1 - 2 * problem.targets if signed else 1
            told = binary.weights_from_margins(problem, sign * m, W0)
            yield equal(told, W, tolerance=1e-12, model=index)


@in_double
def _leaves_the_span(seed: int) -> Evidence:
    """E|Pi_perp (W_t - W_0)|^2 of an isotropically shaken flow, d = 3, N = 1, sigma = 1/2, t = 2."""
    problem = Problem(np.eye(1, 3), np.eye(2, 3), [1.0], [0])
    dynamics = StochasticGradientFlow(np.array([0.0, 2.0]), noise_scale=0.5, time_step=0.125)
    u = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)

    def left_over(key):
        W = _final_weights(problem, dynamics, jnp.zeros((3, 3)), jnp.asarray(16), key)
        return jnp.square(W).sum() - (u @ W)[0] ** 2

    found = np.asarray(jax.vmap(left_over)(jax.random.split(make_key(seed), 2000)))
    expected = 0.5**2 * 2.0 * (9 - 1)
    error = 4 * found.std() / np.sqrt(len(found))
    return equal(found.mean() / expected, 1.0, tolerance=error / expected)


def _span_rank() -> int:
    """The dimension of the span of (u_1 − u_2) ⊗ e_x for one token in d = 3, exactly."""
    u, e = [1, -1, 0], [1, 0, 0]
    return fmpq_mat(1, 9, [a * b for a in u for b in e]).rank()


C14 = Checks(
    lambda seed: _representation(seed, signed=False),
    corrected=lambda seed: both(_representation(seed, signed=True), _leaves_the_span(seed)),
    certificates=lambda: [Certificate(
        "E‖Π_⊥(W_t − W_0)‖² = 0 for isotropic noise, d = 3, N = 1, σ = 1/2, t = 2", fmpq(1, 4) * 2 * (9 - _span_rank()), "==", fmpq(0))],
)  # fmt: skip
