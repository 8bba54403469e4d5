r"""Tokens on one line that cannot all be recalled: descent as a map of the line, with cycles below the edge of stability.

Parallel tokens $e_x = z_x e$ of one class (a negative $z_x$ is a token that pulls the other way) have the margins $z_x g$, and
$g \leftarrow F(g) = g - \eta L'(g)$, $L(g) = \sum_x p_x \log(1 + e^{-z_x g})$. The `learning_rate` is the product $\eta \|u_1 - u_2\|^2$.
With $H = L''(g_*)$ at the minimiser, $\eta < 1/H$ converges from everywhere, and for every $\eta$ in $(1/H, 2/H)$ some data have an attracting
cycle: Meng, Orvieto, Cao and De Sa (arXiv 2406.05033). The short proof of the first and the explicit data of the second are ours.
"""

from typing import Any, NamedTuple

import numpy as np

from engram._types import ArrayLike, Numbers
from engram.special import bisect, sigmoid
from engram.theory._hypotheses import HypothesisError, read, require

_STRIDES = 2000  # of 1/200 of the learning rate, or 1/60 of the last gap


class Cycle(NamedTuple):
    """Points of a cycle in the order in which they are visited, and what a small deviation is multiplied by in a turn."""

    points: np.ndarray
    multiplier: float


class Bifurcation(NamedTuple):
    """Where a cycle is born (multiplier 1) or loses its stability to one of twice the period (multiplier -1)."""

    learning_rate: float
    point: float
    period: int


def _read(tokens: Any, probs: Any, **others: Any) -> tuple[Any, ...]:
    _, z, p, *rest = read(tokens=tokens, probs=probs, **others)
    require(p > 0, "probs > 0", p)
    return z, p, *rest


def slope(position: ArrayLike, tokens: ArrayLike, probs: ArrayLike) -> Numbers:
    r"""$L'(g) = -\sum_x p_x z_x \sigma(-z_x g)$."""
    z, p, g = _read(tokens, probs, position=position)
    return _slope(g, z, p)


def _slope(g: Any, z: Any, p: Any) -> Any:
    return -(p * z * sigmoid(-z * g[..., None])).sum(-1)


def curvature(position: ArrayLike, tokens: ArrayLike, probs: ArrayLike) -> Numbers:
    r"""$L''(g) = \sum_x p_x z_x^2 \sigma'(z_x g)$, the sharpness in units of $\|u_1 - u_2\|^2$."""
    z, p, g = _read(tokens, probs, position=position)
    return _curvature(g, z, p)


def _curvature(g: Any, z: Any, p: Any) -> Any:
    m = z * g[..., None]
    return (p * z * z * sigmoid(m) * sigmoid(-m)).sum(-1)


def minimiser(tokens: ArrayLike, probs: ArrayLike) -> float:
    """Where the loss is least; there is such a point if and only if tokens pull both ways."""
    z, p = _read(tokens, probs)
    require((z > 0).any() & (z < 0).any(), "tokens of both signs", z.min() * z.max(), "Else the loss has no minimum.")  # fmt: skip
    high = 1.0
    while _slope(np.array(high), z, p) < 0 or _slope(np.array(-high), z, p) > 0:
        high *= 2
    return float(bisect(lambda g: _slope(np.asarray(g), z, p) < 0, -high, high))


def edge(tokens: ArrayLike, probs: ArrayLike) -> float:
    r"""$2/H$, $H = L''(g_*)$: below, the minimiser attracts its neighbourhood. Below half of it, everything."""
    return 2 / float(curvature(minimiser(tokens, probs), tokens, probs))


def descend(
    start: ArrayLike, learning_rate: ArrayLike, tokens: ArrayLike, probs: ArrayLike, *, skip: int, keep: int
) -> np.ndarray:  # fmt: skip
    """The positions after `skip` steps and the next `keep` ones, on a first axis; starts and learning rates may be arrays."""
    z, p, g, eta = _read(tokens, probs, start=start, learning_rate=learning_rate)
    path = [g + 0 * eta]
    for step in range(skip + keep):
        path.append(path[-1] - eta * _slope(path[-1], z, p))
        if step < skip:
            del path[0]
    return np.stack(path[:keep])


def tokens_with_cycle(
    share: float, *, saturation: float = 30.0
) -> tuple[np.ndarray, np.ndarray, float, Cycle]:
    r"""Tokens and frequencies with an attracting 2-cycle at $\eta = $ `share` $/H$, for any share in (1, 2): with $\eta$ and the cycle.

    Tokens 1 and -1 make a loss whose slope is $\sigma(g) - \sigma(\delta)$ up to a factor, nearly linear. A rare and long token Z adds a push
    to the right that is constant for g < 0 and gone for g > 0. From $g_2 = \delta + x$ a step overshoots $\delta$ to some $g_1 < 0$, where the
    push is chosen to lead back to $g_2$. With $\varepsilon$ = share - 1, $x = \sqrt\varepsilon$ and $\delta = \varepsilon x/4$ both points lie where the
    push is constant up to $e^{-Z\delta}$, and the multiplier is about $\frac34 \varepsilon^2$. Z grows like $\varepsilon^{-3/2}$.

    Args:
        share: $\eta H$, of which 2 is the edge.
        saturation: $Z \delta$; the push is a step up to $e^{-Z\delta}$.
    """
    _, share, saturation = read(share=share, saturation=saturation)
    require((share > 1) & (share < 2), "1 < share < 2", share)
    require(saturation >= 10, "saturation >= 10", saturation)
    x = np.sqrt(share - 1)
    delta = (share - 1) * x / 4
    Z, level = saturation / delta, sigmoid(delta)
    step = share / (level * sigmoid(-delta))  # the learning rate times p(1) + p(-1)
    right = delta + x
    left = right - step * (sigmoid(right) - level)
    push = right - left + step * (sigmoid(left) - level)
    rare = push / (push + step * Z)
    tokens, probs = np.array([1, -1, Z]), np.array([(1 - rare) * level, (1 - rare) * (1 - level), rare])  # fmt: skip
    eta = float(share / 2 * edge(tokens, probs))
    return tokens, probs, eta, cycle(right, eta, tokens, probs, 2)


def _turn(g: Any, eta: Any, z: Any, p: Any, period: int) -> tuple[Any, ...]:
    r"""$F^k(g)$ with its derivatives by g, twice by g, by $\eta$, and by both."""
    g, by_g, by_gg, by_eta, by_both = np.asarray(g, float), 1.0, 0.0, 0.0, 0.0
    for _ in range(period):
        m = z * g[..., None]
        q = sigmoid(m) * sigmoid(-m)
        bend = (p * z**3 * q * (1 - 2 * sigmoid(m))).sum(-1)
        push, stiff = _slope(g, z, p), (p * z * z * q).sum(-1)
        factor = 1 - eta * stiff
        by_both = factor * by_both - (stiff + eta * bend * by_eta) * by_g
        by_gg = factor * by_gg - eta * bend * by_g**2
        by_eta, by_g, g = factor * by_eta - push, factor * by_g, g - eta * push
    return g, by_g, by_gg, by_eta, by_both


def cycle(
    start: ArrayLike, learning_rate: ArrayLike, tokens: ArrayLike, probs: ArrayLike, period: int
) -> Cycle:
    """The cycle of a period near a start, attracting or not, by Newton's method."""
    z, p, g, eta = _read(tokens, probs, start=start, learning_rate=learning_rate)
    for _ in range(60):
        end, by_g, *_ = _turn(g, eta, z, p, period)
        move = (end - g) / (1 - by_g)
        g = g + move
        if abs(move) <= 1e-13 * (1 + abs(g)):  # Newton squares it
            break
    else:
        raise HypothesisError(f"No cycle of period {period} near {start}. Start nearer.")
    points = descend(g, eta, z, p, skip=0, keep=period)
    return Cycle(points, float(np.prod(1 - eta * _curvature(points, z, p))))


def bifurcation(
    start: ArrayLike, learning_rate: ArrayLike, tokens: ArrayLike, probs: ArrayLike, period: int,
    multiplier: float = -1.0,
) -> Bifurcation:  # fmt: skip
    """The learning rate near a guess at which a cycle has this multiplier: -1 where its period doubles, 1 where it is born."""
    z, p, g, eta = _read(tokens, probs, start=start, learning_rate=learning_rate)
    for _ in range(60):
        end, by_g, by_gg, by_eta, by_both = _turn(g, eta, z, p, period)
        jacobian = np.array([[by_g - 1, by_eta], [by_gg, by_both]])
        move = np.linalg.solve(jacobian, np.array([g - end, multiplier - by_g]))
        g, eta = g + move[0], eta + move[1]
        if abs(move).max() <= 1e-11 * (1 + abs(g) + eta):
            return Bifurcation(float(eta), float(g), period)
    raise HypothesisError(f"No bifurcation near {learning_rate}. Start nearer.")


def doublings(
    start: float, learning_rate: float, tokens: ArrayLike, probs: ArrayLike, *, count: int, period: int = 2
) -> list[Bifurcation]:  # fmt: skip
    """The first `count` doublings of the attracting cycle near a start, as the learning rate grows.

    The multiplier is followed by Newton's method until it has passed -1; descent itself finds the cycle of twice the period.
    """
    z, p = _read(tokens, probs)
    eta, stride, last, found = float(learning_rate), learning_rate / 200, learning_rate, []
    g = descend(start, eta, z, p, skip=300 * period, keep=1)[0]
    for _ in range(_STRIDES):
        points, multiplier = cycle(g, eta, z, p, period)
        require(multiplier < 1, f"an attracting cycle of period {period} near start", multiplier, "That is its multiplier.")  # fmt: skip
        require(abs(points[0] - points[1:]).min(initial=1) > 1e-9, f"a cycle of period {period}, not of a divisor", points[0], "Start on the cycle.")  # fmt: skip
        if multiplier > -1:
            g, eta = points[0], eta + stride
            continue
        found.append(bifurcation(points[0], eta, z, p, period))
        if len(found) == count:
            return found
        stride, last = (found[-1].learning_rate - last) / 60, found[-1].learning_rate
        eta, period = last + stride, 2 * period
        g = descend(points[0] + 1e-3, eta, z, p, skip=300 * period, keep=1)[0]
    raise HypothesisError(f"The multiplier does not reach -1 up to a learning rate of {eta:.6g}.")
