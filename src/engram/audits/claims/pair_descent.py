"""C38 to C40: two tokens under gradient descent (Theorem 4)."""

from typing import Any

import numpy as np
from flint import arb, fmpq

from engram.audits._balls import first_step, inverse_g, pair_descent, precisely
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import MANY_STEPS, Evidence, at_least, between, both, equal, true
from engram.audits._parameters import Pairs, pairs, rng_for
from engram.audits._runs import descend_pairs, steps_to
from engram.audits.claims._checks import Checks
from engram.audits.claims._pair_runs import RUNS, columns, descents
from engram.theory import interference, printed


def _at(drawn: Pairs, steps: np.ndarray) -> dict[str, Any]:
    """The cases of descents over many steps."""
    alpha, p1, _, eta = columns(drawn)
    return {
        "correlation": alpha,
        "p1": p1,
        "learning_rate": eta,
        "step": steps,
        "tolerance": MANY_STEPS,
    }


def _descent_sum(seed: int) -> Evidence:
    drawn, at, _, half_sum = descents(seed)
    alpha, p1, c, eta = columns(drawn)
    x = eta * (1 - p1) * (1 - alpha) * c
    s = 1 + x * at
    # The printed remainder O(log t/t), with its sharp constant.
    told = np.log(s) - 1.0238 * np.log(s) / s
    return at_least(half_sum, told, **_at(drawn, at))


def _descent_sum_exact(seed: int) -> Evidence:
    drawn, at, _, half_sum = descents(seed)
    alpha, p1, c, eta = columns(drawn)
    told = np.asarray(interference.descent_half_sum_bound(at[None, :], eta, alpha, p1, c))
    # At equal frequencies and small steps descent is the flow, and the bound is it.
    calm = (drawn.p1 == 0.5) & (drawn.learning_rate <= 1)
    sharp = equal(half_sum[calm, -1], told[calm, -1], tolerance=1e-3)
    return both(at_least(half_sum, told, **_at(drawn, at)), sharp)


@precisely
def _descent_sum_proof() -> list[Certificate]:
    m1, m2 = pair_descent(0, fmpq(1, 2), 2, 1, 5)[5]
    held = Certificate(
        "α = 0, p_1 = 1/2, c = 2, η = 1, t = 5: γ_2 ≥ G⁻¹(1 + ηp_2c_0t)",
        (m1 + m2) / 2,
        ">=",
        inverse_g(1 + 5),
        violates=False,
    )
    lost = Certificate(
        "the appendix's later line γ_2 ≥ log(ηct + 1) is false there: γ_2 is below log 11",
        (m1 + m2) / 2,
        "<",
        arb(11).log(),
        violates=False,
    )
    return [held, lost]


C38 = Checks(
    _descent_sum,
    corrected=_descent_sum_exact,
    certificates=_descent_sum_proof,
    curves=lambda: Curves(
        "γ_2 under descent, α = 0.95, p_1 = 3/4, c = 2, η = 10", ("step", descents(0)[1][1:]),
        {"true": descents(0)[3][1, 1:], "corrected": np.asarray(interference.descent_half_sum_bound(descents(0)[1][1:], 10.0, 0.95, 0.75)),
         "printed, last line": np.asarray(printed.descent_half_sum_bound(descents(0)[1][1:], 10.0))}, "γ_2", log_x=True),
)  # fmt: skip


def _box(seed: int, form) -> Evidence:
    drawn, at, half_gap, _ = descents(seed)
    alpha, p1, c, eta = columns(drawn)
    low, high = form(eta, alpha, p1, c)
    return between(low, half_gap, high, **_at(drawn, at))


def _box_is_sharp() -> Evidence:
    """How much of the allowed reach is used by the worst of a fine grid: nearly all of it."""
    alpha = np.linspace(-0.9, 0.999, 96)
    used = []
    for p1 in (0.51, 0.9):
        m = descend_pairs(alpha, p1, 2.0, 1e4, np.arange(257))
        half_gap = (m[..., 0] - m[..., 1]) / 2
        reach = 1e4 * (1 + alpha)
        used.append(half_gap.max(1) / (reach * p1))
        used.append(half_gap.min(1) / (-reach * (1 - p1)))
    return at_least(np.array(used).max(), 0.9)


@precisely
def _box_proof() -> list[Certificate]:
    alpha, p1 = fmpq(19, 20), fmpq(3, 4)
    middle = arb(3).log() / 2
    gap = lambda eta, t: (lambda m: (m[0] - m[1]) / 2)(pair_descent(alpha, p1, 2, eta, t)[t])
    high = lambda eta: middle + fmpq(3, 2) + eta * 2 * (1 - alpha) * p1
    low = middle - 100 * 2 * (1 - alpha) * (1 - p1)
    return [
        Certificate("α = .95, p_1 = 3/4, c = 2, η = 10, t = 1: γ_1 ≤ γ_max", gap(10, 1), "<=", high(10)),
        Certificate("η = 100, t = 5: γ_1 ≤ γ_max", gap(100, 5), "<=", high(100)),
        Certificate("η = 100, t = 4: γ_1 ≥ γ_min", gap(100, 4), ">=", low),
    ]  # fmt: skip


def _box_curves() -> Curves:
    at = np.arange(41)
    m = descend_pairs(np.array([0.95]), 0.75, 2.0, 10.0, at)[0]
    flat = lambda value: np.full(len(at), float(value))
    low, high = interference.descent_half_gap_bounds(10.0, 0.95, 0.75)
    lower, higher = printed.descent_half_gap_bounds(10.0, 0.95, 0.75)
    return Curves("γ_1 under descent, α = 0.95, p_1 = 3/4, c = 2, η = 10", ("step", at), {
        "true": (m[:, 0] - m[:, 1]) / 2, "printed": flat(higher), "printed, below": flat(lower),
        "corrected": flat(high), "corrected, below": flat(low)}, "γ_1")  # fmt: skip


C39 = Checks(
    lambda seed: _box(seed, printed.descent_half_gap_bounds),
    corrected=lambda seed: both(_box(seed, interference.descent_half_gap_bounds), _box_is_sharp()),
    certificates=_box_proof,
    curves=_box_curves,
)


def _steps_to_perfect(drawn: Pairs, last: int) -> np.ndarray:
    """The first recorded step with both margins positive; NaN if there is none by `last`."""
    at = steps_to(last, dense=256, sparse=48)
    right = np.asarray((descend_pairs(*drawn, at) > 0).all(2))
    return np.where(right.sum(1) > 0, at[right.argmax(1)], np.nan)


def _always_perfect(seed: int) -> Evidence:
    """As printed: every learning rate η ≥ 0 and every correlation up to 1."""
    eta, alpha = np.repeat([1.0, 0.0, 10.0], 32), np.tile([0.5, 0.9, 1.0, -1.0], 24)
    drawn = Pairs(alpha, np.full(96, 0.75), np.full(96, 2.0), eta)
    reached = _steps_to_perfect(drawn, 1_000_000)
    return true(np.isfinite(reached), correlation=alpha, learning_rate=eta)


def _perfect_corrected(seed: int) -> Evidence:
    rng = rng_for(seed, "C40")
    drawn = pairs(rng, RUNS, nearest=0.05, rates=(0.1, 100.0), contrasts=(1.0, 4.0))
    drawn = drawn._replace(p1=np.minimum(drawn.p1, 0.95))
    reached = _steps_to_perfect(drawn, 1_000_000)
    alpha, p1, _, eta = drawn
    always = true(np.isfinite(reached), correlation=alpha, p1=p1, learning_rate=eta)
    eta = np.array([1.0, 2, 3, 5, 10, 30, 100, 300, 1000])
    steps = _steps_to_perfect(
        Pairs(np.full(9, 0.9), np.full(9, 0.6), np.full(9, 2.0), eta), 1_000_000
    )
    alpha = np.array([0.1, 0.5, 0.8, 0.9, 0.95, 0.98])
    harder = _steps_to_perfect(
        Pairs(alpha, np.full(6, 0.75), np.full(6, 2.0), np.ones(6)), 1_000_000
    )
    limit = np.array(
        [
            float(interference.perceptron_steps(a, p))
            for a, p in zip(drawn.correlation, drawn.p1, strict=True)
        ]
    )
    giant = _steps_to_perfect(
        drawn._replace(learning_rate=np.full(RUNS, 1e7), contrast=np.full(RUNS, 2.0)), 1_000_000
    )
    alike = np.isfinite(giant) & (limit <= 256)
    return both(
        always,
        true(steps[3] < steps[0] and steps[-1] > steps[3]),
        at_least(np.diff(harder), 0.0, correlation=alpha[1:]),
        # At 1e7 descent is a perceptron, short of ties; five percent may be those.
        at_least(np.mean(giant[alike] == limit[alike]), 0.95),
    )


C40 = Checks(
    _always_perfect,
    corrected=_perfect_corrected,
    certificates=lambda: [Certificate(
        "η = 0, α = 1/2, p_1 = 3/4: the second margin is positive after a step", first_step(fmpq(1, 2), fmpq(3, 4), 2, 0)[1], ">", fmpq(0))],
)  # fmt: skip
