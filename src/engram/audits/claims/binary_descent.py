"""C15 to C18: orthogonal inputs, two classes, gradient descent (Theorem 2)."""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import arb, fmpq

from engram import memory
from engram.audits._balls import descent_margins, isolate, maximum, precisely, softplus
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import (
    MANY_STEPS,
    Evidence,
    all_of,
    at_least,
    at_most,
    both,
    equal,
    true,
)
from engram.audits._parameters import random_problem, rng_for
from engram.audits._runs import descend_token, steps_to
from engram.audits.claims._binary_runs import descents, encloses, started
from engram.audits.claims._checks import Checks
from engram.theory import binary, printed

# --- C15, C16 ---


def _at(x: np.ndarray, steps: np.ndarray) -> dict[str, Any]:
    """The cases of descents over many steps, x = η c."""
    return {"learning_rate_times_rate": x[:, None], "step": steps, "tolerance": MANY_STEPS}


def _margin_as_printed(seed: int, origin) -> Evidence:
    x, at, m = descents(seed)
    t = at[None, 1:]
    told = printed.descent_margin_bound(t, x[:, None], 1.0, origin(x)[:, None])
    return at_least(m[:, 1:], told, **_at(x, t))


def _never_behind_the_flow(seed: int) -> Evidence:
    x, start, at, m = started(seed)
    told = np.asarray(binary.descent_margin_bound(at[None, :], x[:, None], 1.0, start[:, None]))
    any_start = at_least(
        m,
        told,
        learning_rate_times_rate=x[:, None],
        start=start[:, None],
        step=at[None, :],
        tolerance=MANY_STEPS,
    )
    x, at, m = descents(seed)
    floor = binary.descent_margin_bound(at[None, :], x[:, None], 1.0)
    ceiling = binary.descent_margin_upper_bound(at[None, 1:], x[:, None], 1.0)
    zero, upper = at_least(m, floor, **_at(x, at)), at_most(m[:, 1:], ceiling, **_at(x, at[1:]))
    return both(any_start, zero, upper, _thresholds(seed), _expansion(seed))


def _thresholds(seed: int) -> Evidence:
    """The printed forms hold where they are said to, and fail just below."""
    x, at, m = descents(seed)
    t = at[None, 1:]
    large, larger = x >= binary.LOG_THRESHOLD, x >= binary.LOG1P_THRESHOLD
    small = (x < 1.95) & (np.asarray(binary.log_bound_failure(np.minimum(x, 1.95), 1.0)) < at[-1])
    fails = (m[small, 1:] < np.log(x[small, None] * t)).any(1)
    near = np.array([binary.LOG1P_THRESHOLD - 1e-3])
    first = descend_token(near, np.ones(1), np.arange(3))[0, 1:]
    return both(
        at_least(
            m[large, 1:],
            binary.log_bound(t, x[large, None], 1.0),
            x=x[large, None],
            step=t,
            tolerance=MANY_STEPS,
        ),
        at_least(
            m[larger, 1:], binary.log1p_bound(t, x[larger, None], 1.0), x=x[larger, None], step=t
        ),
        true(fails, x=x[small]),
        true((first < np.log1p(near * np.arange(1, 3))).any(), x=near[0]),
    )


@all_of
def _expansion(seed: int) -> Iterator[Evidence]:
    """e^m = x t + (x/2 - 1) log t + C(x): where violations come too late to wait for (x < 2)."""
    x, at, m = descents(seed)
    for index in (3, 4, 6, 7, 8):
        y, t, C = np.exp(m[index, -1]), at[-1], binary.expansion_constant(x[index], 1.0)
        told = x[index] * t + (x[index] / 2 - 1) * np.log(t) + C
        yield equal(y - x[index] * t, told - x[index] * t, tolerance=1e-3, x=x[index])
    # Near 2 the bound fails only at t = e^(C / (1 - x/2)): 57,439 at x = 1.9, about 1e49 at 1.99.
    late = binary.expansion_constant(1.9, 1.0) / 0.05
    yield equal(late, np.log(57_439), tolerance=0.01, x=1.9)


@precisely
def _margin_proof() -> list[Certificate]:
    x = fmpq(1, 10)
    path = descent_margins(x, 400)
    found = [
        Certificate("t_0 = −1/c_x (η = 10, c = 1, t = 0): m_0 ≥ log 10", fmpq(0), ">=", arb(10).log()),
        Certificate("t_0 = −1/(ηc) (ηc = 1/10, t = 400): m_t ≥ log(1 + ηct)", path[400], ">=", arb(41).log()),
        Certificate("t_0 = 0 (ηc = 1/10, t = 100): m_t ≥ log(ηct)", path[100], ">=", arb(10).log()),
    ]  # fmt: skip
    when = _behind_by(fmpq(199, 100), fmpq(0))
    prove = functools.partial(Certificate, violates=False)
    root = lambda x: (arb(x) / 2).exp() - 1 - arb(x)
    ahead = [_ahead_of(fmpq(4000 + k, 2000), fmpq(4001 + k, 2000)) for k in range(1040)]
    least = functools.reduce(lambda a, b: a if a < b else b, ahead)
    return [
        *found,
        prove("x = 1.99: m_t ≥ log(xt) has failed before t = 10^50 (y_t ≤ xt + D, and the deficit diverges)", when, "<", arb(10) ** 50),
        prove("e^(x/2) = 1 + x has its root above 2.5128624172", root(fmpq(25128624172, 10**10)), "<", fmpq(0)),
        prove("and below 2.5128624173", root(fmpq(25128624173, 10**10)), ">", fmpq(0)),
        *encloses(binary.LOG1P_THRESHOLD, isolate(root, 2, 3)),
        prove("the first threshold that `theory` uses is 2", arb(binary.LOG_THRESHOLD), "==", arb(2)),
        prove("2 ≤ x ≤ 2.52: y_30 − 30x exceeds all later deficits, 1/59, so m_t ≥ log(xt) for ever", least, ">", fmpq(1, 59)),
    ]  # fmt: skip


def _behind_by(x: fmpq, amount: fmpq, T: int = 200) -> arb:
    """A step by which y_t < x t - amount, for x < 2, y = e^m.

    With D = y_T - x T ahead at step T, the deficit (1 - x/2) log((1 + D + x t)/(1 + D + x T)) must make
    up D and the amount.
    """
    D = descent_margins(x, T)[-1].exp() - arb(x) * T
    return (1 + D + arb(x) * T) * ((D + amount) / (1 - arb(x) / 2)).exp() / arb(x)


def _ahead_of(low: fmpq, high: fmpq) -> arb:
    """A lower bound of y_t - x t over t <= 30 and x in [low, high]."""
    x = arb(low).union(arb(high))
    m, least = arb(0), arb(1)
    for t in range(1, 31):
        m = m + x / (1 + m.exp())
        ahead = (m.exp() - x * t).lower()
        least = ahead if ahead < least else least
    return least


def _margin_curves(x: float) -> Curves:
    t = steps_to(2000, dense=200, sparse=60)[1:]
    return Curves(
        f"margin of one token under descent (ηc = {x:g}), less log(1 + ηct)", ("step", t),
        {"true": descend_token(np.array([x]), np.ones(1), np.concatenate([[0], t]))[0, 1:] - np.log1p(x * t),
         "printed": np.zeros(len(t)),
         "corrected": np.asarray(binary.descent_margin_bound(t, x, 1.0)) - np.log1p(x * t)},
        "margin − log(1 + ηct)", log_x=True)  # fmt: skip


C15 = Checks(
    lambda seed: _margin_as_printed(seed, lambda x: np.zeros_like(x)),
    corrected=_never_behind_the_flow,
    certificates=_margin_proof,
    curves=lambda: _margin_curves(0.1),
)


def _weak_bound(seed: int) -> Evidence:
    x, at, m = descents(seed)
    told = binary.weak_log_bound(at[None, :], x[:, None], 1.0)
    return at_least(m, told, **_at(x, at))


C16 = Checks(
    lambda seed: _margin_as_printed(seed, lambda x: -1 / x),
    corrected=_weak_bound,
    certificates=precisely(lambda: [Certificate(
        "m_1 ≥ log(1 + ηc) at ηc = 1/10", descent_margins(fmpq(1, 10), 1)[1], ">=", arb(fmpq(11, 10)).log())]),
    curves=lambda: _margin_curves(0.5),
)  # fmt: skip


# --- C17, C18 ---


def _token_losses(seed: int) -> tuple[np.ndarray, ...]:
    x, at, m = descents(seed)
    return x, at[None, 1:], np.logaddexp(0.0, -m[:, 1:])


def _loss_bound(seed: int, constant: float) -> Evidence:
    """Token by token, where L(W_t) = sum p(x) ell_x and the bound are both sums over tokens."""
    x, t, ell = _token_losses(seed)
    return at_most(ell * x[:, None] * t, constant, **_at(x, t))


@all_of
def _whole_loss_bound(seed: int) -> Iterator[Evidence]:
    """The same for whole problems, by `memory` and by the theory's own formulas."""
    rng = rng_for(seed, "C17")
    for index in range(4):
        problem = random_problem(rng, 4, 2, 6, orthogonal=True)
        eta, steps = 10 ** rng.uniform(-1, 1), np.array([1, 3, 10, 30, 100])
        W, losses = np.zeros((6, 6)), []
        for step in range(1, 101):
            W = W - eta * np.asarray(memory.grad(problem, W))
            if step in steps:
                losses.append(float(memory.loss(problem, W)))
        yield at_most(
            losses, binary.descent_loss_bound(steps, problem, eta), step=steps, model=index
        )
        yield at_most(losses, binary.flow_loss(eta * steps, problem), step=steps, model=index)


def _loss_constant_is_sharp(seed: int) -> Evidence:
    """Small steps come near the constant, and from x = 2 on the printed 1 is right."""
    x, t, ell = _token_losses(seed)
    reached = (ell * x[:, None] * t)[x <= 0.01].max()
    large = x >= 2
    return both(
        at_least(reached, binary.LOSS_CONSTANT - 1e-3),
        at_most((ell * x[:, None] * t)[large], 1.0, x=x[large, None], step=t, tolerance=MANY_STEPS),
    )


@precisely
def _loss_proof() -> list[Certificate]:
    m = descent_margins(fmpq(1), 13)[13]
    small = descent_margins(fmpq(1, 100), 1450)[1450]
    scaled = lambda m: (m + m.exp() - 1) * (1 + (-m).exp()).log()
    top = maximum(scaled, fmpq(0), fmpq(40), (fmpq(24, 10), fmpq(27, 10)))
    # L x t > 1 once y < x t - 1/2, since 1/(e^z - 1) > 1/z - 1/2.
    when = _behind_by(fmpq(199, 100), fmpq(1, 2))
    prove = functools.partial(Certificate, violates=False)
    return [
        Certificate("N = 2, p = (1/2, 1/2), c_x = 1, η = 1, t = 13: L(W_t) ≤ 1/t", softplus(-m), "<=", fmpq(1, 13)),
        Certificate("ηc = 1/100, t = 1450: L ηct ≤ 1", softplus(-small) * fmpq(1450, 100), "<=", fmpq(1)),
        prove("C* = max of (m + e^m − 1) log(1 + e^(−m)) over [0, 40], by subdivision: below 1.0794346856", top, "<", fmpq(10794346856, 10**10)),
        prove("and above 1.0794346855", top, ">", fmpq(10794346855, 10**10)),
        *encloses(binary.LOSS_CONSTANT, top),
        prove("m > 40: at most 1 + m e^(−m) < 1.0001", 1 + 40 * arb(-40).exp(), "<", fmpq(10001, 10000)),
        prove("ηc = 1.99: the constant 1 has failed before t = 10^100, by the same deficit", when, "<", arb(10) ** 100),
    ]  # fmt: skip


C17 = Checks(
    lambda seed: _loss_bound(seed, 1.0),
    corrected=lambda seed: both(_loss_bound(seed, binary.LOSS_CONSTANT), _loss_constant_is_sharp(seed), _whole_loss_bound(seed)),
    certificates=_loss_proof,
    curves=lambda: Curves(
        "ηct · loss of one token (ηc = 1/10)", ("step", _t := np.unique(np.geomspace(1, 20000, 200).astype(int))),
        {"true": np.logaddexp(0, -descend_token(np.array([0.1]), np.ones(1), np.concatenate([[0], _t]))[0, 1:]) * 0.1 * _t,
         "printed": np.ones(len(_t)), "corrected": np.full(len(_t), binary.LOSS_CONSTANT)}, "ηct · loss", log_x=True),
)  # fmt: skip


def _loss_falls(seed: int) -> Evidence:
    x, at, m = descents(seed)
    falls = at_most(np.diff(np.logaddexp(0.0, -m), axis=1), 0.0, **_at(x, at[1:]))
    grows = at_least(np.diff(m, axis=1), 0.0, **_at(x, at[1:]))
    return both(falls, grows, _loss_bound(seed, binary.LOSS_CONSTANT))


C18 = Checks(_loss_falls)
