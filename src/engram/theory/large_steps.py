r"""Large steps where every token can be recalled: descent oscillates, then is stable for good, and faster for it.

For any number of tokens and classes, from zero. $B = \|W_{mm}\|$ is the norm of the max-margin matrix whose least margin is 1, and
$R = \max \|u_{f^*(x)} - u_i\| \|e_x\|$ the `reach`: no margin moves by more than $\eta R^2$ in a step. The two phases, and $1/T^2$ with
$\eta \propto T$, are Wu, Bartlett, Telgarsky and Yu's (COLT 2024, arXiv 2402.15926), for two classes; the constants and proofs are ours.
"""

import math
from typing import Any

import numpy as np

from engram._types import ArrayLike, Numbers, Scalar
from engram.problem import Problem
from engram.special import log_omega
from engram.theory import binary
from engram.theory._hypotheses import given, require, require_certain

# What a stable step of rate η keeps of the gain η|∇L|^2: with k = ηR^2 L <= 1, 1 - (e^k - 1 - k)/k.
STABLE_GAIN = 3 - math.e
# A token's loss over the probability of its wrong classes is at most this while its margins are not negative.
LOSS_OVER_ERROR = 2 * math.log(2)


def reach(problem: Problem) -> Scalar:
    r"""$R = \max_{x,i} \|u_{f^*(x)} - u_i\|\,\|e_x\|$."""
    require_certain(problem)
    E, U, target = problem.inputs, problem.outputs, problem.targets
    gaps = U[target][:, None, :] - U[None, :, :]
    return (((gaps * gaps).sum(2).max(1) * (E * E).sum(1)).max() ** 0.5)[()]


def _pull(num_classes: int) -> Any:
    r"""$\sup \sum_i q_i m_i = \mathcal W_0((M - 1)/e)$: how much a step can lengthen W without an error."""
    require(num_classes >= 2, "num_classes >= 2", num_classes)
    return np.exp(log_omega(np.log(num_classes - 1.0) - 1))


def exit_constant(num_classes: int = 2) -> Scalar:
    r"""The C of "stable after at most $C \eta R^4 \|W_{mm}\|^2$ steps", for $\eta R^2 \ge 1/(p_{\min} \log 2)$: 3.2519 for two classes."""
    return _steps_until(1.0, np.sqrt(2 * _pull(num_classes)), 1 / LOSS_OVER_ERROR)


def _steps_until(a: Any, b: Any, goal: Any) -> Any:
    r"""The T with $a/T + b/\sqrt T$ at the goal."""
    root = (b + np.sqrt(b * b + 4 * a * goal)) / (2 * goal)  # 1/u of the positive root u
    return root * root


def stable_loss(learning_rate: ArrayLike, reach: ArrayLike, least_prob: ArrayLike) -> Numbers:
    r"""$\min(1/(\eta R^2),\ p_{\min} \log 2)$: from the first such loss on, no margin is negative and the loss falls at each step.

    So every margin is positive from the next step on.
    """
    xp, eta, R, p = _read(learning_rate, reach, least_prob=least_prob)
    return xp.minimum(1 / (eta * R * R), p * np.log(2))


def _read(learning_rate: Any, reach: Any, **others: Any) -> tuple[Any, ...]:
    xp, eta, R, *rest = given(learning_rate=learning_rate, reach=reach, **others)
    for name, value in {"learning_rate": eta, "reach": R, **dict(zip(others, rest, strict=True))}.items():  # fmt: skip
        require(value > 0, f"{name} > 0", value)
    return xp, eta, R, *rest


def exit_bound(
    learning_rate: ArrayLike, reach: ArrayLike, max_margin_norm: ArrayLike, least_prob: ArrayLike,
    num_classes: int = 2,
) -> Numbers:  # fmt: skip
    r"""At most so many steps from zero until the loss is at `stable_loss`, whatever the learning rate.

    With $G_t = \sum_x p(x) (1 - p_W(f^*(x)|x))$ the perceptron's argument gives
    $\frac1T \sum_{t<T} G_t \le \frac{R^2B^2}{T} + B \sqrt{\frac{2h}{\eta T}}$, $h = \mathcal W_0((M-1)/e)$; the bound is the T at which that is
    $\min\left(\frac{p_{\min}}2, \frac1{2 \log 2\,\eta R^2}\right)$.
    """
    xp, eta, R, B, p = _read(
        learning_rate, reach, max_margin_norm=max_margin_norm, least_prob=least_prob
    )
    goal = xp.minimum(p / 2, 1 / (LOSS_OVER_ERROR * eta * R * R))
    return _steps_until((R * B) ** 2, B * xp.sqrt(2 * _pull(num_classes) / eta), goal)


def stable_loss_bound(
    steps: ArrayLike, learning_rate: ArrayLike, loss: ArrayLike, max_margin_norm: ArrayLike
) -> Numbers:
    r"""So many steps after the loss was at `stable_loss`: $1/L_{s+t} \ge 1/L_s + \frac{3 - e}{4 \log^2 2} \frac{\eta t}{B^2}$.

    Its limit is sharper: $\eta t\,L(W_t) \to B^2$.
    """
    xp, t, eta, L, B = given(
        steps=steps, learning_rate=learning_rate, loss=loss, max_margin_norm=max_margin_norm
    )
    require(L > 0, "loss > 0", L)
    require(B > 0, "max_margin_norm > 0", B)
    return 1 / (1 / L + STABLE_GAIN / LOSS_OVER_ERROR**2 * eta * t / B**2)


def horizon_rate(
    steps: ArrayLike, reach: ArrayLike, max_margin_norm: ArrayLike, num_classes: int = 2
) -> Numbers:
    r"""The learning rate for a budget of T steps, $\eta = \frac{T}{2\,C R^4 B^2}$: half of them are enough to become stable."""
    xp, T, R, B = given(steps=steps, reach=reach, max_margin_norm=max_margin_norm)
    return T / (2 * exit_constant(num_classes) * R**4 * B**2)


def horizon_bound(
    steps: ArrayLike, reach: ArrayLike, max_margin_norm: ArrayLike, least_prob: ArrayLike,
    num_classes: int = 2,
) -> Numbers:  # fmt: skip
    r"""The loss after T steps with `horizon_rate` is at most $\frac{16 \log^2 2\,C}{3 - e} \frac{R^4 B^4}{T^2}$."""
    eta = horizon_rate(steps, reach, max_margin_norm, num_classes)
    xp, T, R, B, p = given(
        steps=steps, reach=reach, max_margin_norm=max_margin_norm, least_prob=least_prob
    )
    require(eta * R * R * p * np.log(2) >= 1, "learning_rate * reach^2 >= 1 / (least_prob log 2)",
            eta * R * R * p * np.log(2), "Allow more steps.")  # fmt: skip
    return 2 * LOSS_OVER_ERROR**2 / STABLE_GAIN * B**2 / (eta * T)


def perceptron_bound(reach: ArrayLike, max_margin_norm: ArrayLike) -> Numbers:
    r"""$R^2 \|W_{mm}\|^2$: the mistakes of the limit $\eta \to \infty$, each counted with its token's frequency, add up to no more.

    Novikoff's bound for the batch perceptron that $W/\eta$ follows; every step with a mistake counts $p_{\min}$ or more.
    """
    _, R, B = given(reach=reach, max_margin_norm=max_margin_norm)
    return (R * B) ** 2


def batch_margin_bound(
    own_time: ArrayLike, speed: ArrayLike, start: ArrayLike = 0.0, num_classes: int = 2
) -> Numbers:
    r"""Mini-batches, path by path: $G_M(m_t) \ge G_M(m_0) + \frac M2\,s_x \sum_s \eta_s \frac{n_x(s)}{|B|}$, $G_M(m) = e^m + (M-1)\,m$.

    For orthogonal inputs, equidistant outputs and any start; m is the mean of the token's M - 1 margins. A step adds
    $\frac{\eta n}{|B|} \frac{s_x}2 \frac{M}{M-1} Q$ to it, $Q \ge \frac{M-1}{e^m + M - 1}$ by Jensen's inequality, and $G_M$ is convex.

    Args:
        own_time: $\sum_s \eta_s\,n_x(s)/|B|$, the token's own clock: $n_x(s)$ is how often it was in batch s.
        speed: $s_x = c_x/p_x = \|e_x\|^2 \|u_1 - u_2\|^2$.
        start: The mean margin at the start.
        num_classes: M; for two classes m is the margin and $G_2 = G$.

    Paper: thm:ortho-bin has the sum of batches as an equation for the flow; the bound is ours.
    """
    xp, tau, s, m0 = given(own_time=own_time, speed=speed, start=start)
    require(tau >= 0, "own_time >= 0", tau)
    require(num_classes >= 2, "num_classes >= 2", num_classes)
    K = num_classes - 1.0
    # m = u + log K turns e^m + K m into K (e^u + u) + K log K.
    return binary.flow_margin(tau, (K + 1) * s / (2 * K), m0 - xp.log(K)) + xp.log(K)
