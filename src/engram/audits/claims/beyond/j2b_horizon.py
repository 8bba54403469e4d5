"""J2b: with the learning rate in proportion to the budget T the loss falls like 1/T^2, or faster."""

import functools
from collections.abc import Iterator

import numpy as np
from scipy.stats import bootstrap

from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, between, equal
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.theory import interference, large_steps

DRAWS = 40
SHARES = np.array([1e-4, 3e-3])  # η/T
BUDGETS = np.geomspace(2000, 24000, 8).round().astype(int)


@functools.lru_cache(maxsize=2)
def _losses(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlations, frequencies, and the losses of (draw, η/T, budget that sets η, step)."""
    rng = rng_for(seed, "J2b")
    alpha, p1 = rng.uniform(-0.9, 0.9, DRAWS), rng.uniform(0.5, 0.9, DRAWS)
    rates = (SHARES[:, None] * BUDGETS).ravel()
    pairs = (np.repeat(alpha, rates.size), np.repeat(p1, rates.size), 2.0)
    m = descend_pairs(*pairs, np.tile(rates, DRAWS), BUDGETS)
    m = m.reshape(DRAWS, len(SHARES), len(BUDGETS), len(BUDGETS), 2)
    p = np.stack([p1, 1 - p1], 1)[:, None, None, None, :]
    return alpha, p1, (p * np.logaddexp(0, -m)).sum(-1)


def _exponents(seed: int, share: int, begin: int) -> np.ndarray:
    """Minus the slope of log L_T over log T at η = share T, for each draw; the fit begins at the given budget."""
    _, _, losses = _losses(seed)
    at_horizon = np.diagonal(losses[:, share], axis1=1, axis2=2)[:, begin:]
    return -np.polyfit(np.log(BUDGETS[begin:]), np.log(at_horizon).T, 1)[0]


def _interval(values: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the mean over draws."""
    found = bootstrap((values,), np.mean, n_resamples=2000, rng=np.random.default_rng(0))
    return found.confidence_interval.low, found.confidence_interval.high


class J2b(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for share in range(len(SHARES)):
            low, high = _interval(_exponents(seed, share, 4))
            yield between(1.96, low, 2.04, share=SHARES[share])
            yield between(1.96, high, 2.04, share=SHARES[share])

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        alpha, p1, losses = _losses(seed)
        norm = interference.max_margin_norm(alpha, 2.0)
        notes = []
        for begin in (0, 2, 4):  # the fit begins at T = 2000, 4068, 8274
            low, high = _interval(_exponents(seed, 0, begin))
            notes.append(f"T from {BUDGETS[begin]}: {low:.4f} to {high:.4f}")
            width = 0.04 if begin == 0 else 0.02
            yield at_least(low, 2 - width, begin=BUDGETS[begin])
            yield at_most(high, 2 + width, begin=BUDGETS[begin])
        # Descent at one rate, η = 1.2: 1/t.
        low, high = _interval(-np.polyfit(np.log(BUDGETS[4:]), np.log(losses[:, 0, -2, 4:]).T, 1)[0])  # fmt: skip
        notes.append(f"1/t: {low:.4f} to {high:.4f}")
        scaled = np.diagonal(losses[:, 0], axis1=1, axis2=2)[:, 4:] * SHARES[0] * BUDGETS[4:] ** 2
        constant = scaled / norm[:, None] ** 2
        yield at_most(np.abs(constant - 1), 0.05, correlation=alpha[:, None])
        yield equal(constant.mean(0), 1.0, tolerance=5e-3, budget=BUDGETS[4:])
        rest = between(0.98, np.array([low, high]), 1.02)
        yield Evidence(rest.slack, rest.where, rest.tolerance, "; ".join(notes), DRAWS)
        # Thirty times the rate: on average faster than any such power, and never above |W_mm|²/(ηT).
        steep = _exponents(seed, 1, 4)
        above = (
            np.diagonal(losses[:, 1], axis1=1, axis2=2)
            * SHARES[1]
            * BUDGETS**2
            / norm[:, None] ** 2
        )
        yield at_most(above, 1.02, correlation=alpha[:, None])
        yield at_least(_interval(steep)[0], 5.0)
        R, T = np.sqrt(2.0), 5000.0
        rate = large_steps.horizon_rate(T, R, norm)
        bound = large_steps.horizon_bound(T, R, norm, 1 - p1)
        m = descend_pairs(alpha, p1, 2.0, rate, np.array([int(T)]))[:, 0]
        loss = (np.stack([p1, 1 - p1], 1) * np.logaddexp(0, -m)).sum(1)
        yield at_most(loss, bound, correlation=alpha)

    def curves(self) -> Curves:
        alpha, _, losses = _losses(0)
        norm = interference.max_margin_norm(alpha, 2.0)
        scaled = np.diagonal(losses, axis1=2, axis2=3) / norm[:, None, None] ** 2
        middle = np.median(scaled, axis=0)
        series = {
            "η = T/10,000, median": middle[0],
            "η = 3T/1000, median": np.maximum(middle[1], 1e-30),
            "10,000/T²": 1e4 / BUDGETS**2.0,
        }
        return Curves("loss over |W_mm|² at the horizon T", ("T", BUDGETS), series, "loss", log_x=True, log_y=True)  # fmt: skip
