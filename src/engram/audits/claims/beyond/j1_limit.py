"""J1: where long training of a separable problem ends."""

from collections.abc import Iterator

import numpy as np

from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_most, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.beyond._separable import NOISE, STEPS, TIMES, Run, descents, flows
from engram.capacity import max_margin_multipliers
from engram.problem import Problem, orthonormal, two_tokens
from engram.theory import binary, interference, multiclass, separable


def _extrapolated(values: np.ndarray) -> tuple[float, float]:
    """The limit of a sequence by Aitken's rule from its last three values, and how far it went to get there."""
    first, second, last = values[-3:]
    bend = last - 2 * second + first
    limit = last - (last - second) ** 2 / bend if abs(bend) > 1e-13 * abs(last) else last
    return float(limit), float(abs(limit - last))


def _constants(run: Run, times: np.ndarray) -> Evidence:
    measured, error = _extrapolated((times * run.loss)[-21::5])
    told = separable.limit_loss_constant(run.problem, run.given)
    return at_most(abs(measured / told - 1), error / told + 1e-9)


class J1(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        for run in flows(seed):
            yield _constants(run, TIMES)
            rest = (run.margins - separable.margin_asymptote(TIMES, run.problem, run.given))[:, run.support]  # fmt: skip
            # A power of 0.15 or more: what is left is at most 1/30 of what the last ten decades changed.
            room = NOISE + np.abs(rest[-1] - rest[-11]).max() / 25
            yield at_most(np.abs(rest[-1]), room)
        for run in descents(seed):
            t = run.learning_rate * STEPS
            rate = separable.rate(run.problem, run.given, run.learning_rate)
            room = 0.01 + 2 * np.nanmax(np.abs(rate.logarithms)) * np.log(t[-1]) / t[-1]
            told = separable.margin_asymptote(t[-1], run.problem, run.given)
            yield at_most(np.abs(run.margins[-1] - told)[run.support], room)
            told = separable.limit_loss_constant(run.problem, run.given)
            yield at_most(abs(t[-1] * run.loss[-1] / told - 1), room)
        # A margin just above 1 is not on the support.
        near = Problem([[1.0, 0.0], [1.01, 0.5]], [[1.0, 0.0], [0.0, 0.0]], [0.5, 0.5], [0, 0])
        limit = separable.limit(near, max_margin_multipliers(near))
        yield equal(
            [limit.slack, limit.multipliers[0, 1], limit.offsets[0, 1]], [1.01, 1.0, -np.log(2)]
        )
        yield self._special_cases()

    @all_of
    def _special_cases(self) -> Iterator[Evidence]:
        """Theorems 2, 3 and 4."""
        late = 1e9
        halves = (
            interference.half_gap_limit(0.5, 0.75),
            interference.half_sum_asymptote(late, 0.5, 0.75),
        )
        for problem, told in (
            (two_tokens(0.5, 0.75), interference.margins(*halves)),
            (two_tokens(0.0, 0.75), binary.flow_margin(late, binary.rates(two_tokens(0.0, 0.75)))),
            (orthonormal(2, 3, probs=[0.7, 0.3]), np.repeat(multiclass.flow_margin(late, [0.7, 0.3], 3), 2)),
        ):  # fmt: skip
            found = separable.margin_asymptote(late, problem, max_margin_multipliers(problem))
            yield equal(found[np.isfinite(found)], told, tolerance=1e-7)

    def curves(self) -> Curves:
        run = min(flows(0), key=lambda run: separable.rate(run.problem, run.given).exponent)
        constant = separable.limit_loss_constant(run.problem, run.given)
        return Curves("t L under flow, and its limit |W|²", ("time", TIMES), {
            "true": TIMES * run.loss, "corrected": np.full(len(TIMES), constant)}, "t L", log_x=True)  # fmt: skip
