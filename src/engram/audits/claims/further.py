"""C52 to C56: statements of the paper that stand between its theorems."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flint import arb, fmpq

from engram import memory
from engram._precision import in_double
from engram.audits._balls import descent_margins, dot, precisely, rationals
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import (
    Evidence,
    all_of,
    at_least,
    at_most,
    between,
    both,
    equal,
    frequency,
    true,
)
from engram.audits._parameters import random_problem, rng_for
from engram.audits._runs import descend_token
from engram.audits._written_out import most_robust, robust_radius
from engram.audits.claims._checks import Checks
from engram.capacity import is_separable, max_margin
from engram.dynamics import GradientDescent, run
from engram.particles import ParticleSystem
from engram.problem import Problem, on_sphere, orthonormal, zipf

# --- C52 ---

_DRAWS = 64


@functools.lru_cache(maxsize=2)
def _five_in_three(seed: int) -> tuple[list[Problem], np.ndarray]:
    """Figure 6 with d = 3: random draws, and the margins after 20,000 steps at learning rate 10."""
    rng = rng_for(seed, "C52")
    problems = [
        on_sphere(int(key), 5, 5, 3, targets="identity") for key in rng.integers(0, 2**31, _DRAWS)
    ]
    return problems, _train(
        np.stack([q.inputs for q in problems]), np.stack([q.outputs for q in problems])
    )


@in_double
def _train(inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    p = jnp.asarray(np.asarray(zipf(5), float))

    @jax.vmap
    def margins(E, U):
        system = ParticleSystem(Problem(E, U, p, np.arange(5)))
        state = system.start(jnp.zeros((3, 3)))
        at = jnp.array([20_000])
        path = run(
            system, GradientDescent(10.0, 20_000), state, at=at, record=lambda s, d, c: c.index
        )
        w = path.final.scores
        return jnp.diag(w) - jnp.where(jnp.eye(5, dtype=bool), -jnp.inf, w).max(1)

    return np.asarray(jax.jit(margins)(jnp.asarray(inputs), jnp.asarray(outputs)))


def _not_enough(seed: int) -> Evidence:
    """As printed: not one draw can be learnt whole."""
    _, m = _five_in_three(seed)
    return frequency((m > 0).all(1), below=0.0)


def _often_enough(seed: int) -> Evidence:
    problems, m = _five_in_three(seed)
    stored = np.array([is_separable(problem) for problem in problems])
    learnt = (m > 0).all(1)
    errors = [
        float(memory.error_rate(q, max_margin(q)))
        for q, fits in zip(problems, stored, strict=True)
        if fits
    ]
    angle = np.linspace(0, 2 * np.pi, 13)[:-1]
    ring = np.stack([np.cos(angle), np.sin(angle)], 1)
    many = Problem(ring, ring, np.full(12, 1 / 12), np.arange(12))
    found = both(
        frequency(stored, above=0.9), true(stored | ~learnt), equal(errors, 0.0),
        equal(float(memory.error_rate(many, np.eye(2))), 0.0),
        at_least((m > 0).mean(0)[0], (m > 0).mean(0)[4], tolerance=0.2),
    )  # fmt: skip
    note = f"{stored.mean():.3f} can be stored, {learnt.mean():.3f} are after 20,000 steps, of {_DRAWS} draws"
    return dataclasses.replace(found, note=note)


_RING = rationals(["1", "0"], ["3/5", "4/5"], ["-3/5", "4/5"])

C52 = Checks(
    _not_enough,
    corrected=_often_enough,
    certificates=lambda: [Certificate(
        "d = 2, N = 3, e_x = u_x = (1,0), (3/5,4/5), (−3/5,4/5), W = I: some wrong score reaches the right one, so not all are stored",
        max(dot(u, v) for u, v in itertools.combinations(_RING, 2)), ">=", min(dot(u, u) for u in _RING))],
)  # fmt: skip


# --- C53 ---


def _crowded() -> Problem:
    """One token whose target is crowded by a correlated class: unit outputs in the plane."""
    return Problem([[1.0, 0.0]], [[1.0, 0.0], [0.8, 0.6], [0.6, -0.8], [0.0, -1.0]], [1.0], [0])


def _limited(seed: int) -> Evidence:
    """As printed: with orthogonal inputs the first step raises nobody's loss, whatever the outputs."""
    rng, found = rng_for(seed, "C53"), []
    for problem in [
        _crowded(),
        *(random_problem(rng, 3, 5, 4, orthogonal=True) for _ in range(20)),
    ]:
        d = problem.dim
        W = -100.0 * np.asarray(memory.grad(problem, np.zeros((d, d))))
        found.append(float(memory.loss(problem, W)) / np.log(problem.num_classes))
    return at_most(found, 1.0, model=np.arange(len(found)))


@all_of
def _decoupled(seed: int) -> Iterator[Evidence]:
    """Tokens do not touch each other; and with two classes, or orthonormal outputs, none ever falls."""
    rng = rng_for(seed, "C53")
    for index in range(10):
        problem = random_problem(rng, 3, 5, 4, orthogonal=True)
        W = rng.normal(size=(4, 4))
        step = np.asarray(memory.grad(problem, W))
        alone = Problem(problem.inputs[:1], problem.outputs, [1.0], problem.targets[:1])
        told = problem.probs[0] * np.asarray(memory.grad(alone, W)) @ problem.inputs[0]
        yield equal(step @ problem.inputs[0], told, tolerance=1e-12, model=index)
        for calm in (random_problem(rng, 3, 2, 4, orthogonal=True), orthonormal(3, 4, key=index)):
            V = rng.normal(size=(4, 4))
            after = V - 10 ** rng.uniform(-1, 3) * np.asarray(memory.grad(calm, V))
            yield at_least(
                np.asarray(memory.margins(calm, after)) - np.asarray(memory.margins(calm, V)),
                0.0,
                tolerance=1e-9,
            )


def _first_margin() -> fmpq | arb:
    """⟨u_1 − u_2, u_1 − ū⟩ of the crowded token, exactly."""
    U = rationals(["1", "0"], ["4/5", "3/5"], ["3/5", "-4/5"], ["0", "-1"])
    mean = [sum(column, fmpq(0)) / 4 for column in zip(*U, strict=True)]
    less = lambda u, v: [x - y for x, y in zip(u, v, strict=True)]
    return dot(less(U[0], U[1]), less(U[0], mean))


C53 = Checks(
    _limited,
    corrected=_decoupled,
    certificates=lambda: [Certificate(
        "u = (1,0), (4/5,3/5), (3/5,−4/5), (0,−1), target 1: the first margin against class 2, per η, is at least 0",
        _first_margin(), ">=", fmpq(0))],
)  # fmt: skip


# --- C54 ---

_X = np.geomspace(1e-2, 1e3, 96)  # η c of the frequent token


def _ratios(p1: float) -> np.ndarray:
    """The rare token's margin over the frequent one's, for each learning rate and step."""
    at = np.arange(51)
    often = descend_token(_X, np.ones(96), at)[:, 1:]
    seldom = descend_token(_X * (1 - p1) / p1, np.ones(96), at)[:, 1:]
    return seldom / often


def _catches_up(seed: int, *, largest: float) -> Evidence:
    few = largest >= _X
    found = [
        at_least(np.diff(_ratios(p1)[few], axis=0), 0.0, tolerance=1e-9, learning_rate_times_rate=_X[few][1:, None], step=np.arange(1, 51)[None, :], p1=p1)
        for p1 in (0.501, 0.51, 0.6, 0.75, 0.9, 0.99)
    ]  # fmt: skip
    return both(*found)


def _falls_back(seed: int) -> Evidence:
    ratio = _ratios(0.9)
    return both(
        _catches_up(seed, largest=3.0),
        equal(ratio[-1], 1 / 9, tolerance=1e-6),
        at_least(ratio[:, 19].max(), 0.5),
    )


@precisely
def _catch_up_proof() -> list[Certificate]:
    ratio = lambda x: descent_margins(x / 9, 20)[20] / descent_margins(x, 20)[20]
    statement = "p = (9/10, 1/10), 20 steps: the ratio of margins at ηc_1 = 100 is at least that at ηc_1 = 5"
    return [Certificate(statement, ratio(fmpq(100)), ">=", ratio(fmpq(5)))]


C54 = Checks(
    functools.partial(_catches_up, largest=np.inf),
    corrected=_falls_back,
    certificates=_catch_up_proof,
    curves=lambda: Curves(
        "margin of the rare token over the frequent one after 20 steps (p = 0.9, 0.1)", ("η c of the frequent token", _X),
        {"true": _ratios(0.9)[:, 19]}, "ratio", log_x=True),
)  # fmt: skip


# --- C55 ---


def _robust_gain(problem: Problem) -> float:
    """The best radius of any W over that of the max-margin solution, less 1."""
    ours = robust_radius(problem, np.asarray(max_margin(problem)))
    return most_robust(problem, ours * 0.95, ours * 20.0) / ours - 1


def _separable_problems(seed: int, M: int, count: int) -> list[Problem]:
    rng, found = rng_for(seed, f"C55 {M}"), []
    while len(found) < count:
        problem = random_problem(rng, 3, M, 3)
        if is_separable(problem):
            found.append(problem)
    return found


def _most_robust(seed: int) -> Evidence:
    gains = np.array([_robust_gain(problem) for problem in _separable_problems(seed, 3, 12)])
    return at_most(gains, 0.0, tolerance=0.01, draw=np.arange(12))


def _robust_corrected(seed: int) -> Evidence:
    two = np.array([_robust_gain(problem) for problem in _separable_problems(seed, 2, 6)])
    one = _robust_gain(orthonormal(3, 3))
    uneven = orthonormal(4, 3, targets=[0, 1, 1, 2])
    unequal = _robust_gain(uneven)
    radius = lambda problem: robust_radius(problem, np.asarray(max_margin(problem)))
    return both(
        # Bisection between 0.95 and 20 times, halved fourteen times.
        at_most(two, 0.0, tolerance=5e-3, draw=np.arange(6)),
        at_most([one, unequal], 0.0, tolerance=5e-3),
        equal(
            [radius(orthonormal(3, 3)), radius(uneven)],
            [1 / np.sqrt(2), 1 / np.sqrt(3)],
            tolerance=1e-6,
        ),
    )


C55 = Checks(_most_robust, corrected=_robust_corrected)


# --- C56 ---


def _recalled(rng: np.random.Generator, N: int, d: int, stored: int) -> int:
    """How many of N random associations a sum of outer products of the first `stored` recalls."""
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
    E, U = unit(rng.normal(size=(N, d))), unit(rng.normal(size=(N, d)))
    W = U[:stored].T @ E[:stored]
    return int((np.argmax(E @ W.T @ U.T, 1) == np.arange(N)).sum())


@functools.lru_cache(maxsize=2)
def _capacities(seed: int) -> dict[str, dict[int, Any]]:
    """Associations held per dimension: by outer products, by those of the most frequent, by the best W."""
    rng = rng_for(seed, "C56")
    mean = lambda N, d, stored: np.mean([_recalled(rng, N, d, stored) for _ in range(6)]) / d
    grid = lambda d: [int(d * r) for r in (1, 1.5, 2, 3, 4, 6, 8)]
    hebbian = {d: max(mean(N, d, N) for N in grid(d)) for d in (16, 32, 64)}
    threshold = {d: max(mean(8 * d, d, stored) for stored in grid(d)) for d in (16, 32, 64)}
    chance = lambda N, M, d, draws, targets: np.mean([
        is_separable(on_sphere(int(rng.integers(2**31)), N, M, d, targets=targets)) for _ in range(draws)
    ])  # fmt: skip
    likely = lambda d: itertools.takewhile(
        lambda N: chance(N, N, d, 5, "identity") >= 0.5, range(d, 5 * d)
    )
    trained = {d: max(likely(d)) / d for d in (2, 3, 6)}
    return {"outer products": hebbian, "the most frequent": threshold, "the best W": trained,
            "two classes": {d: 4 * d * chance(2 * d, 2, d, 80, "random") / d for d in (2, 3, 6)}}  # fmt: skip


def _about_d(seed: int) -> Evidence:
    """As printed: between d/2 and 2d, however W is fitted and whatever M."""
    found = _capacities(seed)
    ratios = np.array([list(values.values()) for values in found.values()])
    return between(0.5, ratios, 2.0)


def _about_d_corrected(seed: int) -> Evidence:
    found = _capacities(seed)
    two = np.array(list(found["two classes"].values()))
    told = "; ".join(
        f"{name}: " + ", ".join(f"{value:.2f}d at d = {d}" for d, value in values.items())
        for name, values in found.items()
    )
    growing = [list(found[name].values()) for name in ("outer products", "the best W")]
    evidence = both(
        # Cover: half of the labellings of N = 2d points can be stored; 4d times that share is 2d.
        equal(two / 2, 1.0, tolerance=0.35),
        at_least(np.diff(growing, axis=1), 0.0, tolerance=0.3),
        at_least([values[-1] for values in growing], 2.0),
    )  # fmt: skip
    return dataclasses.replace(evidence, note=told)


C56 = Checks(_about_d, corrected=_about_d_corrected)
