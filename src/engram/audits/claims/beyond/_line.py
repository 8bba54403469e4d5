"""Tokens on one line in ball arithmetic: cycles and bifurcations of descent, enclosed by Newton's method."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from flint import arb, arb_mat, fmpq

from engram.audits._balls import derivatives, isolate

HALF_WIDTH = "1e-25"


class Line(NamedTuple):
    """Exact tokens and frequencies."""

    tokens: Sequence[fmpq]
    probs: Sequence[fmpq]

    def push(self, g: Any) -> Any:
        """Minus the slope of the loss, for a ball or a series."""
        parts = zip(self.tokens, self.probs, strict=True)
        return sum((p * z / (1 + (z * g).exp()) for z, p in parts), 0 * g)

    def minimiser(self) -> arb:
        return isolate(self.push, -100, 100)

    def curvature(self, g: arb) -> arb:
        return -derivatives(self.push, g, 1)[1]


class Turn(NamedTuple):
    """One turn F^k with its derivatives by g, up to the third, by η, and by both."""

    end: arb
    by_g: arb
    by_gg: arb
    by_ggg: arb
    by_eta: arb
    by_both: arb
    points: list[arb]


def turn(line: Line, g: arb, eta: arb, period: int) -> Turn:
    one, two, three, by_eta, by_both, points = arb(1), arb(0), arb(0), arb(0), arb(0), []
    for _ in range(period):
        points.append(g)
        push, d1, d2, d3 = derivatives(line.push, g, 3)
        factor = 1 + eta * d1
        by_both = factor * by_both + (d1 + eta * d2 * by_eta) * one
        three = factor * three + 3 * eta * d2 * one * two + eta * d3 * one**3
        two = factor * two + eta * d2 * one * one
        by_eta, one, g = factor * by_eta + push, factor * one, g + eta * push
    return Turn(g, one, two, three, by_eta, by_both, points)


def _around(x: arb) -> arb:
    return x.mid() + arb(0, HALF_WIDTH)


def _inside(image: arb, ball: arb) -> None:
    if not ball.contains_interior(image):
        raise ArithmeticError("Newton's method does not map the ball into itself")


def enclose_cycle(line: Line, guess: float, eta: arb, period: int) -> Turn:
    """The one cycle near a guess; its `by_g` is the multiplier. N(X) inside X proves that X has exactly one."""
    g = arb(guess)
    for _ in range(8):
        at = turn(line, g, eta.mid(), period)
        g = (g + (at.end - g) / (1 - at.by_g)).mid()
    ball = _around(g)
    at, over = turn(line, g, eta, period), turn(line, ball, eta, period)
    image = g + (at.end - g) / (1 - over.by_g)
    _inside(image, ball)
    return turn(line, image, eta, period)


def enclose_bifurcation(
    line: Line, guess: float, eta_guess: float, period: int, multiplier: int
) -> tuple[arb, Turn]:
    """The one pair of a cycle's point and a learning rate at which the multiplier is exactly the given one."""
    g, eta = arb(guess), arb(eta_guess)

    def newton(at: Turn, over: Turn) -> tuple[arb, arb]:
        jacobian = arb_mat([[over.by_g - 1, over.by_eta], [over.by_gg, over.by_both]])
        move = jacobian.solve(arb_mat([[at.end - g], [at.by_g - multiplier]]))
        return g - move[0, 0], eta - move[1, 0]

    for _ in range(8):
        at = turn(line, g, eta, period)
        g, eta = (value.mid() for value in newton(at, at))
    balls = _around(g), _around(eta)
    image = newton(turn(line, g, eta, period), turn(line, *balls, period))
    for part, ball in zip(image, balls, strict=True):
        _inside(part, ball)
    return image[1], turn(line, *image, period)
