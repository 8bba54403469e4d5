"""Differential equations by one-step methods whose step length follows their error.

One loop for explicit and implicit methods, in few operations: what a flow costs at first is compiling it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from engram._types import PyTree
from engram.dynamics._trajectory import Status

Field = Callable[[Array, Array], Array]  # the velocity at a time and a state


class Method(NamedTuple):
    """A one-step method: `step(field, s, x, velocity, h)` is the next state and an estimate of its error."""

    step: Callable[[Field, Array, Array, Array, Array], tuple[Array, Array]]
    order: int


class Point(NamedTuple):
    """Where a path is, and how to go on; steps that were rejected count, too."""

    s: Array
    x: Array
    velocity: Array
    size: Array
    steps: Array
    status: Array


def solve(
    method: Method,
    field: Field,
    x: Array,
    times: Array,
    record: Callable[[Array], PyTree],
    is_steady: Callable[[Array, Array, Array], Array],
    *,
    rtol: Any,
    atol: Any,
    max_steps: int,
) -> tuple[Point, PyTree, Array]:
    """Follow dx/ds = field(s, x) from s = 0; steps end at the times, which is more exact than interpolating.

    Once `is_steady(s, x, velocity)`, later times have the same state.

    Returns:
        The last point, the records, and whether each was reached.
    """

    def error_size(error: Array, *states: Array) -> Array:
        scale = atol + rtol * jnp.max(jnp.abs(jnp.stack(states)), axis=0)
        size = jnp.sqrt(jnp.mean(jnp.square(error / scale)))
        return jnp.where(jnp.isnan(size), jnp.inf, size)

    def step(point: Point, until: Array) -> Point:
        s, x, velocity, size, steps, status = point
        is_last = 1.01 * size >= until - s
        h = jnp.where(is_last, until - s, size)
        ahead, error = method.step(field, s, x, velocity, h)
        ratio = error_size(error, x, ahead)
        is_kept = ratio < 1
        factor = 0.9 * ratio ** (-1 / method.order)
        grown = jnp.maximum(size, h * jnp.clip(factor, 1.0, 10.0))
        size = jnp.where(is_kept, grown, h * jnp.clip(factor, 0.2, 0.9))
        x = jnp.where(is_kept, ahead, x)
        is_stuck = ~(s + size > s)  # only where the field is not finite
        s = jnp.where(is_kept, jnp.where(is_last, until, s + h), s)
        velocity = field(s, x)
        status = jnp.where(is_steady(s, x, velocity), int(Status.COMPLETED), status)
        status = jnp.where(is_stuck, int(Status.NOT_FINITE), status)
        return Point(s, x, velocity, size, steps + 1, status)

    def to(point: Point, until: Array) -> tuple[Point, Any]:
        goes_on = lambda p: (p.s < until) & (p.status == Status.RUNNING) & (p.steps < max_steps)
        point = jax.lax.while_loop(goes_on, lambda p: step(p, until), point)
        is_reached = (point.s >= until) | (point.status == Status.COMPLETED)
        blank = lambda x: (
            jnp.where(is_reached, x, jnp.nan) if jnp.issubdtype(x.dtype, jnp.floating) else x
        )
        return point, (jax.tree.map(blank, record(point.x)), is_reached)

    zero = jnp.zeros((), times.dtype)
    velocity = field(zero, x)
    # The first step, after Hairer, Norsett and Wanner (Section II.4), without their trial step.
    far, fast = error_size(x, x), error_size(velocity, x)
    is_slow = (far < 1e-5) | (fast < 1e-5)
    size = jnp.where(is_slow, 1e-4, far / jnp.where(is_slow, 1.0, fast))
    size = jnp.minimum(size, (0.01 / jnp.maximum(fast, 1e-15)) ** (1 / method.order))
    none = jnp.zeros((), int)
    point = Point(zero, x, velocity, size.astype(times.dtype), none, none + int(Status.RUNNING))
    point, (records, reached) = jax.lax.scan(to, point, times)
    status = jnp.where(reached.all(), int(Status.COMPLETED), int(Status.STEP_LIMIT))
    status = jnp.where(point.status == Status.NOT_FINITE, point.status, status)
    return point._replace(status=status), records, reached


def explicit() -> Method:
    """Of order 8, with an error of order 7 (Prince and Dormand, 1981): twelve new velocities a step."""
    A, b, error, c = _TABLEAU

    def step(field: Field, s: Array, x: Array, velocity: Array, h: Array) -> tuple[Array, Array]:
        a, at, last, gap = (jnp.asarray(part, x.dtype) for part in (A, c, b, error))

        def stage(i: Array, slopes: Array) -> Array:
            return slopes.at[i].set(field(s + at[i] * h, x + h * (a[i] @ slopes)))

        slopes = jnp.zeros((len(c), len(x)), x.dtype).at[0].set(velocity)
        slopes = jax.lax.fori_loop(1, len(c), stage, slopes)  # one velocity to compile, not twelve
        return x + h * (last @ slopes), h * (gap @ slopes)

    return Method(step, 8)


def implicit(rtol: Any, atol: Any) -> Method:
    """Kvaerno's method of order 5, for stiff equations: a step can be as long as the time itself."""
    import diffrax  # a quarter of a second that only stiff flows need

    solver = diffrax.Kvaerno5(root_finder=diffrax.VeryChord(rtol, atol))

    def step(field: Field, s: Array, x: Array, velocity: Array, h: Array) -> tuple[Array, Array]:
        del velocity
        term: Any = diffrax.ODETerm(lambda s, x, _: field(jnp.asarray(s), x))
        first, last = cast(tuple[Any, Any], (s, s + h))
        begun = solver.init(term, first, last, x, None)
        ahead, error, *_ = solver.step(term, first, last, x, None, begun, made_jump=False)
        return ahead, jnp.asarray(error)

    return Method(step, 5)


_C = [0, 1 / 18, 1 / 12, 1 / 8, 5 / 16, 3 / 8, 59 / 400, 93 / 200, 5490023248 / 9719169821, 13 / 20,
      1201146811 / 1299019798, 1, 1]  # fmt: skip
_ROWS = [
    [],
    [1 / 18],
    [1 / 48, 1 / 16],
    [1 / 32, 0, 3 / 32],
    [5 / 16, 0, -75 / 64, 75 / 64],
    [3 / 80, 0, 0, 3 / 16, 3 / 20],
    [29443841 / 614563906, 0, 0, 77736538 / 692538347, -28693883 / 1125000000, 23124283 / 1800000000],
    [16016141 / 946692911, 0, 0, 61564180 / 158732637, 22789713 / 633445777, 545815736 / 2771057229,
     -180193667 / 1043307555],
    [39632708 / 573591083, 0, 0, -433636366 / 683701615, -421739975 / 2616292301, 100302831 / 723423059,
     790204164 / 839813087, 800635310 / 3783071287],
    [246121993 / 1340847787, 0, 0, -37695042795 / 15268766246, -309121744 / 1061227803, -12992083 / 490766935,
     6005943493 / 2108947869, 393006217 / 1396673457, 123872331 / 1001029789],
    [-1028468189 / 846180014, 0, 0, 8478235783 / 508512852, 1311729495 / 1432422823,
     -10304129995 / 1701304382, -48777925059 / 3047939560, 15336726248 / 1032824649,
     -45442868181 / 3398467696, 3065993473 / 597172653],
    [185892177 / 718116043, 0, 0, -3185094517 / 667107341, -477755414 / 1098053517, -703635378 / 230739211,
     5731566787 / 1027545527, 5232866602 / 850066563, -4093664535 / 808688257, 3962137247 / 1805957418,
     65686358 / 487910083],
    [403863854 / 491063109, 0, 0, -5068492393 / 434740067, -411421997 / 543043805, 652783627 / 914296604,
     11173962825 / 925320556, -13158990841 / 6184727034, 3936647629 / 1978049680, -160528059 / 685178525,
     248638103 / 1413531060, 0],
]  # fmt: skip
_EIGHTH = [14005451 / 335480064, 0, 0, 0, 0, -59238493 / 1068277825, 181606767 / 758867731,
           561292985 / 797845732, -1041891430 / 1371343529, 760417239 / 1151165299, 118820643 / 751138087,
           -528747749 / 2220607170, 1 / 4]  # fmt: skip
_SEVENTH = [13451932 / 455176623, 0, 0, 0, 0, -808719846 / 976000145, 1757004468 / 5645159321,
            656045339 / 265891186, -3867574721 / 1518517206, 465885868 / 322736535, 53011238 / 667516719,
            2 / 45, 0]  # fmt: skip
_TABLEAU = (
    np.array([row + [0] * (13 - len(row)) for row in _ROWS]),
    np.array(_EIGHTH),
    np.array(_EIGHTH) - np.array(_SEVENTH),
    np.array(_C),
)
