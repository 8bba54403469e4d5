"""J1b: how fast long training of a separable problem gets to its limit."""

from collections.abc import Iterator

import numpy as np
from scipy.optimize import least_squares

from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal
from engram.audits.claims._checks import Checks
from engram.audits.claims.beyond._separable import (
    NOISE,
    STEPS,
    TIMES,
    Run,
    descents,
    flows,
    is_slack,
    two_margins,
)  # fmt: skip
from engram.capacity import max_margin_multipliers
from engram.problem import Problem
from engram.theory import separable

_ONE = Problem([[1.0]], [[3**0.5], [0.0]], [1.0], [0])  # c = 3
_WINDOWS = ((0.5, 1.0), (0.6, 1.0), (0.5, 0.9), (0.4, 0.8))  # of what is above the noise


def _slope(log_t: np.ndarray, log_change: np.ndarray, logarithm: bool) -> float:
    """The r of t^-r, or of t^-r |log(t) + c|."""
    if not logarithm:
        return float(-np.polyfit(log_t, log_change, 1)[0])
    miss = lambda q: q[0] - q[1] * log_t + np.log(np.abs(log_t + q[2])) - log_change
    height = log_change[-1] + log_t[-1] - np.log(log_t[-1])
    fits = (least_squares(miss, [height, 1.0, shift]) for shift in (0.0, 5.0, -3.0))
    return float(min(fits, key=lambda fit: fit.cost).x[1])


def _fitted(values: np.ndarray, noise: float, logarithm: bool = False) -> tuple[float, float]:
    """The exponent with which values per decade, shape (T, ...), settle: the ends of an interval.

    From changes over a decade, which need no limit. The fit ends where they drown in the solver's noise and begins
    halfway; the interval is that of four such windows, widened by its own width and a fifth of a per cent.
    """
    change = np.linalg.norm(np.diff(values, axis=0).reshape(len(values) - 1, -1), axis=1)
    end = int(np.flatnonzero(change > noise)[-1]) + 1
    spans = [(int(low * end), int(np.ceil(high * end))) for low, high in _WINDOWS]
    log_t = np.log(TIMES)
    fits = [
        _slope(log_t[(span := slice(min(first, last - 4), last))], np.log(change[span]), logarithm)
        for first, last in spans
    ]
    low, high = min(fits), max(fits)
    wide = high - low + 0.002 * high
    return low - wide, high + wide


def _share(run: Run, rest: np.ndarray, set_by: str) -> float:
    """How much of a decade's change, where that is about the square root of the noise, is what sets the rate."""
    change = np.diff(rest, axis=0)
    size = np.linalg.norm(change, axis=1)
    at = int(np.flatnonzero(size > np.sqrt(NOISE))[-1])
    if set_by == "clock":
        return 1.0
    if set_by == "slack":  # the push of slack margins
        push = np.where(is_slack(run.problem, run.limit), np.exp(-run.margins[at]), 0.0)
        return float(TIMES[at] * (push.sum(1) @ np.asarray(run.problem.probs)) / size[at])
    a, y = run.limit.multipliers[run.support], np.asarray(run.problem.labels)[:, None]
    scores = run.problem.inputs @ np.asarray(run.limit.slowest).T @ run.problem.outputs.T
    slow = (np.take_along_axis(scores, y, 1) - scores)[run.support]
    part = (a * slow) @ change[at] / run.limit.eigenvalues[0]
    return float(abs(part) * np.linalg.norm(slow) / size[at])


class J1b(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        """That η t L has the exponent of the margins: not where λ is least."""
        for run in flows(seed):
            rate = separable.rate(run.problem, run.given)
            low, high = _fitted(TIMES * run.loss, 1e-11, rate.set_by == "clock")
            yield at_most(low, rate.exponent)

    @all_of
    def corrected(self, seed: int) -> Iterator[Evidence]:
        widths = []
        for run in flows(seed):
            rate = separable.rate(run.problem, run.given)
            at = {"eigenvalue": run.limit.eigenvalues[0], "slack": run.limit.slack}
            rest = run.margins[:, run.support] - np.log(TIMES)[:, None]
            if _share(run, rest, rate.set_by) < 0.3:
                continue  # from this start it is so small that faster terms hide it down to the noise
            low, high = _fitted(rest, NOISE, rate.set_by == "clock")
            yield at_least(rate.exponent, low, **at)
            yield at_most(rate.exponent, high, **at)
            widths.append((high - low) / 2 / rate.exponent)
        yield at_most(np.median(widths), 0.02)  # else the intervals say nothing
        for run in descents(seed):
            rate = separable.rate(run.problem, run.given, run.learning_rate)
            t = run.learning_rate * STEPS
            excess = t * (t * run.loss / run.limit.multipliers.sum() - 1)
            slope = (excess[-1] - excess[-6]) / np.log(t[-1] / t[-6])
            size = abs(rate.loss_logarithm) + run.learning_rate
            yield at_most(
                abs(slope - rate.loss_logarithm), 0.04 * size, learning_rate=run.learning_rate
            )
            away = run.margins - separable.margin_asymptote(t, run.problem, run.given)
            excess = t[:, None] * away[:, run.support]
            # The next power is t^-1.5 or less, so that a slope has moved further than it still will.
            slope, earlier = (
                (excess[k] - excess[k - 5]) / np.log(t[k] / t[k - 5]) for k in (-1, -6)
            )
            told, moved = rate.logarithms[run.support], np.abs(slope - earlier).max()
            yield at_most(np.abs(slope - told), moved + 0.01 * np.abs(told).max())
        # One token: e^m = xt + (x/2 − 1) log t + C, x = ηc, of C15.
        for x in (0.5, 2.0, 5.0):
            one = separable.rate(_ONE, max_margin_multipliers(_ONE), x / 3)
            yield equal([one.loss_logarithm, -one.logarithms[0, 1]], (1 - x / 2) / 3, x=x)
        # λ = 0.16: the loss has 2λ.
        even = two_margins(0.4, -0.4)
        low, high = _fitted(TIMES * even.loss, 1e-11)
        told = separable.rate(even.problem, even.given).loss_exponent
        yield at_least(told, low)
        yield at_most(told, high)
        # A margin of 1 with the multiplier zero: no power, 1/log t.
        bent = two_margins(0.0, 1.0)
        first = bent.margins[-1, 0, 1] - np.log(TIMES[-1]) - bent.limit.offsets[0, 1]
        yield equal(first * np.log(TIMES[-1]), 1.0, tolerance=0.1)

    def curves(self) -> Curves:
        drawn = sorted(flows(0), key=lambda run: separable.rate(run.problem, run.given).exponent)
        run, told = drawn[0], separable.rate(drawn[0].problem, drawn[0].given)
        away = run.margins - separable.margin_asymptote(TIMES, run.problem, run.given)
        largest = np.abs(away[:, run.support]).max(1)
        loss = np.abs(TIMES * run.loss - run.limit.multipliers.sum())
        seen = loss > 1e-11
        line = largest[len(TIMES) // 2] * (TIMES / TIMES[len(TIMES) // 2]) ** -told.exponent
        return Curves(f"distance from the limit, and t^(−{told.exponent:.3f})", ("time", TIMES), {
            "true, margins": largest, "true, t L": np.where(seen, loss, np.nan), "corrected": line}, log_x=True, log_y=True)  # fmt: skip
