r"""Where long training ends, and how fast it gets there, whenever all tokens can be recalled.

A margin is $\langle z, W \rangle$ with $z_{xy} = (u_{f^*(x)} - u_y) \otimes e_x$, one for each token x that occurs and each wrong
class y. Let $\hat W$ be the max-margin weights and $a_{xy} \ge 0$ their multipliers, $\hat W = \sum a_{xy} z_{xy}$
(`capacity.max_margin_multipliers`). The support are the margins of $\hat W$ that are 1; $\mu$ is the least of the others.

**Theorem.** Gradient flow ($\eta t$ is its time), or descent with any $\eta > 0$, from any start:

1. $\eta t\,L(W_t) \to \|\hat W\|^2 = \sum a$.
2. On the support $m_{xy} = \log(\eta t\,p_x / a_{xy}) + o(1)$ for the one $a$ that has the form $a_{xy} = p_x e^{-\langle \rho, z_{xy} \rangle}$, which
   minimises $\sum a \log(a/p) - a$. Where it is zero (`excluded`), the margin exceeds $\log(\eta t)$ by $\log\log(\eta t) + O(1)$.
3. If nothing is excluded, the $o(1)$ is $O((\eta t)^{-r} \log(\eta t))$ with $r = \min(1, \lambda, \mu - 1)$, $\lambda$ the least positive eigenvalue of
   $A = \sum a\,z \otimes z$, or of $\mathrm{diag}(a) K$, $K$ being the Gram matrix of the support. If something is, it is of order $1/\log(\eta t)$.

Proof in outline. With $W = \hat W s + \rho$ and $s = \log(\eta t)$, the flow becomes $\rho' = -\nabla\Phi(\rho) + O(e^{-s}) + O(e^{-(\mu-1)s})$,
$\Phi(\rho) = \langle \hat W, \rho \rangle + \sum p\,e^{-\langle z, \rho \rangle}$, which is convex and bounded below: $\nabla\Phi \to 0$ is 2, and with $\hat W$ it is 1. Near its
minimum the Hessian is A, whose eigenvalues are the rates; $A \hat W = \hat W$, so 1 is one of them. Descent adds $\frac\eta2 \hat W e^{-s}$.
It gets there for every $\eta$, since $\sum_{s<t} L(W_s) \le t\,L(u) + \|u + \frac{\eta R^2}{2} \hat W - W_0\|^2 / 2\eta$ for all u, $R = \max \|z\|$.

Known before, for two classes: the direction $\hat W$ and, for almost all data, 2 (Soudry et al. 2018; Ji and Telgarsky 2018 for
the rest), convergence for any $\eta$ (Wu, Braverman and Lee 2023). The rates, the loss's own rate, and 2 for dependent margins are ours.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from engram._checks import InputError, is_traced
from engram._types import Array, ArrayLike, Weights
from engram.problem import Problem
from engram.theory._hypotheses import HypothesisError, given, read, require, require_certain

_SAME = 1e-7  # margins this close to 1 are on the support
_ZERO = 1e-11  # multipliers of unit z this small, beside the largest, are zero


class Limit(NamedTuple):
    r"""The limit of long training; tables have shape (N, M).

    Args:
        weights: $\hat W$, the max-margin weights.
        multipliers: The $a$ of the theorem.
        offsets: $\log(p_x/a_{xy})$ on the support; infinite where $a$ is zero; NaN where margins are slack, whose offsets depend on the start.
        excluded: Which margins are 1 with a multiplier that is zero.
        slack: $\mu$, the least margin above 1; infinite if there is none.
        eigenvalues: The positive eigenvalues of A, rising.
        slowest: The unit eigenvector of the least one, as a W.
    """

    weights: Weights
    multipliers: Float[Array, "N M"]
    offsets: Float[Array, "N M"]
    excluded: np.ndarray
    slack: float
    eigenvalues: Float[Array, " r"]
    slowest: Weights


def limit(problem: Problem, multipliers: ArrayLike) -> Limit:
    r"""What long training of a separable problem tends to, from multipliers of its max-margin problem.

    Args:
        problem: Certain targets; tokens that do not occur have no part in it.
        multipliers: Any $a \ge 0$ that solves the max-margin problem, shape (N, M), as `capacity.max_margin_multipliers` returns it.

    Paper: thm:two-flow and thm:multi are its two cases; not in the paper.
    """
    if is_traced(problem, multipliers):
        raise InputError(
            "`problem` must be concrete here: its support sets a shape. Call it outside of jit."
        )
    _, table = read(multipliers=multipliers)
    require_certain(problem)
    p, why = _probs(problem), "Take them from `capacity.max_margin_multipliers`."
    if table.shape != p.shape:
        raise InputError(f"`multipliers` must have shape {p.shape}, got {table.shape}. {why}")
    counts = (np.arange(p.shape[1]) != np.asarray(problem.labels)[:, None]) & (p > 0)
    margins = _optimal_margins(problem, table, counts)
    active = counts & (margins <= 1 + _SAME)
    support, a = active, _limit_multipliers(problem, active)
    squares = _squares(problem)
    while (
        support != (kept := (u := a * squares) > _ZERO * u.max())
    ).any():  # on the support alone, to rounding
        support, a = kept, _limit_multipliers(problem, kept)
    values, vectors = _spectrum(problem, a)
    slowest = np.zeros_like(a)
    slowest[support] = vectors[:, 0] * np.sqrt(a[support] / values[0])
    with np.errstate(divide="ignore"):
        offsets = np.where(active, np.log(p / np.where(active, a, 1.0)), np.nan)
    slack = float(margins[counts & ~active].min(initial=np.inf))
    W, slowest = _combine(problem, a), _combine(problem, slowest)
    return Limit(W, a, offsets, active & ~support, slack, values, slowest)


def limit_loss_constant(problem: Problem, multipliers: ArrayLike) -> float:
    r"""$\lim \eta t\,L(W_t) = \|\hat W\|^2 = \sum a$, the sum over any multipliers.

    Paper: thm:ortho-bin, thm:multi and thm:two-flow, with their constants made one.
    """
    return float(limit(problem, multipliers).multipliers.sum())


def margin_asymptote(
    times: ArrayLike, problem: Problem, multipliers: ArrayLike
) -> Float[Array, "*T N M"]:
    r"""$\log(\eta t\,p_x / a_{xy})$, what margins on the support tend to; infinite or NaN as `Limit.offsets`.

    Args:
        times: $\eta t$ for descent, t for the flow.
        problem: What is learnt.
        multipliers: As for `limit`.

    Paper: thm:two-flow, with its residual $\bar\gamma$ for any number of tokens and classes.
    """
    _, t = given(times=times)
    require(t > 0, "times > 0", t)
    return np.log(t)[..., None, None] + limit(problem, multipliers).offsets


class Rate(NamedTuple):
    r"""How fast the limit is approached.

    Args:
        exponent: r: margins on the support are $O((\eta t)^{-r})$ from their asymptotes, up to a logarithm. It is the exact
            exponent where the slack or the clock sets it, and from all starts but those on a surface where $\lambda$ does.
        loss_exponent: $\min(1, 2\lambda, \mu - 1)$, the same for $\eta t\,L$: the loss sees a slow direction squared.
        set_by: What is least: "eigenvalue" $\lambda$, "slack" $\mu - 1$, or "clock", the eigenvalue 1.
        logarithms: The coefficients of $\log(\eta t)/\eta t$ in the margins, shape (N, M); NaN off the support, and where they depend
            on the start, at $\mu = 2$.
        loss_logarithm: The b of $\eta t\,L \approx \|\hat W\|^2 (1 + b \log(\eta t)/\eta t)$ where `loss_exponent` is 1; NaN at $\mu = 2$ and $\lambda = \frac12$.
    """

    exponent: float
    loss_exponent: float
    set_by: str
    logarithms: Float[Array, "N M"]
    loss_logarithm: float


def rate(problem: Problem, multipliers: ArrayLike, learning_rate: ArrayLike = 0.0) -> Rate:
    r"""The exponents with which margins and loss approach their limits.

    The eigenvalue 1 always occurs, since $\hat W$ is its eigenvector: a shift of the clock. It resonates with the terms of order
    $1/\eta t$, $F = \frac\eta2 \hat W - \sum_x \frac{A_x}{p_x} \sum_y a_{xy} z_{xy}$ with $A_x = \sum_y a_{xy}$, so that margins change by $\langle z, P F \rangle \log(\eta t)/\eta t$,
    P being the projection on its eigenspace. Along $\hat W$ this is absent at one learning rate only,
    $\eta = 2 \sum_x A_x^2/p_x / \|\hat W\|^2$.

    Args:
        problem: What is learnt.
        multipliers: As for `limit`. None of the limit's may be zero on the support.
        learning_rate: $\eta$ of descent; zero is the flow.

    Paper: thm:two-flow prints $O(1/t)$; for two tokens $\lambda = \frac{1+\alpha}{1-\alpha}$.
    """
    _, eta = given(learning_rate=learning_rate)
    found = limit(problem, multipliers)
    if found.excluded.any():
        x, y = np.argwhere(found.excluded)[0]
        raise HypothesisError(
            f"The hypothesis that every multiplier of the support is positive fails at token {x}, class {y}: "
            "margins approach their limits like 1/log(t), not like a power. `limit` holds all the same."
        )
    least = float(found.eigenvalues[0])
    rates = {"clock": 1.0, "eigenvalue": least, "slack": found.slack - 1}
    set_by = min(rates, key=lambda name: rates[name] + _SAME * (name == "eigenvalue"))
    a = np.asarray(found.multipliers)
    support = a > 0
    total = np.broadcast_to(a.sum(1, keepdims=True), a.shape)
    share = total[support] / _probs(problem)[support] - float(eta) / 2
    values, vectors = _spectrum(problem, a)
    clock = vectors[:, np.abs(values - 1) < _SAME]
    # F = -sum a share z, and z has in these coordinates the components sqrt(values / a) vectors.
    root = np.sqrt(a[support])
    logarithms = np.full(a.shape, np.nan)
    logarithms[support] = -clock @ (clock.T @ (root * share)) / root
    b = a[support] @ share / a.sum()
    loss = min(1.0, 2 * least, rates["slack"])
    # Terms of the same order whose size depends on the start.
    if abs(rates["slack"] - 1) < _SAME:
        logarithms[:], b = np.nan, np.nan
    if abs(2 * least - 1) < _SAME:
        b = np.nan
    return Rate(rates[set_by], loss, set_by, logarithms, float(b))


def _probs(problem: Problem) -> np.ndarray:
    """The frequencies $p_x$ as a table."""
    p = np.asarray(problem.probs, float)[:, None]
    return np.broadcast_to(p, (problem.num_tokens, problem.num_classes))


def _spectrum(problem: Problem, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""The positive eigenvalues of $\sqrt a\,K \sqrt a$, which are those of A, and its eigenvectors as columns."""
    gram, root = _gram(problem, a > 0), np.sqrt(a[a > 0])
    values, vectors = np.linalg.eigh(root[:, None] * gram * root)
    rank = _factor(gram)[0].shape[1]
    return values[-rank:], vectors[:, -rank:]


def _combine(problem: Problem, table: np.ndarray) -> np.ndarray:
    r"""$\sum a_{xy} z_{xy}$."""
    push = -table
    push[np.arange(len(push)), np.asarray(problem.labels)] += table.sum(1)
    return np.asarray(problem.outputs).T @ push.T @ np.asarray(problem.inputs)


def _optimal_margins(problem: Problem, table: np.ndarray, counts: np.ndarray) -> np.ndarray:
    r"""The margins of $\sum a z$, if they show that the multipliers are those of the max-margin problem."""
    W = _combine(problem, np.where(counts, table, 0.0))
    scores = np.asarray(problem.inputs) @ W.T @ np.asarray(problem.outputs).T
    margins = np.take_along_axis(scores, np.asarray(problem.labels)[:, None], 1) - scores
    why = "Take them from `capacity.max_margin_multipliers`; a problem that is not separable has none."
    require(table >= 0, "multipliers >= 0", table, why)
    require(counts | (table == 0), "only wrong classes of tokens that occur have any", table, why)
    require(~counts | (margins >= 1 - _SAME), "all margins of sum a z are at least 1", margins, why)
    unit = np.where(counts, table, 0.0) * _squares(problem)
    held = unit > _SAME * unit.max()
    require(~held | (margins <= 1 + _SAME), "margins with a multiplier are 1", margins, why)
    return margins


def _squares(problem: Problem) -> np.ndarray:
    r"""The $\|z_{xy}\|^2$, which take the lengths of embeddings out of multipliers."""
    E, U = np.asarray(problem.inputs), np.asarray(problem.outputs)
    gaps = U[np.asarray(problem.labels)][:, None] - U
    return (E**2).sum(1)[:, None] * (gaps**2).sum(2)


def _gram(problem: Problem, pairs: np.ndarray) -> np.ndarray:
    """Inner products of the z of some margins."""
    x, wrong = np.nonzero(pairs)
    E, U = np.asarray(problem.inputs)[x], np.asarray(problem.outputs)
    gaps = U[np.asarray(problem.labels)[x]] - U[wrong]
    return (gaps @ gaps.T) * (E @ E.T)


def _factor(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in coordinates of their span whose inner products are these, and the v with all margins 1."""
    lengths = np.sqrt(np.diag(gram))  # by which rows differ without being dependent
    values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
    kept = values > 1e-12 * len(values) * values[-1]
    roots = np.sqrt(values[kept])
    return lengths[:, None] * vectors[:, kept] * roots, (1 / lengths) @ vectors[:, kept] / roots


def _limit_multipliers(problem: Problem, support: np.ndarray) -> np.ndarray:
    r"""The $a = p\,e^{-Z\rho}$ with $Z^\top a = \hat v$: Newton's method for the least $\langle\hat v, \rho\rangle + \sum p\,e^{-Z\rho}$.

    Damped as for sums of exponentials (Sun and Tran-Dinh 2019). If some entries have to be zero there is no
    least value, and each step divides them by 2.
    """
    gram, p = _gram(problem, support), _probs(problem)[support]
    Z, v = _factor(gram)
    squares = np.diag(gram)
    lengths = np.sqrt(squares)
    unit_gram = gram / np.outer(lengths, lengths)
    unit = lengths * np.linalg.lstsq(unit_gram, 1 / lengths, rcond=1e-13)[0]
    goal = np.log(p * squares / np.maximum(unit, 1e-3 * unit.max()))
    rho = np.linalg.lstsq(Z, goal, rcond=None)[0]
    for _ in range(300):
        a = p * np.exp(-Z @ rho)
        step = np.linalg.pinv((Z.T * a) @ Z, rcond=1e-15, hermitian=True) @ (Z.T @ a - v)
        if (reach := np.abs(Z @ step).max()) < 1e-13:
            break
        rho = rho + step * np.log1p(reach) / reach
    a = np.zeros(support.shape)
    a[support] = p * np.exp(-Z @ rho)
    return a
