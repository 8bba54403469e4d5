"""Batches of runs by engram's own dynamics: the account that statements are compared with.

Every function takes arrays of parameters, one entry per run, and returns one row per run. Shapes are
shared between checks, since compilation is most of the work.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from engram._precision import in_double
from engram.dynamics import GradientDescent, GradientFlow, Status, run
from engram.particles import MarginSystem, ParticleSystem
from engram.problem import Problem


def steps_to(end: int, *, dense: int = 128, sparse: int = 24) -> np.ndarray:
    """Every step at first, then log-spaced ones."""
    if end <= dense:
        return np.arange(end + 1)
    later = np.geomspace(dense + 1, end, sparse).round().astype(int)
    return np.unique(np.concatenate([np.arange(dense + 1), later]))


def pair_of(correlation: Any, p1: Any, contrast: Any) -> Problem:
    """Two tokens of given correlation, with outputs at squared distance `contrast`."""
    a, p, c = (jnp.asarray(value, float) for value in (correlation, p1, contrast))
    second = jnp.stack([a, jnp.sqrt((1 - a) * (1 + a))])
    inputs = jnp.stack([jnp.array([1.0, 0.0]), second])
    return Problem(inputs, jnp.sqrt(c / 2) * jnp.eye(2), jnp.stack([p, 1 - p]), np.arange(2))


def token_of(rate: Any) -> Problem:
    """One token and two classes, whose margin moves at the given rate."""
    outputs = jnp.sqrt(jnp.asarray(rate, float) / 2) * jnp.eye(2)
    return Problem(np.eye(1, 2), outputs, np.ones(1), np.zeros(1, int))


def family_of(rate: Any, norms: Any) -> Problem:
    """One token and orthogonal outputs of the given norms; its target is the first."""
    norms = jnp.asarray(norms, float)
    inputs = jnp.sqrt(jnp.asarray(rate, float)) * jnp.eye(1, len(norms))
    return Problem(inputs, norms[:, None] * jnp.eye(len(norms)), np.ones(1), np.zeros(1, int))


def _margins_now(system: Any, dynamics: Any, carry: Any) -> Any:
    return dynamics.state_of(carry.inner).margins


def _scores_now(system: Any, dynamics: Any, carry: Any) -> Any:
    return dynamics.state_of(carry.inner).scores


def _descend(system: Any, state: Any, eta: Any, at: Any, last: int, record: Any) -> Any:
    return run(system, GradientDescent(eta, last), state, at=at, record=record).records


def _flow(system: Any, state: Any, times: Any, record: Any) -> Any:
    flow = GradientFlow(times, solver="explicit")
    path = run(system, flow, state, at=times, record=record)
    return jnp.where(path.status == Status.COMPLETED, path.records, jnp.nan)


@functools.partial(jax.jit, static_argnames="last")
def _descend_pairs(params: Any, at: Any, last: int) -> Any:
    def one(alpha, p1, contrast, eta, start):
        system = MarginSystem(pair_of(alpha, p1, contrast))
        state = _with_margins(system, start)
        return _descend(system, state, eta, at, last, _margins_now)

    return jax.vmap(one)(*params)


def _with_margins(system: MarginSystem, margins: Any) -> Any:
    state = system.start()
    return type(state)(margins, state.coefficients, state.kept)


@in_double
def descend_pairs(
    correlation: Any, p1: Any, contrast: Any, learning_rate: Any, at: Any, start: Any = None
) -> Any:
    """Both margins of two tokens under descent, shape (runs, steps, 2); from zero by default."""
    columns = np.broadcast_arrays(correlation, p1, contrast, learning_rate)
    start = np.zeros((len(columns[0]), 2)) if start is None else start
    return _descend_pairs((*map(jnp.asarray, columns), jnp.asarray(start)), at, int(at[-1]))


_LANES = 16  # flows are costly to compile: batches are filled up to a multiple of this


def _filled(rows: Any) -> Any:
    """Repeat the last row up to a full batch, so that batches of any size share one program."""
    rows = jnp.asarray(rows)
    missing = -len(rows) % _LANES
    return jnp.concatenate([rows, jnp.repeat(rows[-1:], missing, axis=0)])


@jax.jit
def _flow_pairs(params: Any, times: Any) -> Any:
    def one(alpha, p1, contrast):
        system = MarginSystem(pair_of(alpha, p1, contrast))
        return _flow(system, _with_margins(system, jnp.zeros(2)), times, lambda s: s.margins)

    return jax.vmap(one)(*params)


@in_double
def flow_pairs(correlation: Any, p1: Any, contrast: Any, times: Any) -> Any:
    """Both margins of two tokens under gradient flow from zero, shape (runs, times, 2)."""
    columns = np.broadcast_arrays(correlation, p1, contrast)
    return _flow_pairs(tuple(map(_filled, columns)), jnp.asarray(times))[: len(columns[0])]


@functools.partial(jax.jit, static_argnames="last")
def _descend_token(params: Any, at: Any, last: int) -> Any:
    def one(rate, eta, start):
        system = MarginSystem(token_of(rate))
        return _descend(system, _with_margins(system, start[None]), eta, at, last, _margins_now)

    return jax.vmap(one)(*params)[..., 0]


@in_double
def descend_token(rate: Any, learning_rate: Any, at: Any, start: Any = 0.0) -> Any:
    """The margin of one token under descent, shape (runs, steps)."""
    columns = np.broadcast_arrays(np.asarray(rate, float), learning_rate, start)
    return _descend_token(tuple(map(jnp.asarray, columns)), at, int(at[-1]))


@jax.jit
def _flow_token(params: Any, times: Any) -> Any:
    def one(rate, start):
        system = MarginSystem(token_of(rate))
        return _flow(system, _with_margins(system, start[None]), times, lambda s: s.margins)

    return jax.vmap(one)(*params)[..., 0]


@in_double
def flow_token(rate: Any, times: Any, start: Any = 0.0) -> Any:
    """The margin of one token under gradient flow, shape (runs, times)."""
    columns = np.broadcast_arrays(np.asarray(rate, float), start)
    return _flow_token(tuple(map(_filled, columns)), jnp.asarray(times))[: len(columns[0])]


def _with_scores(system: ParticleSystem, scores: Any) -> Any:
    state = system.start()
    return type(state)(scores[None, :], state.coefficients, state.kept, state.shaken)


@functools.partial(jax.jit, static_argnames="last")
def _descend_classes(params: Any, at: Any, last: int) -> Any:
    def one(rate, norms, eta, start):
        system = ParticleSystem(family_of(rate, norms))
        return _descend(system, _with_scores(system, start), eta, at, last, _scores_now)

    return jax.vmap(one)(*params)[:, :, 0]


@in_double
def descend_classes(rate: Any, learning_rate: Any, start: Any, at: Any, norms: Any = 1.0) -> Any:
    """The scores of one token under descent, orthogonal outputs, shape (runs, steps, M)."""
    rate, eta = np.broadcast_arrays(np.asarray(rate, float), learning_rate)
    norms = np.broadcast_to(norms, start.shape)
    return _descend_classes(tuple(map(jnp.asarray, (rate, norms, eta, start))), at, int(at[-1]))


@jax.jit
def _flow_classes(params: Any, times: Any) -> Any:
    def one(rate, norms, start):
        system = ParticleSystem(family_of(rate, norms))
        return _flow(system, _with_scores(system, start), times, lambda s: s.scores)

    return jax.vmap(one)(*params)[:, :, 0]


@in_double
def flow_classes(rate: Any, start: Any, times: Any, norms: Any = 1.0) -> Any:
    """The scores of one token under gradient flow, orthogonal outputs, shape (runs, times, M)."""
    rate = np.broadcast_to(np.asarray(rate, float), start.shape[:1])
    norms = np.broadcast_to(norms, start.shape)
    columns = tuple(map(_filled, (rate, norms, start)))
    return _flow_classes(columns, jnp.asarray(times))[: len(start)]
