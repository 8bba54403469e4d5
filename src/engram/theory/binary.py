r"""Two classes and orthogonal inputs, where every margin moves alone (thm:ortho-bin).

With $G(m) = m + e^m$ everything here is a statement about $G$: the flow adds $c_x\,dt$ to it, descent adds
at least $\eta c_x$ in each step. What the paper prints differently is in `theory.printed`.
"""

import math
from typing import Any

from jaxtyping import Float

from engram._types import Array, ArrayLike, Numbers, Weights
from engram.problem import Problem
from engram.special import log_omega, sigmoid, softplus
from engram.theory._hypotheses import given, read, require, require_certain, require_orthogonal

# sup of h(s) s / log(s), at s = 23.1526; the audit encloses it in balls (C12).
CORRECTION_CONSTANT = 1.0237150809438473
# C*, the sup of (m + e^m - 1) log(1 + e^-m), at m = 2.52614; enclosed in balls (C17).
LOSS_CONSTANT = 1.0794346855614374
# m_t >= log(x t) at every step exactly when x = learning_rate * rate is at least this (C15).
LOG_THRESHOLD = 2.0
# m_t >= log(1 + x t) at every step exactly from here on: the root of e^(x/2) = 1 + x (C15).
LOG1P_THRESHOLD = 2.5128624172523393


def rates(problem: Problem) -> Float[Array, " N"]:
    r"""The speed $c_x = p(x)\,\|e_x\|^2\,\|u_1 - u_2\|^2$ of each token.

    Paper: thm:ortho-bin.
    """
    require_certain(problem, classes=2)
    require_orthogonal("inputs", problem.inputs)
    E, U, p = problem.inputs, problem.outputs, problem.probs
    u = U[0] - U[1]
    return p * (E * E).sum(1) * (u @ u)


def flow_margin(times: ArrayLike, rate: ArrayLike, start: ArrayLike = 0.0) -> Numbers:
    r"""The margin of one token under gradient flow, exactly.

    $$m(t) + e^{m(t)} = c\,t + m_0 + e^{m_0}.$$

    Args:
        times: When, from zero on.
        rate: The speed $c_x$, see `rates`.
        start: The margin $m_0$ at time zero.

    Paper: thm:ortho-bin, before the expansion in eq:dyn-bin; at $m_0 = 0$ Section 4.1 omits $e^{m_0}$.
    """
    xp, t, c, m0 = given(times=times, rate=rate, start=start)
    return _ahead(xp, m0, c * t)


def _ahead(xp: Any, m0: Any, s: Any) -> Any:
    """The m with G(m) = G(m0) + s."""
    far = m0 > 700.0  # there e^m0 overflows, and is all of G
    near = log_omega(s + m0 + xp.exp(xp.minimum(m0, 700.0)))
    return xp.where(far, m0 + xp.log1p(s * xp.exp(-xp.maximum(m0, 0.0))), near)[()]


def flow_origin(rate: ArrayLike, start: ArrayLike = 0.0) -> Numbers:
    r"""The time $t_0 = -(e^{m_0} + m_0)/c_x$ from which the flow would have come.

    Paper: thm:ortho-bin.
    """
    xp, c, m0 = given(rate=rate, start=start)
    require(c > 0, "rate > 0", c)
    require(m0 <= 700, "start <= 700", m0, "Beyond, e^start is not a double.")
    return -(xp.exp(m0) + m0) / c


def flow_correction(s: ArrayLike) -> Numbers:
    r"""The function $h$ of $m_t = \log s - h(s)$, $s = c_x (t - t_0)$.

    With $s = m + e^m$ it is $\log(1 + m e^{-m})$, which loses no digits as s grows.

    Paper: eq:dyn-bin.
    """
    xp, x = given(s=s)
    require(x > 0, "s > 0 (t after t_0)", x)
    m = log_omega(x)
    large = x > 0.5  # below, 1 + m e^-m cancels, and the logarithm of s does not
    return xp.where(large, xp.log1p(xp.where(large, m * xp.exp(-m), 0.0)), xp.log(x) - m)[()]


def flow_correction_bounds(s: ArrayLike) -> tuple[Numbers, Numbers]:
    r"""$\tfrac12 \log(s)/s \le h(s) \le 1.02372 \log(s)/s$ for $s \ge 1$; both constants are sharp.

    Paper: thm:ortho-bin prints the constants 0 and 2; $s \ge 1$ means a margin that is not negative.
    """
    xp, x = given(s=s)
    require(x >= 1, "s >= 1 (a margin of at least 0)", x)
    return 0.5 * xp.log(x) / x, CORRECTION_CONSTANT * xp.log(x) / x


def descent_step(margin: ArrayLike, rate: ArrayLike, learning_rate: ArrayLike) -> Numbers:
    r"""One step of descent: $m + \eta c_x / (1 + e^m)$.

    Paper: eq:binary-update.
    """
    xp, m, c, eta = given(margin=margin, rate=rate, learning_rate=learning_rate)
    return m + eta * c * sigmoid(-m)


def descent_margin_bound(
    steps: ArrayLike, rate: ArrayLike, learning_rate: ArrayLike, start: ArrayLike = 0.0
) -> Numbers:
    r"""Descent is never behind the flow: $G(m_t) \ge G(m_0) + \eta c_x t$, for any start and step size.

    $G$ is convex and $G'(m_t)\,\Delta m = \eta c_x$, so each step adds at least $\eta c_x$ to it.

    Paper: thm:ortho-bin prints $\log(\eta c_x (t - t_0))$, which is false; this is what is true.
    """
    xp, t, c, eta, m0 = given(steps=steps, rate=rate, learning_rate=learning_rate, start=start)
    require(eta > 0, "learning_rate > 0", eta)
    return _ahead(xp, m0, eta * c * t)


def descent_margin_upper_bound(
    steps: ArrayLike, rate: ArrayLike, learning_rate: ArrayLike
) -> Numbers:
    r"""From zero and for $t \ge 1$: $G(m_t) \le \frac x2 + e^{x/2} + \frac{e^\delta - 1}{\delta} x (t - 1)$.

    Here $x = \eta c_x$ and $\delta = x / (1 + e^{x/2})$, the second increment of the margin; later ones are smaller.

    Paper: thm:ortho-bin; not in the paper.
    """
    xp, t, c, eta = given(steps=steps, rate=rate, learning_rate=learning_rate)
    require(t >= 1, "steps >= 1", t)
    x = eta * c
    delta = x * sigmoid(-x / 2)
    growth = xp.expm1(delta) / xp.where(delta > 0, delta, 1.0)
    s = x / 2 + xp.exp(xp.minimum(x / 2, 690.0)) + growth * x * (t - 1)
    # Where e^(x/2) overflows, the first increment is all: later ones are at most delta each.
    return xp.where(x / 2 > 690.0, x / 2 + delta * (t - 1), log_omega(s))


def log_bound(steps: ArrayLike, rate: ArrayLike, learning_rate: ArrayLike) -> Numbers:
    r"""$m_t \ge \log(\eta c_x t)$ from zero, at every step if and only if $\eta c_x \ge 2$.

    Paper: thm:ortho-bin, read with $t_0 = 0$, where it is true.
    """
    xp, t, c, eta = given(steps=steps, rate=rate, learning_rate=learning_rate)
    why = "Below, it fails at some step; `descent_margin_bound` always holds."
    require(eta * c >= LOG_THRESHOLD, "learning_rate * rate >= 2", eta * c, why)
    require(t > 0, "steps > 0", t)
    return xp.log(eta * c * t)


def log_bound_failure(rate: ArrayLike, learning_rate: ArrayLike) -> Numbers:
    r"""A step by which $m_t \ge \log(\eta c_x t)$ has surely failed, from zero and for $x = \eta c_x < 2$: $2\,(e^{1/(1 - x/2)} - 1)/x + 1$.

    Infinity where that number is beyond a double.

    With $y = e^m$ a step adds at most $x - (1 - \frac x2) \frac{x}{1 + y}$ to $y$, and $y \le xt + 1$, so the deficit
    grows at least like $(1 - \frac x2) \log\frac{2 + xt}{2}$, beyond the head start of 1.

    Paper: thm:ortho-bin, the bound it prints with $t_0 = 0$.
    """
    xp, c, eta = given(rate=rate, learning_rate=learning_rate)
    x = eta * c
    require(
        (x > 0) & (x < LOG_THRESHOLD), "0 < learning_rate * rate < 2", x, "Above, it never fails."
    )
    exponent = 1 / (1 - x / 2)
    late = xp.where(exponent > 700, xp.inf, xp.expm1(xp.minimum(exponent, 700.0)))
    return (2 * late / x + 1)[()]


def expansion_constant(rate: float, learning_rate: float, *, steps: int = 200_000) -> float:
    r"""The $C(x)$ of $e^{m_t} = x t + (\frac x2 - 1) \log t + C(x) + o(1)$, $x = \eta c_x$, from zero.

    Found by iterating; the remainder is of order $\log(xt)/(xt)$ once $xt$ exceeds $e^{x/2}$ by far, and
    steps that do not reach there are refused. Where $x < 2$, $e^{m_t}$ falls below $xt$ near $t = e^{C(x)/(1 - x/2)}$, which may be astronomically late.

    Paper: thm:ortho-bin; the expansion is ours.
    """
    _, c, eta = given(rate=rate, learning_rate=learning_rate)
    x = float(eta * c)
    require(x > 0, "learning_rate * rate > 0", x)
    require(steps >= 1, "steps >= 1", steps)
    reached = math.log(x * steps) - x / 2
    require(reached > math.log(1000), "x * steps >= 1000 e^(x/2)", x, "Take more steps.")
    m = 0.0
    for _ in range(steps):
        m += x / (1 + math.exp(m))
    return math.exp(m) - x * steps - (x / 2 - 1) * math.log(steps)


def log1p_bound(steps: ArrayLike, rate: ArrayLike, learning_rate: ArrayLike) -> Numbers:
    r"""$m_t \ge \log(1 + \eta c_x t)$ from zero, at every step if and only if $\eta c_x \ge 2.51286$.

    Paper: proof:bin-ortho, the telescoped sum, where it is true.
    """
    xp, t, c, eta = given(steps=steps, rate=rate, learning_rate=learning_rate)
    why = "Below, it fails at some step; `weak_log_bound` always holds."
    require(eta * c >= LOG1P_THRESHOLD, "learning_rate * rate >= 2.51286", eta * c, why)
    return xp.log1p(eta * c * t)


def weak_log_bound(steps: ArrayLike, rate: ArrayLike, learning_rate: ArrayLike) -> Numbers:
    r"""$m_t \ge \log(1 + \eta c_x t / 2)$ from zero, for every learning rate.

    Paper: proof:bin-ortho, with the factor 1/2 that its telescoping loses.
    """
    xp, t, c, eta = given(steps=steps, rate=rate, learning_rate=learning_rate)
    require(eta > 0, "learning_rate > 0", eta)
    return xp.log1p(eta * c * t / 2)


def flow_loss(times: ArrayLike, problem: Problem) -> Numbers:
    r"""The loss of gradient flow from zero: $\sum_x p(x) \log(1 + e^{-m_t(x)})$, exactly.

    At time $\eta t$ it bounds the loss of $t$ descent steps from above.

    Paper: thm:ortho-bin.
    """
    xp, t = given(times=times)
    m = flow_margin(t[..., None], rates(problem))
    return (problem.probs * softplus(-m)).sum(-1)


def descent_loss_bound(steps: ArrayLike, problem: Problem, learning_rate: ArrayLike) -> Numbers:
    r"""$L(W_t) \le \frac{C^*}{\eta t} \sum_x \frac{p(x)}{c_x}$ from zero, with the sharp $C^* = 1.07943$.

    Paper: thm:ortho-bin prints the constant 1, which is false.
    """
    xp, t, eta = given(steps=steps, learning_rate=learning_rate)
    require(t > 0, "steps > 0", t)
    require(eta > 0, "learning_rate > 0", eta)
    c, p = rates(problem), problem.probs
    require(c > 0, "every token has p(x) > 0 and e_x, u_1 - u_2 are not zero", c)
    return LOSS_CONSTANT / (eta * t) * (p / c).sum()


def weights_from_margins(problem: Problem, margins: ArrayLike, start: ArrayLike) -> Weights:
    r"""The weights that margins stand for: $\sum_x m(x) \frac{u_1 - u_2}{\|u_1 - u_2\|^2} \otimes \frac{e_x}{\|e_x\|^2} + \Pi_\perp W_0$.

    `margins` are signed, $m(x) = (u_1 - u_2)^\top W e_x$, whichever class is the target.

    Paper: thm:ortho-bin; right for flow, descent and SGD, and for a stochastic flow only if its noise
    stays in the span of the gradients.
    """
    xp, m, W0 = read(margins=margins, start=start)
    require_certain(problem, classes=2)
    require_orthogonal("inputs", problem.inputs)
    _require_distinct(problem)
    E, u = problem.inputs, problem.outputs[0] - problem.outputs[1]
    unit = E / (E * E).sum(1)[:, None]
    seen = u @ W0 @ E.T
    return W0 + xp.outer(u / (u @ u), (m - seen) @ unit)


def _require_distinct(problem: Problem) -> None:
    lengths = (problem.inputs**2).sum(1)
    require(lengths > 0, "no input is zero", lengths)
    gap = ((problem.outputs[0] - problem.outputs[1]) ** 2).sum()
    require(gap > 0, "the two outputs differ", gap)
