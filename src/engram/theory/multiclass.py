r"""Orthogonal inputs and many classes, where each token is a family of its own (thm:multi).

`scores` are the $w_i = u_i^\top W e_x$ of one token, its target first; `rate` is $k = p(x)\,\|e_x\|^2$.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from engram._checks import InputError
from engram._types import Array, ArrayLike, Numbers, Scalar, Weights
from engram.problem import Problem
from engram.special import bisect, log_omega, logsumexp, softmax, softplus
from engram.theory._hypotheses import read, require, require_certain, require_orthogonal


def rates(problem: Problem) -> Float[Array, " N"]:
    r"""The speed $k_x = p(x)\,\|e_x\|^2$ of each token.

    Paper: thm:multi, where embeddings are orthonormal.
    """
    require_certain(problem)
    require_orthogonal("inputs", problem.inputs)
    E, p = problem.inputs, problem.probs
    return p * (E * E).sum(1)


def flow_velocity(
    scores: ArrayLike, rate: ArrayLike, output_norms: ArrayLike = 1.0
) -> Float[Array, "*B M"]:
    r"""$\dot w_1 = k \|u_1\|^2 (A - e^{w_1})/A$ and $\dot w_i = -k \|u_i\|^2 e^{w_i}/A$, $A = \sum_j e^{w_j}$.

    Args:
        scores: One token's scores, the target first; leading axes are allowed.
        rate: $k$, a number or an array with the leading axes of `scores`.
        output_norms: $\|u_i\|$ of the orthogonal outputs, one number or M.

    Paper: Section 4.1, after thm:ortho-bin.
    """
    xp, w, k, norms = read(scores=scores, rate=rate, output_norms=output_norms)
    n = xp.broadcast_to(xp.square(norms), w.shape[-1:])
    q = softmax(w, axis=-1)
    wrong = q[..., 1:].sum(-1, keepdims=True)
    pull = xp.concatenate([wrong, -q[..., 1:]], axis=-1)
    return k[..., None] * xp.broadcast_to(n, w.shape) * pull


def invariants(
    scores: ArrayLike, output_norms: ArrayLike = 1.0
) -> tuple[Float[Array, "*B K"], Numbers]:
    r"""What the flow keeps: $\frac{e^{-w_i}}{\|u_i\|^2} - \frac{e^{-w_2}}{\|u_2\|^2}$ for the wrong classes, and $\sum_i w_i/\|u_i\|^2$.

    Together M - 1 of them. Descent keeps only the sum.

    Paper: Section 4.1 prints the first without the norms and for every pair; the target must be left out.
    """
    xp, w, norms = read(scores=scores, output_norms=output_norms)
    n = xp.broadcast_to(xp.broadcast_to(xp.square(norms), w.shape[-1:]), w.shape)
    inverse = xp.exp(-w[..., 1:]) / n[..., 1:]
    return inverse[..., 1:] - inverse[..., :1], (w / n).sum(-1)


def margin_velocity(scores: ArrayLike, rate: ArrayLike) -> Float[Array, "*B K"]:
    r"""$\dot m_i = k\,(c_i + 1)/(c_i + e^{m_i})$ with $c_i = \sum_{j \ne 1} e^{w_j - w_i}$, orthonormal outputs.

    It holds for every wrong class; for the tightest one $c_i$ lies in [1, M - 1].

    Paper: Section 4.1, before thm:multi.
    """
    xp, w, k = read(scores=scores, rate=rate)
    wrong, total = w[..., 1:], logsumexp(w[..., 1:])
    # Both sides of the quotient over e^{w_i}, in units of the largest score.
    top = w.max(-1, keepdims=True)
    mass = xp.exp(total - top)
    return k[..., None] * (mass + xp.exp(wrong - top)) / (mass + xp.exp(w[..., :1] - top))


def flow_margin(
    times: ArrayLike,
    rate: ArrayLike,
    num_classes: int,
    *,
    target_norm: ArrayLike = 1.0,
    other_norm: ArrayLike = 1.0,
) -> Numbers:
    r"""The margin of gradient flow from zero, exactly: $e^m + (M-1)\,m = 1 + M k t$.

    With $\|u_1\|^2 = n_1$ and all other squared norms $n$, replace $M$ on the right by $(M-1)\,n_1 + n$.

    Paper: thm:multi gives the direction only; this closed form is ours.
    """
    xp, t, k, r1, r = read(times=times, rate=rate, target_norm=target_norm, other_norm=other_norm)
    require(t >= 0, "times >= 0", t)
    require(k >= 0, "rate >= 0", k)
    K = float(num_classes - 1)
    require(K >= 1, "num_classes >= 2", num_classes)
    s = 1 + (K * r1**2 + r**2) * k * t
    # m = u + log K turns e^m + K m = s into u + e^u = s/K - log K.
    return xp.log(K) + log_omega(s / K - xp.log(K))


def flow_scores(times: ArrayLike, rate: ArrayLike, num_classes: int) -> Float[Array, "... M"]:
    r"""All scores of gradient flow from zero: $w_1 = \frac{M-1}{M} m$ and $w_j = -\frac{m}{M}$.

    Paper: thm:multi.
    """
    m: Any = flow_margin(times, rate, num_classes)
    return m[..., None] * (np.eye(num_classes)[0] - 1.0 / num_classes)


def flow_scores_from(times: ArrayLike, rate: ArrayLike, start: ArrayLike) -> Float[Array, "T M"]:
    r"""All scores of gradient flow from any start, by one monotone scalar equation.

    With $s = e^{-w_k}$ for the tightest wrong class $k$, $c_j = e^{-w_j(0)} - e^{-w_k(0)}$ and $C = \sum_i w_i(0)$,

    $$k t = e^C \int_{s_0}^s \prod_{j \ne 1} (r + c_j)\,dr + \sum_{j \ne 1} \log\frac{s + c_j}{s_0 + c_j},
    \qquad w_j = -\log(s + c_j), \quad w_1 = C - \sum_{j \ne 1} w_j.$$

    Args:
        times: When, from zero on.
        rate: $k = p(x)\,\|e_x\|^2$.
        start: The M scores at time zero, the target first; orthonormal outputs.

    Paper: the invariants of Section 4.1 carried to the end; not in the paper.
    """
    xp, t, k, w0 = read(times=times, rate=rate, start=start)
    require(t >= 0, "times >= 0", t)
    require(k >= 0, "rate >= 0", k)
    if w0.ndim != 1 or len(w0) < 2 or k.ndim or t.ndim > 1:
        raise InputError(
            "`start` must be the M >= 2 scores of one token, `rate` a number and `times` numbers, got shapes "
            f"{w0.shape}, {k.shape} and {t.shape}. Call it once per token."
        )
    wrong = w0[1:]
    top = wrong.max()
    spread = top - wrong.min()
    require(
        spread <= 700, "wrong scores within 700 of each other", spread, "Beyond, doubles overflow."
    )
    # Everything in units of s_0 = e^-top, so that no exponential of a start overflows.
    c = xp.expm1(top - wrong)  # c_j / s_0
    C = w0.sum() - top * len(w0)
    nodes, weights = np.polynomial.legendre.leggauss(len(c) // 2 + 1)

    def elapsed(rise: Any) -> Any:
        """The k t at which s has grown by the factor e^rise: a polynomial, so Gauss is exact."""
        gain = xp.expm1(rise)
        r = gain[:, None] * (nodes + 1)[None, :] / 2
        exponent = C + xp.log1p(r[..., None] + c[None, None, :]).sum(-1)
        product = xp.exp(xp.minimum(exponent, 700.0))  # beyond, any time is too short to move
        grown = xp.log1p(gain[:, None] / (1 + c)[None, :]).sum(-1)
        return gain / 2 * (product * weights[None, :]).sum(-1) + grown

    goal = xp.atleast_1d(k * t)
    # Either term of the equation alone bounds the rise of s.
    K = len(c)
    room = xp.log(xp.maximum((K + 1) * goal, np.finfo(float).tiny)) - C
    high = xp.minimum(goal, xp.logaddexp(0.0, room) / (K + 1))
    rise = bisect(lambda rise: elapsed(rise) < goal, xp.zeros_like(goal), high)[:, None]
    others = top - xp.log1p(xp.expm1(rise) + c[None, :])
    return xp.concatenate([w0.sum() - others.sum(1, keepdims=True), others], axis=1)


def limit_direction(problem: Problem) -> Weights:
    r"""$\sum_x \Pi(u_{f^*(x)}) \otimes e_x$, with $\Pi$ the projection on the span of the $u_i - u_j$.

    $W_t / \log t$ tends to it with constant exactly 1; it is also the max-margin solution, all its
    margins being 1.

    Paper: thm:multi, eq:lim-bin; the appendix prints the constant $(M-1)/(\sqrt2 M)$.
    """
    E, Pu = _centred(problem)
    return Pu.T @ E


def asymptotic_weights(
    time: ArrayLike, problem: Problem, start: ArrayLike | None = None
) -> Weights:
    r"""$\sum_x \log(M p(x) t)\,\Pi(u_{f^*(x)}) \otimes e_x + \Pi_\perp W_0$: where the flow is up to o(1).

    Initial scores inside the span are forgotten; frequencies enter through a bounded term only. The
    error is of order $t^{-1/M}$ when the wrong classes start unequal.

    Paper: thm:multi, one order further.
    """
    xp, t = read(time=time)
    require(t.ndim == 0, "time is one number", t.size)
    require(t > 0, "time > 0", t)
    E, Pu = _centred(problem)
    p = problem.probs
    require(p > 0, "every token has p(x) > 0", p)
    W = (xp.log(problem.num_classes * p * t)[:, None] * Pu).T @ E
    if start is None:
        return W
    xp, W0 = read(start=start)
    span = problem.outputs - problem.outputs.mean(0)
    # U is orthonormal: U^T U projects on its rows, and the mean is taken off; E likewise.
    return W + W0 - span.T @ (span @ W0 @ E.T) @ E


def _centred(problem: Problem) -> tuple[Any, Any]:
    require_certain(problem)
    require_orthogonal("inputs", problem.inputs, unit=True)
    require_orthogonal("outputs", problem.outputs, unit=True)
    U = problem.outputs
    return problem.inputs, U[problem.targets] - U.mean(0)


def early_weights(time: ArrayLike, problem: Problem) -> Weights:
    r"""To first order in time from zero: $t \sum_x p(x)\,(u_{f^*(x)} - \bar u) \otimes e_x$.

    Paper: Section 4.1 prints it without the mean $\bar u$ of the outputs.
    """
    xp, t = read(time=time)
    require(t.ndim == 0, "time is one number", t.size)
    require(t >= 0, "time >= 0", t)
    require_certain(problem)
    E, U, p = problem.inputs, problem.outputs, problem.probs
    return t * ((U[problem.targets] - U.mean(0)) * p[:, None]).T @ E


def descent_margin_steps(
    scores: ArrayLike, rate: ArrayLike, learning_rate: ArrayLike
) -> Float[Array, "*B K"]:
    r"""One descent step of each margin: $\Delta m_i = \eta k\,(A - e^{w_1} + e^{w_i})/A > 0$, orthonormal outputs.

    Paper: Section 4.1, after thm:multi.
    """
    xp, w, k, eta = read(scores=scores, rate=rate, learning_rate=learning_rate)
    q = softmax(w, axis=-1)[..., 1:]
    return (eta * k)[..., None] * (q.sum(-1, keepdims=True) + q)


def descent_margin_bound(
    steps: ArrayLike, rate: ArrayLike, learning_rate: ArrayLike, num_classes: int
) -> Numbers:
    r"""From zero: $e^{m_t} + (M-1)\,m_t \ge 1 + M \eta k t$, so descent is never behind the flow.

    Paper: proof:ortho, its indications for descent, made exact.
    """
    xp, t, k, eta = read(steps=steps, rate=rate, learning_rate=learning_rate)
    require(eta > 0, "learning_rate > 0", eta)
    require(t >= 0, "steps >= 0", t)
    return flow_margin(eta * t, k, num_classes)


def one_step_threshold(problem: Problem, scores: ArrayLike) -> Scalar:
    r"""One step from these scores gives perfect accuracy if and only if the learning rate exceeds

    $$\eta^* = \max_{x,\, i \ne f^*(x)} \frac{-m_i(x)}{p(x) \|e_x\|^2 (1 - p_W(f^*(x)|x) + p_W(i|x))}.$$

    Orthogonal inputs, orthonormal outputs. Negative if the accuracy is perfect already.

    Paper: Section 4.1 says that any learning rate is enough from any start; true at zero.
    """
    xp, w = read(scores=scores)
    require_orthogonal("outputs", problem.outputs, unit=True)
    k, y = rates(problem), problem.targets
    require(k > 0, "every token has p(x) > 0", k)
    is_target = np.arange(w.shape[1])[None, :] == y[:, None]
    m = w[np.arange(len(w)), y][:, None] - w
    wrong = xp.where(is_target, 0.0, softmax(w))
    speed = k[:, None] * (wrong.sum(1, keepdims=True) + wrong)
    still = speed == 0  # its score is so low that nothing moves it, nor needs to
    return xp.where(is_target | still, -xp.inf, -m / xp.where(is_target | still, 1.0, speed)).max()


def first_step_loss(learning_rate: ArrayLike, problem: Problem) -> Numbers:
    r"""After one step from zero every margin is $\eta k_x$, whatever M: $L = \sum_x p(x) \log(1 + (M-1) e^{-\eta k_x})$.

    Paper: Section 4.1; orthogonal inputs, orthonormal outputs.
    """
    xp, eta = read(learning_rate=learning_rate)
    require_orthogonal("outputs", problem.outputs, unit=True)
    k, p = rates(problem), problem.probs
    room = xp.log(problem.num_classes - 1.0)
    return (p * softplus(room - eta[..., None] * k)).sum(-1)
