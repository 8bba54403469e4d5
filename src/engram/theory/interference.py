r"""Two tokens of correlation $\alpha$ that interfere (thm:two-flow).

`half_gap` is $\gamma_1 = (m_1 - m_2)/2$, `half_sum` is $\gamma_2 = (m_1 + m_2)/2$. The token numbered first is the
likelier one, $p_1 \ge p_2$; `contrast` is $c = \|u_1 - u_2\|^2$, 2 for orthonormal outputs. Bounds are for a start
at $W = 0$. In formulas $c_0 = (1-\alpha)c$, $q = \sqrt{p_1 p_2}$, $\bar\gamma = \frac12 \log(p_1/p_2)$,
$\kappa = \frac{1+\alpha}{1-\alpha}$ and $G(m) = m + e^m$.
"""

from typing import Any

import numpy as np

from engram._checks import InputError, is_traced
from engram._types import ArrayLike, Numbers, Weights
from engram.problem import Problem
from engram.special import bisect, log_omega, sigmoid
from engram.theory._hypotheses import HypothesisError, given, read, require, require_pair


def _read(correlation: Any, p1: Any, contrast: Any, **others: Any) -> tuple[Any, ...]:
    xp, alpha, p, c, *rest = given(correlation=correlation, p1=p1, contrast=contrast, **others)
    require_pair(alpha, p, c)
    return xp, alpha, p, c, *rest


def margins(half_gap: ArrayLike, half_sum: ArrayLike) -> tuple[Numbers, Numbers]:
    r"""$m_1 = \gamma_2 + \gamma_1$ and $m_2 = \gamma_2 - \gamma_1$."""
    _, g1, g2 = read(half_gap=half_gap, half_sum=half_sum)
    return g2 + g1, g2 - g1


def halves(margin_1: ArrayLike, margin_2: ArrayLike) -> tuple[Numbers, Numbers]:
    r"""$\gamma_1 = (m_1 - m_2)/2$ and $\gamma_2 = (m_1 + m_2)/2$."""
    _, m1, m2 = read(margin_1=margin_1, margin_2=margin_2)
    return (m1 - m2) / 2, (m1 + m2) / 2


def flow_velocity(
    half_gap: ArrayLike,
    half_sum: ArrayLike,
    correlation: ArrayLike,
    p1: ArrayLike,
    contrast: ArrayLike = 2.0,
) -> tuple[Numbers, Numbers]:
    r"""$\dot\gamma_{1,2} = \frac c2 (1 \pm \alpha) \left(\frac{p_1}{1 + e^{m_1}} \mp \frac{p_2}{1 + e^{m_2}}\right)$.

    A step of descent adds $\eta$ times this.

    Paper: eq:two-input, eq:gamma1-ode and eq:gamma1-delta print it without the factor 1/2 that the appendix derives.
    """
    xp, alpha, p, c, g1, g2 = _read(correlation, p1, contrast, half_gap=half_gap, half_sum=half_sum)
    m1, m2 = margins(g1, g2)
    push1, push2 = p * sigmoid(-m1), (1 - p) * sigmoid(-m2)
    return c / 2 * (1 + alpha) * (push1 - push2), c / 2 * (1 - alpha) * (push1 + push2)


def descent_step(
    margin_1: ArrayLike, margin_2: ArrayLike, learning_rate: ArrayLike,
    correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0,
) -> tuple[Numbers, Numbers]:  # fmt: skip
    r"""The margins after one step, $m_i + c\,\eta\left(\frac{p_i}{1+e^{m_i}} - \frac{\alpha p_j}{1+e^{m_j}}\right)$.

    Paper: eq:two-descent.
    """
    xp, alpha, p, c, m1, m2, eta = _read(
        correlation, p1, contrast, margin_1=margin_1, margin_2=margin_2, learning_rate=learning_rate
    )
    push1, push2 = p * sigmoid(-m1), (1 - p) * sigmoid(-m2)
    return m1 + c * eta * (push1 - alpha * push2), m2 + c * eta * (push2 - alpha * push1)


def phase_slope(
    half_gap: ArrayLike, half_sum: ArrayLike, correlation: ArrayLike, p1: ArrayLike
) -> Numbers:
    r"""$\frac{d\gamma_1}{d\gamma_2} = \kappa \frac{p_1 - p_2 + 2 q e^{\gamma_2} \sinh(\bar\gamma - \gamma_1)}{1 + 2 q e^{\gamma_2} \cosh(\bar\gamma - \gamma_1)}$: the flow without time.

    Paper: eq:two-input, one equation divided by the other.
    """
    xp, alpha, p, _, g1, g2 = _read(correlation, p1, 2.0, half_gap=half_gap, half_sum=half_sum)
    require(alpha < 1, "correlation < 1", alpha)
    q = xp.sqrt(p * (1 - p))
    away = _middle(xp, p) - g1
    # Divided by e^gamma_2 cosh, so that nothing overflows.
    flat = 2 * xp.exp(-abs(away)) / (1 + xp.exp(-2 * abs(away)))
    small = xp.exp(-g2) * flat
    kappa = (1 + alpha) / (1 - alpha)
    return kappa * ((2 * p - 1) * small + 2 * q * xp.tanh(away)) / (small + 2 * q)


def _middle(xp: Any, p1: Any) -> Any:
    return xp.log(p1 / (1 - p1)) / 2


def turning_half_gap(half_sum: ArrayLike, p1: ArrayLike) -> Numbers:
    r"""The half-gap at which $\dot\gamma_1 = 0$: $\bar\gamma + \sinh^{-1}\!\left(\frac{p_1 - p_2}{2q} e^{-\gamma_2}\right)$.

    It falls from $\log(p_1/p_2)$ at $\gamma_2 = 0$ to $\bar\gamma$.

    Paper: eq:cgamma.
    """
    xp, _, p, _, g2 = _read(0.0, p1, 2.0, half_sum=half_sum)
    return _middle(xp, p) + xp.arcsinh((2 * p - 1) / (2 * xp.sqrt(p * (1 - p))) * xp.exp(-g2))


# --- gradient flow ---


def half_sum_bounds(
    times: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> tuple[Numbers, Numbers]:
    r"""$G^{-1}(1 + 2 p_1 p_2 c_0 t) \le \gamma_2(t) \le G^{-1}(1 + \tfrac12 c_0 t)$.

    Both constants are sharp over all correlations: the upper one at $t \to 0$, the lower one as $\alpha \to 1$.

    Paper: thm:two-flow prints constants between $2 p_2$ and $8 p_1^3/p_2^2$; the lower one is false.
    """
    xp, alpha, p, c, t = _read(correlation, p1, contrast, times=times)
    c0 = (1 - alpha) * c
    return log_omega(1 + 2 * p * (1 - p) * c0 * t), log_omega(1 + c0 * t / 2)


def half_sum_asymptote(
    times: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> Numbers:
    r"""$\gamma_2(t) - \log(c\,(1-\alpha)\,q\,t) \to 0$ for $|\alpha| < 1$.

    Paper: thm:two-flow, with its constant $c_t$ made exact in the limit.
    """
    xp, alpha, p, c, t = _read(correlation, p1, contrast, times=times)
    require(abs(alpha) < 1, "-1 < correlation < 1", alpha)
    require(t > 0, "times > 0", t)
    return xp.log(c * (1 - alpha) * xp.sqrt(p * (1 - p)) * t)


def half_gap_bounds(p1: ArrayLike) -> tuple[Numbers, Numbers]:
    r"""$0 \le \gamma_1(t) \le \log(p_1/p_2)$ at all times.

    Paper: app:two-tokens-interference has $e^{\gamma_1} \le 4 (p_1/p_2)^2$.
    """
    xp, _, p, _ = _read(0.0, p1, 2.0)
    return xp.zeros_like(p), 2 * _middle(xp, p)


def half_gap_limit(correlation: ArrayLike, p1: ArrayLike) -> Numbers:
    r"""$\gamma_1 \to \frac12 \log(p_1/p_2)$ for $|\alpha| < 1$; $\log(p_1/p_2)$ at $\alpha = 1$; 0 at $\alpha = -1$.

    Paper: thm:two-flow, which allows $\alpha = \pm 1$ and is wrong there.
    """
    xp, alpha, p, _ = _read(correlation, p1, 2.0)
    return xp.where(alpha == 1, 2.0, xp.where(alpha == -1, 0.0, 1.0)) * _middle(xp, p)


def half_gap_deviation_bound(half_sum: ArrayLike, correlation: ArrayLike, p1: ArrayLike) -> Numbers:
    r"""$|\sinh(\gamma_1 - \bar\gamma)| \le \sinh(\bar\gamma)\,\Phi_\kappa(\ell)$, $\ell = \log\frac{1 + 2q e^{\gamma_2}}{1 + 2q}$.

    $\Phi_\kappa(\ell) = \frac{\kappa e^{-\ell} - e^{-\kappa \ell}}{\kappa - 1}$, and $(1 + \ell) e^{-\ell}$ at $\kappa = 1$. `half_sum` is $\gamma_2$ of the flow
    at the same time.

    Paper: app:two-tokens-interference prints $\sinh(\gamma_1 - \bar\gamma) \le C(\gamma_2)$, which is false.
    """
    xp, alpha, p, _, g2 = _read(correlation, p1, 2.0, half_sum=half_sum)
    require(alpha < 1, "correlation < 1", alpha)
    require(g2 >= 0, "half_sum >= 0, as from W = 0", g2)
    q = xp.sqrt(p * (1 - p))
    l = xp.logaddexp(0.0, xp.log(2 * q) + g2) - xp.log1p(2 * q)
    return xp.sinh(_middle(xp, p)) * _phi(xp, (1 + alpha) / (1 - alpha), l)


def _phi(xp: Any, kappa: Any, l: Any) -> Any:
    # e^-l plus the difference quotient of e^(-s l) between s = 1 and kappa: no cancellation at 1.
    d, slower = abs(kappa - 1), xp.minimum(kappa, 1.0)
    quotient = xp.where(d == 0, l, -xp.expm1(-d * l) / xp.where(d == 0, 1.0, d))
    return xp.exp(-l) + xp.exp(-slower * l) * quotient


def half_gap_deviation_asymptote(
    times: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> Numbers:
    r"""$\gamma_1 - \bar\gamma \sim \frac{1+\alpha}{2\alpha} \frac Dt$ for $\alpha > 0$ and $\sim D \frac{\log t}{t}$ at $\alpha = 0$, $D = \frac{p_1 - p_2}{2 c (1-\alpha) p_1 p_2}$.

    For $\alpha < 0$ the rate is $t^{-\kappa}$, slower than $1/t$, see `half_gap_exponent`.

    Paper: thm:two-flow prints $O(1/t)$ for every correlation.
    """
    xp, alpha, p, c, t = _read(correlation, p1, contrast, times=times)
    require(t > 0, "times > 0", t)
    require(alpha >= 0, "correlation >= 0", alpha, "Below zero only the exponent is known.")
    require(alpha < 1, "correlation < 1", alpha)
    D = (2 * p - 1) / (2 * c * (1 - alpha) * p * (1 - p))
    factor = (1 + alpha) / xp.where(alpha == 0, 1.0, 2 * alpha)
    return D / t * xp.where(alpha == 0, xp.log(t), factor)


def half_gap_exponent(correlation: ArrayLike) -> Numbers:
    r"""The $\rho$ of $|\gamma_1 - \bar\gamma| \approx t^{-\rho}$: 1 for $\alpha \ge 0$ (with a $\log t$ at 0), $\kappa = \frac{1+\alpha}{1-\alpha}$ below.

    Below zero it is generic: for each $p_1$ there is one $\alpha$ at which the leading term changes sign and
    vanishes (-0.2306 as $p_1 \to \frac12$, about -0.224 at 0.75, -0.209 at 0.9).

    Paper: thm:two-flow prints 1 throughout.
    """
    xp, alpha = given(correlation=correlation)
    require(abs(alpha) < 1, "-1 < correlation < 1", alpha)
    return xp.minimum((1 + alpha) / (1 - alpha), 1.0)


def slow_share(kappa: ArrayLike) -> Numbers:
    r"""$I(\kappa) = \kappa \int_1^\infty \frac{z^{\kappa-1}}{2z - 1}\,dz = \sum_{n \ge 1} \frac{\kappa\,2^{-n}}{n - \kappa}$, below 1 for $\kappa < 0.6252$.

    Paper: not in the paper; see `half_gap_deviation_lower_bound`.
    """
    xp, k = given(kappa=kappa)
    require((k >= 0) & (k < 1), "0 <= kappa < 1", k)
    n = xp.arange(1.0, 61.0)
    return (k[..., None] * 2.0**-n / (n - k[..., None])).sum(-1)


def half_gap_deviation_lower_bound(
    times: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> Numbers:
    r"""$\bar\gamma - \gamma_1(t) \ge \sinh^{-1}\!\left(\sinh(\bar\gamma)\,(1 - I(\kappa))\,(1 + \tfrac14 c_0 t)^{-\kappa}\right)$ where $I(\kappa) < 1$, that is $\alpha < -0.2306$.

    Proof: $S = \sinh(\bar\gamma - \gamma_1)$ obeys $\frac{dS}{d\tau} = -\kappa(S + S_0 e^{-\gamma_2})$ in the time $d\tau = f\,d\gamma_2$,
    and $f \le \frac{e^{\gamma_2}}{1 + e^{\gamma_2}}$ because $\cosh(\bar\gamma - \gamma_1) \le \cosh\bar\gamma = \frac1{2q}$; so $e^{\gamma_2} \ge 2 e^\tau - 1$,
    and variation of constants gives $S \ge S_0 (1 - I(\kappa)) e^{-\kappa\tau}$.

    Paper: thm:two-flow prints $O(1/t)$, which this refutes.
    """
    xp, alpha, p, c, t = _read(correlation, p1, contrast, times=times)
    require(alpha < 1, "correlation < 1", alpha)
    kappa = (1 + alpha) / (1 - alpha)
    require(kappa < 1, "correlation < 0", alpha)
    room = 1 - slow_share(kappa)
    require(room > 0, "correlation < -0.2306", alpha, "Above it the deviation may change sign.")
    decay = xp.exp(-kappa * xp.log1p((1 - alpha) * c * t / 4))
    return xp.arcsinh(xp.sinh(_middle(xp, p)) * room * decay)


def flow_solution(
    times: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> tuple[Numbers, Numbers]:
    r"""$(\gamma_1, \gamma_2)$ of the flow in closed form, in the four cases that have one.

    $\alpha = 0$: $G(m_i) = 1 + c p_i t$. $p_1 = p_2$: $\gamma_1 = 0$, $G(\gamma_2) = 1 + \frac12 c_0 t$. $\alpha = -1$: $\gamma_1 = 0$,
    $G(\gamma_2) = 1 + c t$. $\alpha = 1$: $\gamma_2 = 0$, $p_1 p_2 c t = p_2 \gamma_1 - \log\frac{p_1 - p_2 e^{\gamma_1}}{p_1 - p_2}$.

    Paper: eq:two-input; the cases are ours.
    """
    xp, alpha, p, c, t = _read(correlation, p1, contrast, times=times)
    if alpha.ndim or p.ndim or is_traced(alpha, p):
        raise InputError("`correlation` and `p1` must be numbers here, for they choose the case.")
    zero = xp.zeros_like(t)
    if alpha == 0:
        solve = lambda p: log_omega(1 + c * p * t)
        return halves(solve(p), solve(1 - p))
    if p == 0.5 or alpha == -1:
        return zero, log_omega(1 + (1 - alpha) * c * t / 2)
    if alpha == 1:
        return _parallel_half_gap(xp, c * t, p), zero
    raise HypothesisError(
        "The hypothesis correlation in {-1, 0, 1} or p1 = 1/2 fails: got "
        f"{float(alpha):.6g} and {float(p):.6g}. Simulate a `GradientFlow` instead."
    )


def _parallel_half_gap(xp: Any, ct: Any, p1: Any) -> Any:
    p2 = 1 - p1
    goal = p1 * p2 * ct
    # In z = -log((p1 - p2 e^g) / (p1 - p2)) the equation is p2 g + z = goal: z lies between 0 and that.
    gap = lambda z: xp.log1p(-xp.expm1(-z) * (p1 - p2) / p2)
    z = bisect(lambda z: p2 * gap(z) + z < goal, xp.zeros_like(ct), goal, halvings=1100)
    return gap(z)


# --- gradient descent ---


def descent_half_sum_bound(
    steps: ArrayLike,
    learning_rate: ArrayLike,
    correlation: ArrayLike,
    p1: ArrayLike,
    contrast: ArrayLike = 2.0,
) -> Numbers:
    r"""$\gamma_2(t) \ge G^{-1}(1 + \eta p_2 c_0 t)$ at every step, for every learning rate.

    Paper: thm:two-flow, with its $O(\log t/t)$ made explicit.
    """
    xp, alpha, p, c, t, eta = _read(
        correlation, p1, contrast, steps=steps, learning_rate=learning_rate
    )
    require(eta > 0, "learning_rate > 0", eta)
    return log_omega(1 + eta * (1 - p) * (1 - alpha) * c * t)


def descent_half_gap_bounds(
    learning_rate: ArrayLike, correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0
) -> tuple[Numbers, Numbers]:
    r"""$\min(0, \bar\gamma - \tfrac{\eta c (1+\alpha)}2 p_2) \le \gamma_1(t) \le \log\tfrac{p_1}{p_2} + \tfrac{\eta c (1+\alpha)}2 p_1$ at every step.

    Paper: thm:two-flow and app:two-tokens-interference print $1 - \alpha$ for $1 + \alpha$ and no 1/2.
    """
    xp, alpha, p, c, eta = _read(correlation, p1, contrast, learning_rate=learning_rate)
    require(eta > 0, "learning_rate > 0", eta)
    reach = eta * c * (1 + alpha) / 2
    return xp.minimum(0.0, _middle(xp, p) - reach * (1 - p)), 2 * _middle(xp, p) + reach * p


def is_learned_in_one_step(correlation: ArrayLike, p1: ArrayLike) -> Numbers:
    r"""From zero, one step gives perfect accuracy for any $\eta > 0$ if and only if $\alpha < p_2/p_1$.

    Paper: Section 4.2 says so for $\alpha \le 0$.
    """
    xp, alpha, p, _ = _read(correlation, p1, 2.0)
    return alpha * p < 1 - p


def perceptron_steps(correlation: ArrayLike, p1: ArrayLike, *, max_steps: int = 100_000) -> Numbers:
    r"""Steps to perfect accuracy as $\eta \to \infty$, where $\mu = m/(\eta c)$ follows a batch perceptron.

    $\mu_i \leftarrow \mu_i + p_i H(\mu_i) - \alpha p_j H(\mu_j)$ with $H = 1, \frac12, 0$ for $\mu < 0, = 0, > 0$. NaN if it is not reached
    within `max_steps`. A margin that returns to exactly 0 is left to rounding.

    Paper: Section 4.2, large learning rates; the limit is ours.
    """
    xp, alpha, p, _ = _read(correlation, p1, 2.0)
    require(alpha < 1, "correlation < 1", alpha, "Parallel tokens are never both right.")
    p, alpha = xp.broadcast_arrays(p, alpha)
    law, mu, steps = xp.stack([p, 1 - p]), xp.zeros((2, *p.shape)), 0
    done = xp.full(p.shape, xp.nan)
    while np.isnan(done).any() and steps < max_steps:
        push = law * xp.where(mu < 0, 1.0, xp.where(mu == 0, 0.5, 0.0))
        mu, steps = mu + push - alpha * push[::-1], steps + 1
        # Ties go to the first class: token 1 is right at a margin of 0, token 2 is not.
        right = (mu[0] >= 0) & (mu[1] > 0)
        done = xp.where(np.isnan(done) & right, steps, done)
    return done[()]


# --- geometry ---


def smoothness(correlation: ArrayLike, p1: ArrayLike, contrast: ArrayLike = 2.0) -> Numbers:
    r"""$\|\nabla^2 L(0)\| = \frac c8 \left(1 + \sqrt{1 - 4 p_1 p_2 (1 - \alpha^2)}\right)$, the largest sharpness anywhere.

    Learning rates up to 2 over this exclude spikes.

    Paper: fig:sharpness; the constant is ours.
    """
    xp, alpha, p, c = _read(correlation, p1, contrast)
    return c / 8 * (1 + xp.sqrt(1 - 4 * p * (1 - p) * (1 - alpha) * (1 + alpha)))


def max_margin_norm(correlation: ArrayLike, contrast: ArrayLike = 2.0) -> Numbers:
    r"""$\|W_{mm}\| = \sqrt{2 / (c\,(1 - \alpha))}$.

    Paper: Section 4.2, the max-margin direction $f_2$.
    """
    xp, alpha, _, c = _read(correlation, 0.5, contrast)
    require(alpha < 1, "correlation < 1", alpha, "Parallel tokens cannot be separated.")
    return xp.sqrt(2 / (c * (1 - alpha)))


def max_margin(problem: Problem) -> Weights:
    r"""$W_{mm} = \frac{u_1 - u_2}{c} \otimes \frac{e_1 - e_2}{1 - \alpha}$: both margins are 1, with the smallest norm.

    Paper: Section 4.2, the direction $f_2$, with its length.
    """
    E, U = problem.inputs, problem.outputs
    require(len(E) == 2, "N = 2", len(E))
    require(len(U) == 2, "M = 2", len(U))
    require(problem.targets[0] == 0 and problem.targets[1] == 1, "f*(x) = x", problem.targets[0])
    require(abs((E * E).sum(1) - 1) < 1e-9, "unit inputs", (E * E).sum(1))
    alpha, u = E[0] @ E[1], U[0] - U[1]
    require(u @ u > 0, "the two outputs differ", u @ u)
    require(alpha < 1, "correlation < 1", alpha, "Parallel tokens cannot be separated.")
    return (u / (u @ u))[:, None] * ((E[0] - E[1]) / (1 - alpha))[None, :]
