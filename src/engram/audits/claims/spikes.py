"""C41 and C42: loss spikes (Proposition 1)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import fmpq

from engram.audits._balls import pair_descent, precisely, softplus
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, both, equal, true
from engram.audits._parameters import Pairs, rng_for
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims._pair_runs import RUNS
from engram.problem import two_tokens
from engram.theory import interference, printed, spike


@all_of
def _early_steps(seed: int, factor) -> Iterator[Evidence]:
    """One step at zero where αp_1 ≫ p_2, against the approximation; it may be off by cηp_2 only."""
    rng = rng_for(seed, "C41")
    for _ in range(30):
        alpha, p1 = rng.uniform(0.9, 1.0), 1 - 10 ** rng.uniform(-4, -2)
        c, eta = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1)
        told = np.array(printed.early_margin_steps(0.0, eta, alpha, p1)) * factor(c)
        moved = np.array(interference.descent_step(0.0, 0.0, eta, alpha, p1, c))
        ran = descend_pairs(np.full(RUNS, alpha), p1, c, eta, np.arange(257))[0, 1]
        yield at_most(
            np.abs(moved - told), c * eta * (1 - p1), correlation=alpha, p1=p1, contrast=c
        )
        yield equal(moved, ran, tolerance=1e-12)


C41 = Checks(
    lambda seed: _early_steps(seed, lambda c: 1.0),
    corrected=lambda seed: _early_steps(seed, lambda c: c),
    certificates=precisely(lambda: [Certificate(
        "c = 2, α = 1, p_1 = 999/1000, η = 1, W = 0: Δm_1 is within 1/100 of ηp_1/2",
        pair_descent(1, fmpq(999, 1000), 2, 1, 1)[1][0] - fmpq(999, 2000), "<=", fmpq(1, 100))]),
)  # fmt: skip


def _spikes(seed: int) -> tuple[Pairs, np.ndarray]:
    rng = rng_for(seed, "C42")
    p1 = rng.uniform(0.55, 0.999, 2000)
    floor = (1 - p1) / p1
    alpha = floor + (1 - floor) * rng.uniform(0.01, 1.0, 2000)
    drawn = Pairs(alpha, p1, 10 ** rng.uniform(-1, 1, 2000), 10 ** rng.uniform(-2, 4, 2000))
    return drawn, np.asarray(spike.two_token_first_step_loss(drawn.learning_rate, *drawn[:3]))


def _spike_bound(seed: int, form) -> Evidence:
    drawn, loss = _spikes(seed)
    return at_least(loss, form(drawn), **drawn._asdict())


def _spike_corrected(seed: int) -> Evidence:
    drawn, loss = _spikes(seed)
    large = drawn.contrast >= 2
    told = np.asarray(spike.spike_bound(drawn.learning_rate, *drawn[:3]))
    where: dict[str, Any] = drawn._asdict()
    few = Pairs(*(values[:RUNS] for values in drawn))
    ran = descend_pairs(*few, np.arange(257))[:, 1]
    p = np.stack([drawn.p1, 1 - drawn.p1], 1)[:RUNS]
    threshold = np.asarray(spike.two_token_spike_threshold(*drawn[:3]))
    problems = [two_tokens(a, p) for a, p in zip(drawn.correlation[:8], drawn.p1[:8], strict=True)]
    general = np.array([float(spike.spike_threshold(problem)) for problem in problems])
    return both(
        at_least(loss, told, **where),
        # From the spike's size on, the bound is all there is: it cannot be improved by a factor.
        at_most(loss[told > 100], 1.02 * told[told > 100] + 1),
        at_least(
            loss[large],
            printed.spike_bound(
                drawn.learning_rate[large], drawn.correlation[large], drawn.p1[large]
            ),
        ),
        equal((p * np.logaddexp(0.0, -ran)).sum(1), loss[:RUNS], tolerance=1e-12),
        true((loss > np.log(2)) == (drawn.learning_rate > threshold), **where),
        equal(
            general,
            spike.two_token_spike_threshold(drawn.correlation[:8], drawn.p1[:8]),
            tolerance=1e-9,
        ),
    )


@precisely
def _spike_proof() -> list[Certificate]:
    found = []
    for contrast, eta in ((fmpq(1), 100), (fmpq(19, 10), 10)):
        m1, m2 = pair_descent(fmpq(19, 20), fmpq(3, 4), contrast, eta, 1)[1]
        loss = fmpq(3, 4) * softplus(-m1) + fmpq(1, 4) * softplus(-m2)
        found.append(Certificate(
            f"α = .95, p_1 = 3/4, c = {contrast}, η = {eta}: L(W_1) ≥ η(αp_1 − p_2)p_2",
            loss, ">=", eta * (fmpq(19, 20) * fmpq(3, 4) - fmpq(1, 4)) / 4))  # fmt: skip
    return found


C42 = Checks(
    lambda seed: _spike_bound(seed, lambda d: printed.spike_bound(d.learning_rate, d.correlation, d.p1)),
    corrected=_spike_corrected,
    certificates=_spike_proof,
    curves=lambda: Curves(
        "loss after one step from zero, α = 0.95, p_1 = 3/4, c = 1", ("learning rate", _e := np.geomspace(0.3, 100, 120)),
        {"true": np.asarray(spike.two_token_first_step_loss(_e, 0.95, 0.75, 1.0)), "printed": np.asarray(printed.spike_bound(_e, 0.95, 0.75)),
         "corrected": np.asarray(spike.spike_bound(_e, 0.95, 0.75, 1.0))}, "loss", log_x=True, log_y=True),
)  # fmt: skip
