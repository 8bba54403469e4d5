"""The minimiser of the cross-entropy, or the direction in which it lies at infinity."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from engram._types import Weights
from engram.capacity._constraints import Constraints, constraints, linear_program, unit_rows
from engram.capacity._max_margin import max_margin
from engram.problem import Problem


class LossMinimiser(NamedTuple):
    r"""Where the loss is least.

    Args:
        exists: Whether a minimiser exists; if not, the loss falls for ever along `direction`.
        weights: The minimiser of smallest norm; if none exists, the minimiser of what `direction` leaves
            undecided, so that the infimum is approached along `weights + s direction`, s to infinity.
        loss: The minimum, or the infimum.
        direction: A unit W along which no margin falls and some grow; the max-margin direction if all
            can grow. None if a minimiser exists.
        grad_norm: The norm of the gradient at `weights` (of the undecided part): zero at a minimiser.
        decrement: Newton's decrement $\sqrt{g^\top H^{-1} g}$ there; the loss is about half its square above
            the minimum.
        steps: Newton steps taken.
    """

    exists: bool
    weights: Weights
    loss: float
    direction: Weights | None
    grad_norm: float
    decrement: float
    steps: int


_MAX_STEPS = 200


def loss_minimiser(problem: Problem) -> LossMinimiser:
    r"""The minimiser of the cross-entropy, by Newton's method, with what certifies it.

    A minimiser exists unless some W has no negative margin and a positive one. A linear program finds all
    margins that can grow for ever without another's falling; what is left has a minimiser.

    Paper: fig:forgetting, the minimiser whose 0-1 loss enters the excess risk.
    """
    system = constraints(problem)
    growing, path = _recession(system.rows)
    kept = ~growing
    groups = _split(system, kept, np.asarray(problem.probs))
    v, grad, decrement, steps = _newton(groups, system.rows.shape[1])
    exists = bool(kept.all())
    direction = None
    if not exists:
        direction = max_margin(problem) if not kept.any() else system.weights(path)
        direction = direction / np.linalg.norm(direction)
    weights = system.weights(v)
    return LossMinimiser(exists, weights, _loss(groups, v), direction, grad, decrement, steps)


def _recession(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which margins can grow while none falls, and a direction that grows them all.

    The largest sum of s over 0 <= s <= 1, rows v >= s: a margin that can grow has s = 1, v being free to
    scale, and directions that grow different ones add up.
    """
    count, n = rows.shape
    found = linear_program(
        np.append(np.zeros(n), -np.ones(count)),
        A_ub=np.hstack([-unit_rows(rows)[0], np.eye(count)]),
        b_ub=np.zeros(count),
        bounds=[(None, None)] * n + [(0.0, 1.0)] * count,
    )
    return found.x[n:] > 0.5, found.x[:n]


# The frequency of each token and its margins that are kept.
Groups = list[tuple[float, np.ndarray]]


def _split(system: Constraints, kept: np.ndarray, p: np.ndarray) -> Groups:
    tokens = np.unique(system.tokens[kept])
    return [(float(p[x]), system.rows[kept & (system.tokens == x)]) for x in tokens]


def _loss(groups: Groups, v: np.ndarray) -> float:
    return float(sum(p * np.logaddexp(0.0, logsumexp(-R @ v)) for p, R in groups))


def _newton(groups: Groups, n: int) -> tuple[np.ndarray, float, float, int]:
    """Damped Newton on the kept margins; the pseudo-inverse gives the minimiser of smallest norm."""
    v = np.zeros(n)
    grad, decrement, steps = np.zeros(n), 0.0, 0
    while steps < _MAX_STEPS:
        steps += 1
        grad, H = np.zeros(n), np.zeros((n, n))
        for p, R in groups:
            scores = np.append(0.0, -R @ v)
            q = np.exp(scores - logsumexp(scores))[1:]
            pull = q @ R
            grad -= p * pull
            H += p * ((R.T * q) @ R - np.outer(pull, pull))
        move = -np.linalg.pinv(H, rcond=1e-13, hermitian=True) @ grad
        decrement = float(np.sqrt(max(-grad @ move, 0.0)))
        if decrement < 1e-14:
            break
        size, now = 1.0, _loss(groups, v)
        while _loss(groups, v + size * move) > now + 1e-15 * abs(now) and size > 1e-12:
            size /= 2
        v = v + size * move
        if np.abs(size * move).max() <= 1e-15 * max(1.0, np.abs(v).max()):
            break
    return v, float(np.linalg.norm(grad)), decrement, steps
