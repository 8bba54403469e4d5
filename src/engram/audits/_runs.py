"""Batches of runs by engram's own dynamics: the account that statements are compared with.

Every function takes arrays of parameters, one entry per run, and returns one row per run. Shapes are
shared between checks, since compilation is most of the work.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from engram._precision import in_double
from engram._programs import host_program
from engram.dynamics import GradientDescent, GradientFlow, Status, run
from engram.particles import MarginSystem, ParticleSystem
from engram.problem import Problem


def steps_to(end: int, *, dense: int = 128, sparse: int = 24) -> np.ndarray:
    """Every step at first, then log-spaced ones."""
    if end <= dense:
        return np.arange(end + 1)
    later = np.geomspace(dense + 1, end, sparse).round().astype(int)
    return np.unique(np.concatenate([np.arange(dense + 1), later]))


def _pair(correlation: Any, p1: Any, contrast: Any, start: Any) -> tuple[Any, ...]:
    """Two tokens of given correlation, with outputs at squared distance `contrast`."""
    a, p, c = (jnp.asarray(value, float) for value in (correlation, p1, contrast))
    second = jnp.stack([a, jnp.sqrt((1 - a) * (1 + a))])
    inputs = jnp.stack([jnp.array([1.0, 0.0]), second])
    outputs, probs = jnp.sqrt(c / 2) * jnp.eye(2), jnp.stack([p, 1 - p])
    return _moving_margins(Problem(inputs, outputs, probs, np.arange(2)), start)


def _token(rate: Any, start: Any) -> tuple[Any, ...]:
    """One token and two classes, whose margin moves at the given rate."""
    outputs = jnp.sqrt(jnp.asarray(rate, float) / 2) * jnp.eye(2)
    problem = Problem(np.eye(1, 2), outputs, np.ones(1), np.zeros(1, int))
    return _moving_margins(problem, start[None])


def _moving_margins(problem: Problem, margins: Any) -> tuple[Any, ...]:
    """A system, its state with the given margins, and what to record of a state."""
    system = MarginSystem(problem)
    state = dataclasses.replace(system.start(), margins=margins)
    return system, state, lambda state: state.margins


def _classes(rate: Any, norms: Any, start: Any) -> tuple[Any, ...]:
    """One token and orthogonal outputs of the given norms; its target is the first."""
    norms = jnp.asarray(norms, float)
    inputs = jnp.sqrt(jnp.asarray(rate, float)) * jnp.eye(1, len(norms))
    outputs = norms[:, None] * jnp.eye(len(norms))
    system = ParticleSystem(Problem(inputs, outputs, np.ones(1), np.zeros(1, int)))
    state = dataclasses.replace(system.start(), scores=start[None, :])
    return system, state, lambda state: state.scores


def _memory(inputs: Any, outputs: Any, probs: Any, labels: Any, start: Any) -> tuple[Any, ...]:
    """Any problem, as particles with the given scores."""
    system = ParticleSystem(Problem(inputs, outputs, probs, labels))
    state = dataclasses.replace(system.start(), scores=start)
    return system, state, lambda state: state.scores


def _of_one_shape(problems: Any, weights: Any) -> tuple[np.ndarray, ...]:
    """The parameters of `_memory` for problems of one shape and the W that each starts from."""
    stack = lambda name: np.stack([np.asarray(getattr(problem, name)) for problem in problems])
    inputs, outputs = stack("inputs"), stack("outputs")
    scores = inputs @ np.swapaxes(weights, 1, 2) @ np.swapaxes(outputs, 1, 2)
    return inputs, outputs, stack("probs"), stack("labels"), scores


def _of_one_token(rate: Any, norms: Any, start: Any) -> tuple[np.ndarray, ...]:
    """The parameters of `_memory` for one token (its target first) and orthogonal outputs of these norms."""
    runs, M = start.shape
    inputs = np.sqrt(rate)[:, None, None] * np.eye(1, M)
    outputs = np.broadcast_to(norms, start.shape)[:, :, None] * np.eye(M)
    return inputs, outputs, np.ones((runs, 1)), np.zeros((runs, 1)), start[:, None, :]


_NEVER = -1e9  # the score of a class whose probability is zero, to rounding and for ever


def _filled(params: tuple[np.ndarray, ...], N: int, M: int, d: int) -> tuple[np.ndarray, ...]:
    """Problems with tokens and classes that do not occur, so that one program serves many shapes."""
    inputs, outputs, probs, labels, start = params
    N, M = max(N, inputs.shape[1]), max(M, outputs.shape[1])
    d = max(d, inputs.shape[2])
    fill = lambda values, *shape, by=0.0: np.pad(
        values,
        [(0, 0), *((0, n - had) for n, had in zip(shape, values.shape[1:], strict=True))],
        constant_values=by,
    )
    start = fill(fill(start, start.shape[1], M, by=_NEVER), N, M)
    # As a problem has them: another type would be another program.
    labels = fill(labels, N).astype(np.int32)
    return fill(inputs, N, d), fill(outputs, M, d), fill(probs, N), labels, start


@host_program
def _descents(make: Any, params: Any, learning_rates: Any, at: Any, last: int) -> Any:
    """One descent per entry of the parameters, from which `make` makes a system and its start."""

    def one(eta, *params):
        system, state, seen = make(*params)
        now = lambda system, dynamics, carry: seen(dynamics.state_of(carry.inner))
        return run(system, GradientDescent(eta, last), state, at=at, record=now).records

    return jax.vmap(one)(learning_rates, *params)


@host_program
def _compiled_flows(make: Any, params: Any, times: Any) -> Any:
    def one(*params):
        system, state, seen = make(*params)
        flow = GradientFlow(times, solver="explicit")
        path = run(system, flow, state, at=times, record=seen)
        return jnp.where(path.status == Status.COMPLETED, path.records, jnp.nan)

    return jax.vmap(one)(*params)


# Flows are costly to compile: every batch has this shape, or a larger one.
_PROBLEM = (4, 4, 5)  # tokens, classes and dimensions
_LANES = 16
_TIMES = 50


def _flows(make: Any, params: Any, times: Any) -> Any:
    """One flow per entry of the parameters, in batches; the last entry is repeated up to a full one."""
    count, shown = len(params[0]), len(times)
    # Those beyond the last are close to it, and left out.
    more = times[-1] * (1 + 1e-6 * np.arange(1, 1 + max(0, _TIMES - shown)))
    times = np.concatenate([times, more])
    rows = np.minimum(np.arange(count + -count % _LANES), count - 1).reshape(-1, _LANES)
    filled = [tuple(np.asarray(values)[batch] for values in params) for batch in rows]
    flows = [_compiled_flows(make, batch, times)[:, :shown] for batch in filled]
    return np.concatenate(flows)[:count]


@in_double
def descend_pairs(
    correlation: Any, p1: Any, contrast: Any, learning_rate: Any, at: Any, start: Any = None
) -> Any:
    """Both margins of two tokens under descent, shape (runs, steps, 2); from zero by default."""
    *pairs, eta = np.broadcast_arrays(correlation, p1, contrast, learning_rate)
    start = np.zeros((len(eta), 2)) if start is None else start
    return _descents(_pair, (*pairs, start), eta, np.asarray(at), int(at[-1]))


@in_double
def flow_pairs(
    correlation: Any, p1: Any, contrast: Any, times: Any, start: Any = ((0.0, 0.0),)
) -> Any:
    """Both margins of two tokens under gradient flow, shape (runs, times, 2); from zero by default."""
    pairs = np.broadcast_arrays(correlation, p1, contrast)
    return _flows(_pair, (*pairs, np.broadcast_to(start, (len(pairs[0]), 2))), times)


@in_double
def descend_token(rate: Any, learning_rate: Any, at: Any, start: Any = 0.0) -> Any:
    """The margin of one token under descent, shape (runs, steps)."""
    rate, eta, start = np.broadcast_arrays(np.asarray(rate, float), learning_rate, start)
    return _descents(_token, (rate, start), eta, np.asarray(at), int(at[-1]))[..., 0]


def flow_token(rate: Any, times: Any, start: Any = 0.0) -> Any:
    """The margin of one token under gradient flow, shape (runs, times): one of two that do not meet."""
    rate, start = np.broadcast_arrays(np.asarray(rate, float), start)
    return flow_pairs(0.0, 0.5, 2 * rate, times, np.stack([start, start], 1))[..., 0]


@in_double
def descend_classes(rate: Any, learning_rate: Any, start: Any, at: Any, norms: Any = 1.0) -> Any:
    """The scores of one token under descent, orthogonal outputs, shape (runs, steps, M)."""
    rate, eta = np.broadcast_arrays(np.asarray(rate, float), learning_rate)
    norms = np.broadcast_to(norms, start.shape)
    return _descents(_classes, (rate, norms, start), eta, np.asarray(at), int(at[-1]))[:, :, 0]


@in_double
def flow_classes(rate: Any, start: Any, times: Any, norms: Any = 1.0) -> Any:
    """The scores of one token under gradient flow, orthogonal outputs, shape (runs, times, M)."""
    rate = np.broadcast_to(np.asarray(rate, float), start.shape[:1])
    tokens = _filled(_of_one_token(rate, norms, start), *_PROBLEM)
    return _flows(_memory, tokens, times)[:, :, 0, : start.shape[1]]


@in_double
def flow_problems(problems: Any, weights: Any, times: Any) -> Any:
    """The scores of problems of one shape under gradient flow, shape (runs, times, N, M)."""
    N, M = problems[0].num_tokens, problems[0].num_classes
    params = _filled(_of_one_shape(problems, weights), *_PROBLEM)
    return _flows(_memory, params, times)[:, :, :N, :M]


@in_double
def descend_problems(problems: Any, weights: Any, learning_rate: Any, at: Any) -> Any:
    """The scores of problems of one shape under descent, shape (runs, steps, N, M)."""
    return _descents(
        _memory, _of_one_shape(problems, weights), learning_rate, np.asarray(at), int(at[-1])
    )
