"""Gradient flow, by adaptive solvers with error control."""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import (
    InputError,
    check_choice,
    check_count,
    check_floats,
    check_scalar,
    is_traced,
)
from engram._types import Array, ArrayLike, PyTree, Scalar
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
    import diffrax  # half a second that only flows need

    def velocity(s, x, _):
        return jax.tree.map(lambda g: -rate(s) * g, system.grad(x))

    if flow.solver == "explicit":
        solver, rate, clock, past = diffrax.Dopri8(), jnp.exp, jnp.log1p, jnp.exp
    else:  # an implicit step can be as long as the time itself
        solver, rate, clock, past = diffrax.Kvaerno5(), jnp.ones_like, lambda t: t, lambda t: 1 + t
    s = clock(jnp.asarray(times))
    controller = diffrax.PIDController(rtol=flow.rtol, atol=flow.atol)
    first = system.speed(system.grad(state))
    # Samples so rare that their pull is below the tolerance, and yet matters before the end.
    law, end = jnp.asarray(system.law), jnp.asarray(times)[-1]
    hidden = ((law > 0) & (law <= 1e3 * flow.rtol) & (law * end > 1e-10)).any()

    def is_steady(s, x, args, **_):
        # At a minimiser the gradient is as small as the tolerance, and so is time times it (what is
        # left to go, since the gradient decays exponentially). Far out in a separable problem the
        # gradient is as small, but time times it is not.
        g = system.grad(x)
        speed = system.speed(g)
        small = (speed <= 10 * flow.rtol * first) & (past(s) * speed <= 100 * flow.rtol)
        # A rare token moves as slowly, but goes on: along its direction the curvature is tiny, and
        # its time has not come yet. At a minimiser what is left of the gradient has had its time.
        curvature = system.speed(jax.jvp(system.grad, (x,), (g,))[1])
        return small & ~hidden & (past(s) * curvature >= 10 * speed)

    # Steps end at the recorded times: interpolation would be less exact than the solver.
    controller = diffrax.ClipStepSizeController(controller, step_ts=s)
    recorded = diffrax.SubSaveAt(ts=s, fn=lambda s, x, args: record(x))
    save = diffrax.SaveAt(subs=[recorded, diffrax.SubSaveAt(t1=True)])
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        solver,
        t0=0.0,
        t1=jnp.maximum(s[-1], jnp.finfo(s.dtype).tiny),
        dt0=None,
        y0=state,
        saveat=save,
        stepsize_controller=controller,
        max_steps=flow.max_steps,
        throw=False,
        event=diffrax.Event(is_steady),
    )
    records, last = solution.ys
    final = jax.tree.map(lambda leaf: leaf[-1], last)
    steady = solution.result == diffrax.RESULTS.event_occurred
    done = (solution.result == diffrax.RESULTS.successful) | steady
    saved = jnp.isfinite(solution.ts[0])
    kept = lambda rows: jnp.expand_dims(saved | ~steady, tuple(range(1, rows.ndim)))
    fill = lambda rows, end: jnp.where(kept(rows), rows, end)
    records = jax.tree.map(fill, records, record(final))
    out_of_steps = solution.result == diffrax.RESULTS.max_steps_reached
    finite = jnp.all(jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(final)]))
    status = jnp.where(done & finite, int(Status.COMPLETED), int(Status.NOT_FINITE))
    status = jnp.where(out_of_steps, int(Status.STEP_LIMIT), status)
    reached = jnp.where(done, len(s), saved.sum())
    return Trajectory(
        times=jnp.asarray(times),
        records=records,
        folded=None,
        final=final,
        status=status,
        stopped_at=jnp.where(done, times[-1], jnp.nan),
        num_recorded=reached,
        num_steps=solution.stats["num_steps"],
    )
