r"""Muon in two cases that can be solved: the first step with orthonormal embeddings, and two classes.

Exact Muon moves W by $-\eta\,U_r V_r^\top$, $U_r$ and $V_r$ being the gradient's singular vectors with singular values
above rounding (`dynamics.exact_muon`). optax's Muon is another method, five rounds of Newton and Schulz with
Nesterov's average (`dynamics.muon`), for which these are not theorems. Beyond the paper.
"""

import numpy as np

from engram._types import ArrayLike, Scalar
from engram.problem import Problem
from engram.theory._hypotheses import (
    HypothesisError,
    given,
    read,
    require,
    require_certain,
    require_orthogonal,
)

_STRIDE = 0.2  # the rule of rectangles errs by about e^{-pi^2 / stride} here
_REACH = 38.0  # beyond it 1 / cosh is below rounding


def first_step_shares(probs: ArrayLike) -> np.ndarray:
    r"""K, with $W_1 = \eta \sum_x (u_x - \sum_y K_{yx} u_y) \otimes e_x$ for exact Muon from zero, N = M, orthonormal embeddings.

    $$K_{yx} = \mathrm E\, \pi_y(p_x |C|), \qquad \pi_y(s) = \frac{(p_y^2 + s^2)^{-1}}{\sum_z (p_z^2 + s^2)^{-1}},$$

    with C Cauchy, so every column is a distribution: a token pushes away what is rarest. Descent has $p_x / M$
    in place of $K_{yx}$, times its learning rate.

    Proof: $-\nabla L(0) = P D$, $D = \mathrm{diag}(p)$, P the projection along (1, ..., 1). Its polar factor is
    $PD\,(DPD)^{-1/2} = \frac2\pi \int_0^\infty PD\,(DPD + s^2)^{-1} ds$. DPD is $D^2$ less a matrix of rank one,
    so Sherman and Morrison give the integrand, $\frac{p_x}{p_x^2 + s^2} (\delta_{yx} - \pi_y(s))$.
    """
    (_, p) = read(probs=probs)
    require(p.ndim == 1 and len(p) > 1, "N = M >= 2", p.size, "Pass one frequency per token.")
    require(p > 0, "p > 0", p)
    q = p / p.max()
    tau = np.arange(np.log(q.min()) - _REACH, _REACH, _STRIDE)  # s = e^tau
    with np.errstate(under="ignore"):
        near = 1 / (q[:, None] ** 2 + np.exp(2 * tau))
        weight = _STRIDE / np.pi / np.cosh(tau[:, None] - np.log(q))
        return (near / near.sum(0)) @ weight


def first_step_margins(learning_rate: Scalar, probs: ArrayLike) -> np.ndarray:
    r"""The tokens' margins after exact Muon's first step: $\eta\,(1 - K_{xx} + \min_{y \ne x} K_{yx})$.

    Plain descent has $\eta\,p_x$.
    """
    (_, eta) = given(learning_rate=learning_rate)
    K = first_step_shares(probs)
    others = np.where(np.eye(len(K), dtype=bool), np.nan, K)
    # 1 - K_xx cancels for a rare token; the other shares do not.
    return eta * (np.nansum(others, 0) + np.nanmin(others, 0))


def first_step_ratio_bounds(probs: ArrayLike) -> tuple[float, float]:
    r"""Bounds for the least of these margins over the largest: they tend to 1 if and only if $v \to 0$ (which needs $M \to \infty$).

    $$(1 - v)\Big(1 - \frac1M\Big) \le \frac{\min_x m_x}{\max_x m_x} \le \Big(1 - \frac v2\Big) \Big(\frac M{M-1}\Big)^2,
    \qquad v = \frac{\max_x p_x^{-2}}{\sum_x p_x^{-2}}.$$

    Proof: the rarest token's $\pi_r(s)$ is the largest of all and falls with s, from v, so all K are at most v; and the columns'
    least entry is at most $(1 - K_{xx})/(M - 1)$. The most frequent token's is at most 1/M, so its margin is at least
    $1 - 1/M$. For the rarest $\pi_r(p_r |C|) \ge v / (1 + C^2)$, whose mean is v/2.
    """
    (_, p) = read(probs=probs)
    require(p > 0, "p > 0", p)
    M = p.size
    v = float((p.min() / p.max()) ** -2 / ((p / p.max()) ** -2.0).sum())
    return (1 - v) * (1 - 1 / M), (1 - v / 2) * (M / (M - 1)) ** 2


def gain_per_step(learning_rate: Scalar, problem: Problem) -> float:
    r"""$\eta\gamma$, what the least margin gains in a step of exact Muon in the long run; two classes, orthogonal inputs.

    $$\frac1t \min_x m_t(x) \to \eta\gamma \quad\text{for}\quad \eta\gamma < 2, \qquad
    \gamma = \frac1{\|W_{mm}\|} = \frac{\|u_1 - u_2\|}{\sqrt{\sum_x \|e_x\|^{-2}}}.$$

    Descent's margins grow like $\log t$. At every time $\min_x m_t(x) \le \gamma (\|W_0\| + \eta t)$, for every
    $\eta$; and if frequencies and lengths are equal, $m_t = m_0 + \eta\gamma t$ exactly. Beyond $\eta\gamma = 2$ tokens take turns, and the gain
    is smaller.

    Proof: with two classes the gradient is $-(u_1 - u_2) \otimes v$, of rank one, so its polar factor is itself over its norm: Muon
    is normalised descent. $\|W_t\| \le \|W_0\| + \eta t$, and no W has a least margin above $\gamma \|W\|$. Where all margins gain alike,
    their differences $\delta$ follow $\delta' = (1 - \eta\gamma)\,\delta$: attracting below 2.
    """
    (_, eta) = given(learning_rate=learning_rate)
    require_certain(problem, classes=2)
    E, U, p = (np.asarray(part) for part in (problem.inputs, problem.outputs, problem.probs))
    E = E[p > 0]
    require_orthogonal("inputs", E)
    lengths = np.linalg.norm(E, axis=1)
    contrast = np.linalg.norm(U[0] - U[1])
    if not (lengths > 0).all() or contrast == 0:
        raise HypothesisError(
            "Tokens at zero, or classes that are alike, have no margins. Drop them."
        )
    return float(eta * contrast / np.sqrt((lengths**-2.0).sum()))
