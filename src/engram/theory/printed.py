r"""Statements as the paper prints them, where they are wrong, or right only under a condition it omits.

Kept apart so that nobody takes one for a fact: these functions check nothing, and each names the
claim of `engram audit` that refutes it. The true forms are in the modules next to this one.
"""

import numpy as np
from jaxtyping import Float

from engram._types import Array, ArrayLike, Numbers, Weights
from engram.problem import Problem
from engram.special import log_omega, sigmoid
from engram.theory._hypotheses import read


def scores(problem: Problem, W: ArrayLike) -> Float[Array, "N M"]:
    r"""$\langle e_x, W u_y \rangle$, the transpose of the model's own $\langle u_y, W e_x \rangle$: C04.

    Paper: eq:model-prob.
    """
    _, matrix = read(W=W)
    return problem.inputs @ matrix @ problem.outputs.T


def flow_margin(times: ArrayLike, rate: ArrayLike) -> Numbers:
    r"""From zero, $m + e^m = c_x t$: C10, since the left side is 1 at $t = 0$.

    Paper: Section 4.1.
    """
    xp, t, c = read(times=times, rate=rate)
    return log_omega(c * t)


def flow_correction_bounds(s: ArrayLike) -> tuple[Numbers, Numbers]:
    r"""$\frac12 \frac{\log s}{s} \le h(s) \le 2 \frac{\log s}{s}$ for all $s \ge 0$: C13, false below 1.

    Paper: proof:bin-ortho.
    """
    xp, s = read(s=s)
    return 0.5 * xp.log(s) / s, 2 * xp.log(s) / s


def descent_margin_bound(
    steps: ArrayLike, rate: ArrayLike, learning_rate: ArrayLike, origin: ArrayLike = 0.0
) -> Numbers:
    r"""$m_t \ge \log(\eta c_x (t - t_0))$: C15, false for every reading of $t_0$; C16 with $t_0 = -1/(\eta c_x)$.

    Paper: thm:ortho-bin, proof:bin-ortho.
    """
    xp, t, c, eta, t0 = read(steps=steps, rate=rate, learning_rate=learning_rate, origin=origin)
    return xp.log(eta * c * (t - t0))


def descent_loss_bound(
    steps: ArrayLike, rates: ArrayLike, probs: ArrayLike, learning_rate: ArrayLike
) -> Numbers:
    r"""$L(W_t) \le \frac1{t \eta} \sum_x \frac{p(x)}{c_x}$: C17, the constant must be 1.07943.

    Paper: thm:ortho-bin.
    """
    xp, t, c, p, eta = read(steps=steps, rates=rates, probs=probs, learning_rate=learning_rate)
    return (p / c).sum() / (t * eta)


def invariant(scores: ArrayLike, i: int, j: int) -> Numbers:
    r"""$e^{-w_i} - e^{-w_j}$ for any classes and any orthogonal outputs: C20.

    Paper: Section 4.1.
    """
    xp, w = read(scores=scores)
    return xp.exp(-w[..., i]) - xp.exp(-w[..., j])


def direction_constant(num_classes: int) -> float:
    r"""$\frac{M-1}{\sqrt2 M}$, the limit of $W_t / \log t$ along its direction: C23, it is 1.

    Paper: proof:ortho.
    """
    return (num_classes - 1) / (np.sqrt(2.0) * num_classes)


def early_weights(time: ArrayLike, problem: Problem) -> Weights:
    r"""$W \simeq t \sum_x p(x)\,u_{f^*(x)} \otimes e_x$: C26, the mean of the outputs is missing.

    Paper: Section 4.1.
    """
    xp, t = read(time=time)
    E, U, p = problem.inputs, problem.outputs, problem.probs
    return t * (U[problem.targets] * p[:, None]).T @ E


def half_velocity(
    half_gap: ArrayLike,
    half_sum: ArrayLike,
    correlation: ArrayLike,
    p1: ArrayLike,
    contrast: ArrayLike = 2.0,
) -> tuple[Numbers, Numbers]:
    r"""$\dot\gamma_{1,2} = c\,(1 \pm \alpha) \left(\frac{p_1}{1 + e^{m_1}} \mp \frac{p_2}{1 + e^{m_2}}\right)$: C31, twice too fast.

    Paper: eq:two-input, eq:gamma1-ode, eq:gamma2-ode, eq:gamma1-delta, eq:gamma2-delta.
    """
    xp, g1, g2, alpha, p, c = read(
        half_gap=half_gap, half_sum=half_sum, correlation=correlation, p1=p1, contrast=contrast
    )
    push1, push2 = p * sigmoid(-g2 - g1), (1 - p) * sigmoid(g1 - g2)
    return c * (1 + alpha) * (push1 - push2), c * (1 - alpha) * (push1 + push2)


def half_sum_constants(p1: ArrayLike) -> tuple[Numbers, Numbers]:
    r"""$2 p_2 \le c_t / c_0 \le 8 p_1^3 / p_2^2$: C33, $c_t/c_0$ tends to $\sqrt{p_1 p_2}$.

    Paper: thm:two-flow.
    """
    xp, p = read(p1=p1)
    return 2 * (1 - p), 8 * p**3 / (1 - p) ** 2


def half_gap_upper_bound(
    times: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> Numbers:
    r"""$\gamma_1 \le \bar\gamma + \frac{p_1 - p_2}{\sqrt{p_1 p_2}} \frac{1.05}{c_1 t + 1}$, $c_1 = (1 - \alpha) c p_2$: C35.

    Paper: app:two-tokens-interference.
    """
    xp, t, alpha, p, c = read(times=times, correlation=correlation, p1=p1, contrast=contrast)
    excess = (2 * p - 1) / xp.sqrt(p * (1 - p)) * 1.05 / ((1 - alpha) * c * (1 - p) * t + 1)
    return xp.log(p / (1 - p)) / 2 + excess


def half_gap_turning_bound(half_sum: ArrayLike, p1: ArrayLike) -> Numbers:
    r"""$\sinh(\gamma_1 - \bar\gamma) \le C(\gamma_2) = \frac{p_1 - p_2}{2\sqrt{p_1 p_2}} e^{-\gamma_2}$: C35, false once $\gamma_1$ has turned.

    Paper: app:two-tokens-interference, with eq:cgamma.
    """
    xp, g2, p = read(half_sum=half_sum, p1=p1)
    return (2 * p - 1) / (2 * xp.sqrt(p * (1 - p))) * xp.exp(-g2)


def descent_half_gap_bounds(
    learning_rate: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> tuple[Numbers, Numbers]:
    r"""$[\min(0, \gamma_{\min}), \gamma_{\max}]$, $\gamma_{\min} = \bar\gamma - \eta c (1-\alpha) p_2$, $\gamma_{\max} = \bar\gamma + \frac{p_1}{2 p_2} + \eta c (1-\alpha) p_1$: C39.

    Paper: app:two-tokens-interference.
    """
    xp, eta, alpha, p, c = read(
        learning_rate=learning_rate, correlation=correlation, p1=p1, contrast=contrast
    )
    middle, reach = xp.log(p / (1 - p)) / 2, eta * c * (1 - alpha)
    low = xp.minimum(0.0, middle - reach * (1 - p))
    return low, middle + p / (2 * (1 - p)) + reach * p


def descent_half_sum_bound(
    steps: ArrayLike, learning_rate: ArrayLike, contrast: ArrayLike = 2.0
) -> Numbers:
    r"""$\gamma_2(t) \ge \log(\eta c t + 1)$: C38, its last appearance has lost $(1-\alpha)$ and $p_2$.

    Paper: app:two-tokens-interference, "Indications to prove that $\gamma_1$ converges".
    """
    xp, t, eta, c = read(steps=steps, learning_rate=learning_rate, contrast=contrast)
    return xp.log1p(eta * c * t)


def early_margin_steps(
    margin_1: ArrayLike, learning_rate: ArrayLike, correlation: ArrayLike, p1: ArrayLike
) -> tuple[Numbers, Numbers]:
    r"""$\Delta m_1 = \frac{\eta p_1}{1 + e^{m_1}}$, $\Delta m_2 = -\frac{\eta \alpha p_1}{1 + e^{m_1}}$: C41, a factor $c$ is missing.

    Paper: Section 4.2, before thm:spike.
    """
    xp, m, eta, alpha, p = read(
        margin_1=margin_1, learning_rate=learning_rate, correlation=correlation, p1=p1
    )
    push = eta * p * sigmoid(-m)
    return push, -alpha * push


def spike_bound(learning_rate: ArrayLike, correlation: ArrayLike, p1: ArrayLike) -> Numbers:
    r"""$L(W_1) \ge \eta\,(\alpha p_1 - p_2)\,p_2$ whatever $c$: C42, right for $c \ge 2$ only.

    Paper: eq:spike.
    """
    xp, eta, alpha, p = read(learning_rate=learning_rate, correlation=correlation, p1=p1)
    return eta * (alpha * p - (1 - p)) * (1 - p)
