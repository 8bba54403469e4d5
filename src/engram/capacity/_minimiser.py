"""The minimiser of the cross-entropy, or the direction in which it lies at infinity."""

from typing import NamedTuple

import numpy as np

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
_TRIAL_STEPS = 30  # before a linear program is asked whether there is a minimiser at all


def loss_minimiser(problem: Problem) -> LossMinimiser:
    r"""The minimiser of the cross-entropy, by Newton's method, with what certifies it.

    A minimiser exists unless some W has no negative margin and a positive one. Where Newton's method does
    not show which, a linear program finds all margins that can grow for ever without another's falling;
    what is left has a minimiser.

    Paper: fig:forgetting, the minimiser whose 0-1 loss enters the excess risk.
    """
    system, p = constraints(problem), np.asarray(problem.probs)
    growing, direction = np.zeros(len(system.rows), bool), None
    left = _keep(system, ~growing, p)
    end = _newton(left, _TRIAL_STEPS)
    if not _is_minimum(left, end):
        if _separates(system.rows, end.v):
            growing = ~growing
        else:
            growing, path = _recession(system.rows)
            direction = system.weights(path) if growing.any() else None
        if growing.all():
            direction = max_margin(problem)
        left = _keep(system, ~growing, p)
        end = _newton(left, _MAX_STEPS)
    if direction is not None:
        direction = direction / np.linalg.norm(direction)
    loss, grad_norm = float(left.probs @ _token_losses(left, end.v)), np.linalg.norm(end.grad)
    weights, exists = system.weights(end.v), direction is None
    return LossMinimiser(
        exists, weights, loss, direction, float(grad_norm), end.decrement, end.steps
    )


def _recession(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which margins can grow while none falls, and a direction that grows them all.

    The largest sum of s over 0 <= s <= 1, rows v >= s: a margin that can grow has s = 1, v being free to
    scale, and directions that grow different ones add up.
    """
    count, n = rows.shape
    solution = linear_program(
        np.append(np.zeros(n), -np.ones(count)),
        A_ub=np.hstack([-unit_rows(rows)[0], np.eye(count)]),
        b_ub=np.zeros(count),
        bounds=[(None, None)] * n + [(0.0, 1.0)] * count,
    )
    return solution.x[n:] > 0.5, solution.x[:n]


class Kept(NamedTuple):
    """The margins that are kept, one token's after another's: where each begins, how many, how frequent."""

    rows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    probs: np.ndarray


def _keep(system: Constraints, kept: np.ndarray, p: np.ndarray) -> Kept:
    tokens, starts, counts = np.unique(system.tokens[kept], return_index=True, return_counts=True)
    return Kept(system.rows[kept], starts, counts, p[tokens])


def _token_losses(kept: Kept, v: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, np.logaddexp.reduceat(-kept.rows @ v, kept.starts))


class Newton(NamedTuple):
    """Where Newton's method stands: v, the gradient, the Hessian and the decrement before the last step."""

    v: np.ndarray
    grad: np.ndarray
    hessian: np.ndarray
    decrement: float
    steps: int


def _newton(kept: Kept, max_steps: int) -> Newton:
    """Damped Newton on the kept margins; the pseudo-inverse gives the minimiser of smallest norm.

    A trial, of fewer steps than the most, also ends where all margins are positive: the rest is known.
    """
    R, p, n = kept.rows, kept.probs, kept.rows.shape[1]
    v, grad, H = np.zeros(n), np.zeros(n), np.zeros((n, n))
    ell, decrement, steps = _token_losses(kept, v), 0.0, 0
    while steps < max_steps:
        steps += 1
        q = np.exp(-R @ v - np.repeat(ell, kept.counts))
        pull = np.add.reduceat(q[:, None] * R, kept.starts)
        grad = -p @ pull
        H = (R.T * (np.repeat(p, kept.counts) * q)) @ R - (pull.T * p) @ pull
        move = -np.linalg.pinv(H, rcond=1e-13, hermitian=True) @ grad
        decrement = float(np.sqrt(max(-grad @ move, 0.0)))
        if decrement < 1e-14:
            break
        size, now = 1.0, p @ ell
        while (
            p @ (ell := _token_losses(kept, v + size * move)) > now + 1e-15 * now and size > 1e-12
        ):
            size /= 2
        v = v + size * move
        if np.abs(size * move).max() <= 1e-15 * max(1.0, np.abs(v).max()):
            break
        if max_steps < _MAX_STEPS and _separates(R, v):
            break
    return Newton(v, grad, H, decrement, steps)


def _separates(rows: np.ndarray, v: np.ndarray) -> bool:
    """Whether all margins of v are positive, well above what a linear program takes for zero."""
    return bool((rows @ v > 1e-6 * np.linalg.norm(rows, axis=1) * np.linalg.norm(v)).all())


def _is_minimum(kept: Kept, newton: Newton) -> bool:
    r"""Whether Newton's method ended beside a minimiser, and not on its way to infinity.

    Along any line $|f^{(3)}| \le L f^{(2)}$, L being the largest gap between two rows of a token, so that the
    slope rises by at least $\lambda / L$, $\lambda$ the least eigenvalue of the Hessian; a minimiser exists
    if the decrement is below $\sqrt\lambda / L$ (Bach 2010, Proposition 2).
    """
    values = np.linalg.eigvalsh(newton.hessian)
    least, most = values.min(initial=np.inf), values.max(initial=0.0)
    gap = 2 * np.linalg.norm(kept.rows, axis=1).max(initial=0.0)
    # An eigenvalue that is rounding beside the largest shows nothing.
    sure = least > 1e-10 * most and 2 * gap * newton.decrement < np.sqrt(least)
    return bool(newton.steps < _TRIAL_STEPS and sure)
