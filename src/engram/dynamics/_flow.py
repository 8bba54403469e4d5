"""Gradient flow, by adaptive solvers with error control."""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from engram._checks import (
    InputError,
    check_choice,
    check_count,
    check_floats,
    check_scalar,
    is_traced,
)
from engram._types import Array, ArrayLike, PyTree, Scalar
from engram.dynamics._adaptive import explicit, implicit, solve
from engram.dynamics._base import AbstractFlow
from engram.dynamics._trajectory import Status, Trajectory
from engram.system import AbstractSystem


class GradientFlow(AbstractFlow):
    r"""Gradient flow, $dW = -\nabla L(W)\,dt$.

    Learnt margins grow like $\log t$, so the flow is integrated in $s = \log(1 + t)$, where an explicit
    solver of order 8 needs some tens of steps to reach $t = 10^{12}$. Where a minimiser exists, it
    ends there: once nothing moves within the tolerance, later times have the same state. Where the problem
    is stiff (nearly parallel tokens), an implicit solver takes over, with more steps.

    Args:
        times: When to record, increasing, from zero on.
        end: Instead of `times`: the last of `num_times` times, from zero on.
        num_times: How many, with `end`.
        spacing: With `end`: "linear", or "log" for times that are even in log(1 + t).
        rtol: Relative tolerance of each step.
        atol: Absolute tolerance of each step.
        solver: "explicit", "implicit", or "auto": the implicit one if the explicit one gets stuck.
        max_steps: The most steps that the solver may take.

    Paper: eq:GF.
    """

    times: Any
    rtol: Any
    atol: Any
    solver: str = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)

    def __init__(
        self,
        times: ArrayLike | None = None,
        *,
        end: Scalar | None = None,
        num_times: int = 200,
        spacing: Literal["linear", "log"] = "linear",
        rtol: Scalar = 1e-11,
        atol: Scalar = 1e-13,
        solver: Literal["auto", "explicit", "implicit"] = "auto",
        max_steps: int = 16384,
    ):
        check_choice("solver", solver, ("auto", "explicit", "implicit"))
        self.times = read_times(times, end, num_times, spacing)
        self.rtol, self.atol = _read_tolerance("rtol", rtol), _read_tolerance("atol", atol)
        self.solver = solver
        if check_count("max_steps", max_steps) >= 2**31:
            raise InputError(f"`max_steps` must be below 2**31, got {max_steps}. Choose fewer.")
        self.max_steps = int(max_steps)

    def _unshown(self) -> tuple[str, ...]:
        return ("end",)

    def settings(self) -> dict[str, Any]:
        return {"kind": "flow"} | vars(self)

    def solve(
        self, system: AbstractSystem, state: PyTree, times: Array, record: Callable[..., PyTree]
    ) -> Trajectory:
        first, *others = self.attempts()
        path = _solve(system, first, state, times, record)
        if not others:
            return path
        implicit = lambda: _solve(system, others[0], state, times, record)
        return jax.lax.cond(path.status == Status.STEP_LIMIT, implicit, lambda: path)

    def attempts(self) -> list["GradientFlow"]:  # pyright: ignore
        """The solvers of "auto" by themselves, so that the second compiles only if the first gets stuck."""
        if self.solver != "auto":
            return [self]
        few = min(EXPLICIT_STEPS, self.max_steps)
        own: Any = {"times": self.times, "rtol": self.rtol, "atol": self.atol}
        tries: Any = (("explicit", few), ("implicit", self.max_steps))
        return [GradientFlow(**own, solver=solver, max_steps=most) for solver, most in tries]


def _read_tolerance(name: str, value: Any) -> np.ndarray:
    if not 0 < check_scalar(name, value) < np.inf:
        raise InputError(f"`{name}` must be positive and finite, got {value}. Try 1e-9.")
    return np.asarray(value, float)


def read_times(times: Any, end: Any, num_times: int, spacing: str) -> Any:
    """The times that were given; or `num_times` from zero to `end`, evenly in t or in log(1 + t)."""
    check_choice("spacing", spacing, ("linear", "log"))
    if (end is None) == (times is None):
        raise InputError("`times` or `end` must be given, and not both: when a flow is recorded.")
    if end is not None:
        end, num = check_scalar("end", end), check_count("num_times", num_times, least=2)
        is_log = spacing == "log"
        times = np.expm1(np.linspace(0, np.log1p(end), num)) if is_log else np.linspace(0, end, num)
    values = check_floats("times", times, ndim=1, axes="(T,)")
    if is_traced(values):
        return values
    if values[0] < 0 or (np.diff(values) < 0).any():
        raise InputError(
            f"`times` must increase from zero on, got {values[:4]}... Sort them with `np.sort`."
        )
    return values


# Beyond this many steps the explicit solver is stuck in a stiff valley.
EXPLICIT_STEPS = 4096


def _solve(
    system: AbstractSystem, flow: GradientFlow, state: PyTree, times: Array, record: Any
) -> Trajectory:
    if flow.solver == "explicit":
        method, rate, clock, past = explicit(), jnp.exp, jnp.log1p, jnp.exp
    else:
        method = implicit(flow.rtol, flow.atol)
        rate, clock, past = jnp.ones_like, lambda t: t, lambda t: 1 + t
    times = jnp.asarray(times)
    x, shaped = ravel_pytree(state)
    grad = lambda x: system.grad(shaped(x))
    first = system.speed(grad(x))
    # Samples so rare that their pull is below the tolerance, and yet matters before the end.
    law, end = jnp.asarray(system.law), times[-1]
    hidden = ((law > 0) & (law <= 1e3 * flow.rtol) & (law * end > 1e-10)).any()

    def velocity(s: jax.Array, x: jax.Array) -> jax.Array:
        return -rate(s) * ravel_pytree(grad(x))[0]

    def is_steady(s: jax.Array, x: jax.Array, velocity: jax.Array) -> jax.Array:
        # At a minimiser the gradient is as small as the tolerance, and so is time times it (what is
        # left to go, since the gradient decays exponentially). Far out in a separable problem the
        # gradient is as small, but time times it is not.
        g = -velocity / rate(s)
        speed = system.speed(shaped(g))
        small = (speed <= 10 * flow.rtol * first) & (past(s) * speed <= 100 * flow.rtol)
        # A rare token moves as slowly, but goes on: along its direction the curvature is tiny, and
        # its time has not come yet. At a minimiser what is left of the gradient has had its time.
        curvature = system.speed(jax.jvp(grad, (x,), (g,))[1])
        return small & ~hidden & (past(s) * curvature >= 10 * speed)

    point, records, reached = solve(
        method, velocity, x, clock(times), lambda x: record(shaped(x)), is_steady,
        rtol=flow.rtol, atol=flow.atol, max_steps=flow.max_steps,
    )  # fmt: skip
    done = point.status == Status.COMPLETED
    return Trajectory(
        times=times,
        records=records,
        folded=None,
        final=shaped(point.x),
        status=point.status,
        stopped_at=jnp.where(done, end, jnp.nan),
        num_recorded=reached.sum(),
        num_steps=point.steps,
    )
