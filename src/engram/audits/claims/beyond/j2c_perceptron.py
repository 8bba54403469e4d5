"""J2c: as the learning rate grows without bound, descent is a batch perceptron."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.stats import bootstrap

from engram import capacity
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_most, equal, true
from engram.audits._parameters import rng_for
from engram.audits._runs import descend_pairs, steps_to
from engram.audits.claims._checks import Checks
from engram.problem import Problem
from engram.theory import interference, large_steps

STEPS = 256


def _exact(alpha: Fraction, p1: Fraction) -> tuple[np.ndarray, int, Fraction]:
    """The perceptron's path μ, its steps to perfect accuracy, and its mistakes, weighted by frequency."""
    law, mu, path, mistakes = (p1, 1 - p1), [Fraction(0)] * 2, [], Fraction(0)
    while len(path) < STEPS and not (path and min(mu) > 0):
        push = [p * (1 if m < 0 else Fraction(1, 2) if m == 0 else 0) for p, m in zip(law, mu, strict=True)]  # fmt: skip
        mistakes += sum(push)
        mu = [m + push[i] - alpha * push[1 - i] for i, m in enumerate(mu)]
        path.append([float(m) for m in mu])
    return np.array(path), len(path), mistakes


def _draws(seed: int) -> list[tuple[Fraction, Fraction]]:
    """Denominators that are prime to each other: no margin returns to exactly 0."""
    rng = rng_for(seed, "J2c")
    alpha, p1 = rng.integers(-89, 95, 96), rng.integers(506, 950, 96)
    return [(Fraction(int(a), 97), Fraction(int(p), 1009)) for a, p in zip(alpha, p1, strict=True)]


def _mistakes(problem: Problem) -> float:
    """The batch perceptron on any problem of two classes, from zero."""
    sign = np.where(problem.targets == 0, 1.0, -1.0)
    Z, p = sign[:, None] * problem.inputs, problem.probs
    v, total = np.zeros(problem.dim), 0.0
    while True:
        m = Z @ v
        push = p * np.where(m < 0, 1.0, np.where(m == 0, 0.5, 0.0))
        if not push.any():
            return float(total)
        total, v = total + push.sum(), v + push @ Z


class J2c(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        pairs = _draws(seed)
        alpha, p1 = np.array(pairs, float).T
        at = steps_to(STEPS, dense=STEPS)
        m = descend_pairs(alpha, p1, 2.0, np.array(1e7), at)
        first = at[(m > 0).all(2).argmax(1)]
        exact = [_exact(*pair) for pair in pairs]
        count, mistakes = np.array([e[1] for e in exact]), np.array([float(e[2]) for e in exact])
        yield true(first == count, correlation=alpha, p1=p1)
        each = zip(alpha, p1, strict=True)
        yield equal(np.array([interference.perceptron_steps(*pair) for pair in each]), count)
        for (mu, *_), path in zip(exact, m, strict=True):
            yield at_most(np.abs(path[1 : len(mu) + 1] / 2e7 - mu), 1e-5)
        bound = large_steps.perceptron_bound(np.sqrt(2.0), interference.max_margin_norm(alpha))
        yield equal(bound, 2 / (1 - alpha), correlation=alpha)
        yield at_most(mistakes, bound, correlation=alpha, p1=p1)
        yield at_most(count * (1 - p1), bound + p1, correlation=alpha, p1=p1)
        yield self._length(alpha, p1)
        rng = rng_for(seed, "J2c more")
        for index in range(12):
            E = rng.normal(size=(8, 8 if index % 2 else 5))
            E /= np.linalg.norm(E, axis=1, keepdims=True)
            target = (E @ rng.normal(size=E.shape[1]) > 0).astype(
                int
            )  # so that all can be recalled
            problem = Problem(E, np.eye(2, E.shape[1]), rng.dirichlet(np.full(8, 5.0)), target)
            norm = np.linalg.norm(capacity.max_margin(problem))
            bound = large_steps.perceptron_bound(large_steps.reach(problem), norm)
            yield at_most(_mistakes(problem) / bound, 1.0, model=index)

    def _length(self, alpha: np.ndarray, p1: np.ndarray) -> Evidence:
        """The exponent with which the steps until the loss is stable grow with η, from η = 1000 to 10^7."""
        at, rates, exits = steps_to(STEPS, dense=STEPS), 10.0 ** np.arange(3, 8), []
        for eta in rates:
            m = descend_pairs(alpha, p1, 2.0, eta, at)
            loss = p1[:, None] * np.logaddexp(0, -m[..., 0]) + (1 - p1)[:, None] * np.logaddexp(0, -m[..., 1])  # fmt: skip
            stable = large_steps.stable_loss(eta, np.sqrt(2.0), 1 - p1)
            exits.append((loss <= stable[:, None]).argmax(1))
        growth = np.polyfit(np.log(rates), np.log(np.array(exits)), 1)[0]
        found = bootstrap((growth,), np.mean, n_resamples=2000, rng=np.random.default_rng(0))
        low, high = found.confidence_interval
        note = f"steps until stable grow like η to the {low:.4f} to {high:.4f}, from η = 1000 on"
        evidence = at_most(np.abs([low, high]), 0.02)
        return Evidence(evidence.slack, evidence.where, evidence.tolerance, note, growth.size)

    def curves(self) -> Curves:
        alpha = np.linspace(0.3, 0.95, 60)
        found = [_exact(Fraction(int(a * 970), 971), Fraction(757, 1009)) for a in alpha]
        series = {
            "mistakes, weighted": np.array([float(mistakes) for *_, mistakes in found]),
            "bound, 2/(1 − α)": large_steps.perceptron_bound(2**0.5, interference.max_margin_norm(alpha)),
        }  # fmt: skip
        return Curves("two tokens, p_1 = 3/4, η → ∞", ("correlation α", alpha), series, log_y=True)
