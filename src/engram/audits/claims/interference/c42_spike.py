"""C42: Proposition 1: a loss spike at the first step."""

from collections.abc import Iterator

import numpy as np
from flint import fmpq

from engram.audits._balls import pair_descent, softplus
from engram.audits._certificate import Certificate
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal, true
from engram.audits._parameters import Pairs, rng_for
from engram.audits._runs import descend_pairs
from engram.audits.claims._checks import Checks
from engram.audits.claims.interference._runs import RUNS
from engram.problem import two_tokens
from engram.theory import printed, spike


class C42(Checks):
    def _spikes(self, seed: int) -> tuple[Pairs, np.ndarray]:
        """Pairs whose first step can spike, and the loss after it."""
        rng = rng_for(seed, "C42")
        p1 = rng.uniform(0.55, 0.999, 2000)
        floor = (1 - p1) / p1
        alpha = floor + (1 - floor) * rng.uniform(0.01, 1.0, 2000)
        drawn = Pairs(alpha, p1, 10 ** rng.uniform(-1, 1, 2000), 10 ** rng.uniform(-2, 4, 2000))
        return drawn, spike.two_token_first_step_loss(drawn.learning_rate, *drawn[:3])

    def printed(self, seed: int) -> Evidence:
        drawn, loss = self._spikes(seed)
        bound = printed.spike_bound(drawn.learning_rate, drawn.correlation, drawn.p1)
        return at_least(loss, bound, **drawn._asdict())

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        drawn, loss = self._spikes(seed)
        alpha, p1, contrast, eta = drawn
        bound = spike.spike_bound(eta, alpha, p1, contrast)
        yield at_least(loss, bound, **drawn._asdict())
        # The bound is the loss up to log 2: it cannot be improved by a factor.
        yield at_most(loss, bound + np.log(2), **drawn._asdict())
        large = contrast >= 2
        yield at_least(loss[large], printed.spike_bound(eta[large], alpha[large], p1[large]))
        few = Pairs(*(values[:RUNS] for values in drawn))
        ran = descend_pairs(*few, np.arange(257))[:, 1]
        p = np.stack([p1, 1 - p1], 1)[:RUNS]
        yield equal((p * np.logaddexp(0.0, -ran)).sum(1), loss[:RUNS], tolerance=1e-12)
        threshold = spike.two_token_spike_threshold(alpha, p1, contrast)
        yield true((loss > np.log(2)) == (eta > threshold), **drawn._asdict())
        general = [spike.spike_threshold(two_tokens(alpha[k], p1[k])) for k in range(8)]
        threshold = spike.two_token_spike_threshold(alpha[:8], p1[:8])
        yield equal(general, threshold, tolerance=1e-9)

    def certificates(self) -> list[Certificate]:
        certificates = []
        for contrast, eta in ((fmpq(1), 100), (fmpq(19, 10), 10)):
            m1, m2 = pair_descent(fmpq(19, 20), fmpq(3, 4), contrast, eta, 1)[1]
            loss = fmpq(3, 4) * softplus(-m1) + fmpq(1, 4) * softplus(-m2)
            bound = eta * (fmpq(19, 20) * fmpq(3, 4) - fmpq(1, 4)) / 4
            statement = f"α = .95, p_1 = 3/4, c = {contrast}, η = {eta}: L(W_1) ≥ η(αp_1 − p_2)p_2"
            certificates.append(Certificate(statement, loss, ">=", bound))
        return certificates

    def curves(self) -> Curves:
        eta = np.geomspace(0.3, 100, 120)
        return Curves("loss after one step from zero, α = 0.95, p_1 = 3/4, c = 1", ("learning rate", eta), {
            "true": spike.two_token_first_step_loss(eta, 0.95, 0.75, 1.0), "printed": printed.spike_bound(eta, 0.95, 0.75),
            "corrected": spike.spike_bound(eta, 0.95, 0.75, 1.0)}, "loss", log_x=True, log_y=True)  # fmt: skip
