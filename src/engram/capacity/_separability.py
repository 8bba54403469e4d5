"""Whether some W recalls everything: a witness by descent, or a linear program; a certificate either way."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError, check_scalar
from engram._precision import in_double
from engram._types import Weights
from engram.capacity._constraints import Constraints, constraints, linear_program, unit_rows
from engram.problem import Problem


class Separation(NamedTuple):
    r"""Whether all tokens can be recalled at once, and why.

    Args:
        is_separable: Whether some W gives every token that occurs a positive margin. None if that was not
            decided within the time limit.
        weights: Such a W, of largest entry 1 in the span's coordinates; None if there is none.
        margin: Its smallest margin: the larger, the surer. Zero if there is none.
        multipliers: If not separable, $\lambda \ge 0$ of sum 1, shape (N, M), with
            $\sum \lambda_{xy} (u_{f^*(x)} - u_y) \otimes e_x = 0$: no W can make all those margins positive.
        residual: How far that sum is from zero, the sum of its absolute entries.
    """

    is_separable: bool | None
    weights: Weights | None
    margin: float
    multipliers: np.ndarray | None
    residual: float


# Each margin is measured in units of its own row: below this a positive one counts as zero.
_TOLERANCE = 1e-9
_AT_ONCE = 100_000  # entries up to which the whole linear program is solved
_DESCENT_STEPS = 3000
_IN_ONE = 100  # steps of it between two looks at the clock


def separate(
    problem: Problem,
    *,
    time_limit: float | None = 60.0,
    progress: Callable[[int, int], None] | None = None,
) -> Separation:
    r"""Decide separability, with a witness or a refutation.

    $$\max t \quad\text{such that}\quad (u_{f^*(x)} - u_y)^\top W e_x \ge t,\ \|W\|_\infty \le 1,$$

    whose dual variables are the multipliers (Gordan's alternative). Small programs are solved by HiGHS. In
    large ones accelerated descent looks for a witness first (Ji, Srebro and Telgarsky 2021); if it finds
    none, the program is solved for a few of the margins, to which those that its solution violates are added.

    Args:
        problem: What is to be recalled.
        time_limit: When to give up on a large problem, in seconds. None waits for the answer.
        progress: Called with the margins that the linear program has, and with how many there are.

    Paper: Section 4; separability decides between its two regimes.
    """
    if time_limit is not None and not check_scalar("time_limit", time_limit) > 0:
        raise InputError(f"`time_limit` must be positive or None, got {time_limit!r}.")
    system = constraints(problem)
    count, n = system.is_wrong.sum(), system.left.shape[1] * system.right.shape[1]
    try:
        if count * n <= _AT_ONCE:
            is_separable, v, share = solve(system.rows)
            table = np.zeros(system.is_wrong.shape)
            table[system.is_wrong] = share
        else:
            deadline = np.inf if time_limit is None else time.monotonic() + time_limit
            is_separable, v, table = _solve_large(system, deadline, progress)
    except TimeoutError:
        return Separation(None, None, 0.0, None, 0.0)
    if is_separable:
        return Separation(True, system.weights(v), float(system.margins(v).min()), None, 0.0)
    multipliers = np.zeros((problem.num_tokens, problem.num_classes))
    multipliers[system.seen] = table
    return Separation(False, None, 0.0, multipliers, float(np.abs(system.combine(table)).sum()))


def is_separable(problem: Problem, *, time_limit: float | None = 60.0) -> bool:
    """Whether some W recalls every token that occurs, with a positive margin.

    A `TimeoutError` if that is not decided within the time limit, in seconds; None waits.

    Paper: Section 4.
    """
    decided = separate(problem, time_limit=time_limit).is_separable
    if decided is None:
        raise TimeoutError(
            f"separability was not decided within {time_limit:g} s. Raise `time_limit`, or pass None to wait."
        )
    return decided


def solve(rows: np.ndarray, deadline: float = np.inf) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether some v has rows @ v > 0, such a v, and the multipliers that refute it if there is none.

    By the largest t with rows @ v >= t, each row in units of its own length.
    """
    unit, length = unit_rows(rows)
    count, n = rows.shape
    if (length == 0).any():
        zero = length == 0  # a margin that is always zero refutes by itself
        return False, np.zeros(n), zero / zero.sum()
    program = linear_program(
        np.append(np.zeros(n), -1.0),
        deadline,
        A_ub=np.hstack([-unit, np.ones((count, 1))]),
        b_ub=np.zeros(count),
        bounds=[(-1.0, 1.0)] * n + [(None, None)],
    )
    share = np.maximum(-program.ineqlin.marginals, 0.0) / length
    share = share / max(share.sum(), np.finfo(float).tiny)
    return bool(-program.fun > _TOLERANCE), program.x[:n], share


def _solve_large(
    system: Constraints, deadline: float, progress: Callable[[int, int], None] | None
) -> tuple[bool, np.ndarray, np.ndarray]:
    """The same without ever holding all rows; multipliers as a table of tokens by classes."""
    zero = system.is_wrong & (system.lengths == 0)
    if zero.any():
        return False, np.zeros(0), zero / zero.sum()
    v = _descend(system, deadline)
    chosen, total = np.zeros_like(system.is_wrong), int(system.is_wrong.sum())
    while True:
        margins = system.margins(v) / system.lengths
        if margins.min() > _TOLERANCE:
            return True, v, np.zeros(0)
        # Of each token the margin that v violates most.
        rows = np.flatnonzero(margins.min(1) <= _TOLERANCE)
        chosen[rows, margins[rows].argmin(1)] = True
        if progress is not None:
            progress(int(chosen.sum()), total)
        is_separable, v, share = solve(system.rows_of(*np.nonzero(chosen)), deadline)
        if not is_separable:
            table = np.zeros(chosen.shape)
            table[chosen] = share
            return False, v, table


def _descend(system: Constraints, deadline: float) -> np.ndarray:
    """Entries of V, the largest 1, whose margins are all positive if accelerated descent gets there."""
    arrays = system.inputs, system.outputs, system.labels, system.lengths
    carry: Any = (0.0, *np.zeros((2, system.left.shape[1], system.right.shape[1])))
    for end in range(_IN_ONE, _DESCENT_STEPS + 1, _IN_ONE):
        carry = _stride(arrays, carry, float(end))
        if carry[0] < end or time.monotonic() > deadline:
            break
    v = np.asarray(carry[1])
    return v.ravel() / max(np.abs(v).max(), np.finfo(float).tiny)


@in_double
@jax.jit
def _stride(arrays: Any, carry: Any, end: Any) -> Any:
    """Steps up to `end`, or to the first V whose margins are all positive; compiled.

    BLAS would share these small products among threads, which costs ten times as much on a busy machine.
    """
    inputs, outputs, labels, lengths = arrays
    is_wrong = jax.nn.one_hot(labels, len(outputs)) == 0

    def margins(v: Any) -> Any:
        read = inputs @ v.T
        own = (read * outputs[labels]).sum(1, keepdims=True)
        return jnp.where(is_wrong, (own - read @ outputs.T) / lengths, jnp.inf)

    def is_left(carry: Any) -> Any:
        step, v, _ = carry
        return (step < end) & (margins(v).min() <= _TOLERANCE * jnp.abs(v).max())

    def move(carry: Any) -> Any:
        step, v, momentum = carry
        push = -jax.grad(lambda v: jax.nn.logsumexp(-margins(v)))(v)
        momentum = step / (step + 1) * (momentum + push)
        return step + 1, v + momentum + push, momentum

    return jax.lax.while_loop(is_left, move, carry)
