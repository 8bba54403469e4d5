r"""The dynamics in ball arithmetic: every number is an interval that surely contains the exact one."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flint import arb, arb_series, ctx, fmpq

DIGITS = 60


@contextmanager
def precision(digits: int = DIGITS) -> Iterator[None]:
    """Compute with so many decimal digits, in a block or as a decorator."""
    before, ctx.dps = ctx.prec, digits
    try:
        yield
    finally:
        ctx.prec = before


def dot(a: Sequence, b: Sequence) -> fmpq | arb:
    """An inner product, exact for rational entries."""
    return sum((x * y for x, y in zip(a, b, strict=True)), fmpq(0))


def rationals(*rows: Sequence[str]) -> list[list[fmpq]]:
    """Vectors of exact fractions, written as in ["3/5", "4/5"]."""
    return [[fmpq(*map(int, entry.split("/"))) for entry in row] for row in rows]


def sigma(x: arb) -> arb:
    r"""$1/(1 + e^{x})$: the mass left on the wrong class at margin x."""
    return 1 / (1 + x.exp())


def softplus(x: arb) -> arb:
    return x.exp().log1p()


def descent_margins(x: fmpq, steps: int, start: fmpq | int = 0) -> list[arb]:
    r"""$m_0, \dots, m_T$ of $m \leftarrow m + x/(1 + e^m)$, with $x = \eta c$."""
    path = [arb(start)]
    for _ in range(steps):
        path.append(path[-1] + arb(x) * sigma(path[-1]))
    return path


def first_step(alpha: fmpq, p1: fmpq, contrast: int, eta: int) -> tuple[fmpq, fmpq]:
    """The two margins after one step from zero, as exact fractions: every class has probability 1/2."""
    push1, push2 = p1 / 2, (1 - p1) / 2
    return contrast * eta * (push1 - alpha * push2), contrast * eta * (push2 - alpha * push1)


def pair_descent(
    alpha: fmpq | int, p1: fmpq, contrast: fmpq | int, eta: fmpq | int, steps: int
) -> list[tuple[arb, arb]]:
    """The two margins of eq:two-descent from zero, step by step."""
    a, p, step = arb(alpha), arb(p1), arb(contrast) * arb(eta)
    path = [(arb(0), arb(0))]
    for _ in range(steps):
        m1, m2 = path[-1]
        push1, push2 = p * sigma(m1), (1 - p) * sigma(m2)
        path.append((m1 + step * (push1 - a * push2), m2 + step * (push2 - a * push1)))
    return path


def isolate(fn: Callable[[arb], arb], low: arb | fmpq | int, high: arb | fmpq | int) -> arb:
    """A ball around the root of a continuous function whose sign changes between two points.

    Bisection: each halving keeps the half over which the sign surely changes.
    """
    low, high = arb(low).mid(), arb(high).mid()
    rising = bool(fn(low) < 0)
    if not (rising and fn(high) > 0) and not (fn(low) > 0 and fn(high) < 0):
        raise ArithmeticError("the sign does not change between the two points")
    for _ in range(int(5 * ctx.dps)):
        for share in (2, 3):  # the root may be the middle itself: then look beside it
            middle = (low + (high - low) / share).mid()
            value = fn(middle)
            if value < 0 or value > 0:
                break
        else:
            break
        if bool(value < 0) == rising:
            low = middle
        else:
            high = middle
    return low.union(high)


def inverse_g(s: arb | fmpq | int) -> arb:
    r"""The $m$ with $m + e^m = s$, enclosed."""
    s = arb(s)
    # The root lies above s - e^s for s < 1, above 0 for s >= 1, and below log s for s > 1.
    low = arb(-1) if s >= 1 else s - s.exp() - 1
    high = (s.log() if s > 1 else s) + 1
    return isolate(lambda m: m + m.exp() - s, low, high)


def derivatives(fn: Callable, point: arb, order: int) -> list[arb]:
    """Enclosures of a function's derivatives 0..order over a ball."""
    series = fn(arb_series([point, 1], prec=order + 1))
    return [series[n] * math.factorial(n) for n in range(order + 1)]


def maximum(fn: Callable, low: fmpq, high: fmpq, peak: tuple[fmpq, fmpq]) -> arb:
    """An enclosure of the maximum of a smooth function over [low, high].

    Over `peak` the second derivative is surely negative and the first changes sign, so the maximum
    there is at its one zero; elsewhere subdivision shows the function to stay below.
    """
    left, right = map(arb, peak)
    _halve_until(left, right, lambda piece: derivatives(fn, piece, 2)[2] < 0)
    where = isolate(lambda m: derivatives(fn, m, 1)[1], left, right)
    top = derivatives(fn, where, 0)[0]
    for start, end in ((arb(low), left), (right, arb(high))):
        _halve_until(start, end, lambda piece: _over(fn, piece) < top)
    return top


def _over(fn: Callable, piece: arb) -> arb:
    """The range of a function over a ball, by the mean value theorem."""
    middle = piece.mid()
    return derivatives(fn, middle, 0)[0] + derivatives(fn, piece, 1)[1] * (piece - middle)


def _halve_until(low: arb, high: arb, is_shown: Callable[[arb], bool], depth: int = 40) -> None:
    """Show something over [low, high] by showing it over pieces; an error if 40 halvings do not."""
    try:
        if is_shown(low.union(high)):
            return
    except ValueError:  # a division by a ball around zero: the piece is too wide
        pass
    if depth == 0:
        raise ArithmeticError(f"could not be shown around {low}")
    middle = ((low + high) / 2).mid()
    _halve_until(low, middle, is_shown, depth - 1)
    _halve_until(middle, high, is_shown, depth - 1)
