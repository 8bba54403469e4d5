r"""The first step from zero, exactly: when the loss spikes at once, and how high (thm:spike).

Along the first gradient the loss is a convex function of the learning rate, falling at 0; it exceeds its
starting value beyond one learning rate $\eta_s$, or never.
"""

from typing import Any

import numpy as np

from engram._types import ArrayLike, Numbers, Scalar
from engram.problem import Problem
from engram.special import bisect, logsumexp, softplus
from engram.theory._hypotheses import given, read, require, require_certain, require_pair


def two_token_first_step_loss(
    learning_rate: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> Numbers:
    r"""$p_1 \log(1 + e^{-\frac{\eta c}2 (p_1 - \alpha p_2)}) + p_2 \log(1 + e^{\frac{\eta c}2 (\alpha p_1 - p_2)})$.

    Paper: proof:spike, before its inequality.
    """
    _, eta, alpha, p, c = _read(learning_rate, correlation, p1, contrast)
    return _two_token_loss(eta, alpha, p, c)


def _read(learning_rate: Any, correlation: Any, p1: Any, contrast: Any) -> tuple[Any, ...]:
    xp, eta, alpha, p, c = given(
        learning_rate=learning_rate, correlation=correlation, p1=p1, contrast=contrast
    )
    require_pair(alpha, p, c)
    return xp, eta, alpha, p, c


def _two_token_loss(eta: Any, alpha: Any, p: Any, c: Any) -> Any:
    half = eta * c / 2
    first = p * softplus(-half * (p - alpha * (1 - p)))
    return first + (1 - p) * softplus(half * (alpha * p - (1 - p)))


def spike_bound(
    learning_rate: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> Numbers:
    r"""$L(W_1) \ge \frac c2\,\eta\,(\alpha p_1 - p_2)\,p_2$.

    Paper: eq:spike prints it without $c/2$, which is right for $c \ge 2$ only.
    """
    _, eta, alpha, p, c = _read(learning_rate, correlation, p1, contrast)
    require(alpha * p > 1 - p, "correlation * p1 > p2", alpha * p - (1 - p))
    return c / 2 * eta * (alpha * p - (1 - p)) * (1 - p)


def two_token_spike_threshold(
    correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> Numbers:
    r"""$\eta_s$: the first step raises the loss above $\log 2$ if and only if $\eta > \eta_s$.

    It exists if and only if $\alpha > p_2/p_1$, and is at most $\frac{2 \log 2}{c\,p_2 (\alpha p_1 - p_2)}$.

    Paper: thm:spike, turned into a threshold.
    """
    xp, _, alpha, p, c = _read(0.0, correlation, p1, contrast)
    require(alpha * p > 1 - p, "correlation * p1 > p2", alpha * p - (1 - p), "There is no spike.")
    high = 2 * xp.log(2.0) / (c * (1 - p) * (alpha * p - (1 - p)))
    return bisect(lambda eta: _two_token_rise(xp, eta, alpha, p, c) <= 0, 0 * high, high)


def _two_token_rise(xp: Any, eta: Any, alpha: Any, p: Any, c: Any) -> Any:
    """The loss less log 2: softplus(z) - log 2 is z/2 + log cosh(z/2), and the halves add up to a square."""
    half = eta * c / 2
    z1, z2 = half * (p - alpha * (1 - p)), half * (alpha * p - (1 - p))
    linear = half / 2 * ((2 * p - 1) ** 2 + 2 * p * (1 - p) * (1 - alpha))
    return p * _log_cosh(xp, z1 / 2) + (1 - p) * _log_cosh(xp, z2 / 2) - linear


def _log_cosh(xp: Any, x: Any) -> Any:
    x = abs(x)
    small = xp.log1p(2 * xp.sinh(xp.minimum(x, 1.0) / 2) ** 2)
    return xp.where(x <= 1, small, x + xp.log1p(xp.exp(-2 * x)) - xp.log(2.0))


def first_step_loss(learning_rate: ArrayLike, problem: Problem) -> Numbers:
    r"""The loss after one step from zero, for any problem: the scores are then $\eta\,g$, $g = -\langle u_y, \nabla L(0)\,e_x \rangle$.

    Paper: eq:GD from $W_0 = 0$.
    """
    xp, eta = given(learning_rate=learning_rate)
    gaps, p = _first_gaps(problem)
    return _loss_along(eta, gaps, p)


def _first_gaps(problem: Problem) -> tuple[Any, Any]:
    """Scores of the negative gradient at zero, measured from the target's."""
    require_certain(problem)
    E, U, p, y = problem.inputs, problem.outputs, problem.probs, problem.targets
    g = (E @ E.T) @ _first_pull(problem) @ U.T
    return g - g[np.arange(len(g)), y][:, None], p


def _first_pull(problem: Problem) -> Any:
    """What each token asks of W e_x at W = 0, where every class is recalled alike."""
    U, p, y = problem.outputs, problem.probs, problem.targets
    return (U[y] - U.mean(0)) * p[:, None]


def _loss_along(eta: Any, gaps: Any, p: Any) -> Any:
    return (logsumexp(eta[..., None, None] * gaps)[..., 0] * p).sum(-1)


def spike_threshold(problem: Problem) -> Scalar:
    r"""$\eta_s$ of any problem: one step from zero raises the loss if and only if $\eta > \eta_s$; infinity if none does.

    The loss along the first gradient is convex, with the asymptotic slope $\sum_x p(x) \max_y (g_{xy} - g_{xf^*(x)})$:
    some learning rate spikes if and only if that is positive.

    Paper: thm:spike, for any number of tokens and classes.
    """
    gaps, p = _first_gaps(problem)
    xp, slope = read(slope=(p * gaps.max(1)).sum())
    size = abs(gaps).max()
    # Rounding leaves a slope of that size where the exact one is zero.
    spikes = slope > 1e-14 * xp.where(size > 0, size, 1.0)
    # logsumexp is at least the largest gap, so at eta = log(M) / slope the loss is log M or more.
    high = np.log(problem.num_classes) / xp.where(spikes, slope, 1.0)
    centred = gaps - gaps.mean(1, keepdims=True)
    step = _first_pull(problem).T @ problem.inputs
    steepness = (step * step).sum()  # minus the slope of the loss at zero

    def rise(eta: Any) -> Any:
        """The loss less log M; near zero its first order is taken out by hand, for it cancels."""
        u = eta * centred
        curved = xp.log1p(_beyond_linear(xp, u).mean(1))
        whole = logsumexp(u)[:, 0] - np.log(problem.num_classes)
        return (p * xp.where(abs(u).max(1) < 0.5, curved, whole)).sum() - eta * steepness

    root = bisect(lambda eta: rise(eta) <= 0, 0 * high, high)
    return xp.where(spikes, root, xp.inf)[()]


def _beyond_linear(xp: Any, u: Any) -> Any:
    """e^u - 1 - u, by its series where that cancels."""
    u = xp.clip(u, -0.5, 0.5)
    term, total = u * u / 2, 0.0
    for n in range(3, 18):
        total, term = total + term, term * u / n
    return total + term
