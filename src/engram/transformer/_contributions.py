r"""What moved the loss: its change along the path of a training, divided among the trained matrices.

From one state to the next the path is a straight line, along which each matrix m has its own part of the
change of the loss of every position:

$$\ell(b) - \ell(a) = \sum_m \int_0^1 \langle \nabla_m \ell(a + s (b - a)), b_m - a_m \rangle \, ds.$$

The integrals are sums over Gauss-Legendre nodes; a line is halved where they do not account for the change.
What they do not account for is the remainder.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from engram._precision import nan_is_a_result
from engram.transformer._config import MATRICES
from engram.transformer._devices import AXIS, spread
from engram.transformer._gradients import errors_of, features, first_layer, make_tables
from engram.transformer._model import Model
from engram.transformer._passes import Data, Passes, Share
from engram.transformer._task import Sequences

_NODES = 4
_HALVINGS = 5  # of a step, at most, where its nodes do not account for the change
_ENOUGH = 1e-3  # a remainder below this share of the contributions' sizes needs no more nodes


def contributions(
    model: Model,
    sequences: Sequences,
    states: Iterable[dict[str, Any]],
    report: Callable[[], None] | None = None,
) -> xr.Dataset:
    """By how much each trained matrix changed the loss along a path, by trigger and by what follows it.

    Args:
        model: All matrices; those of the states are replaced.
        sequences: The data; the loss is the mean over all their positions that count.
        states: Matrices by name, step after step; between two of them the path is a straight line.
        report: Called now and then.

    Returns:
        A dataset over `trigger` (the token that has come before) and `output` (what follows it), in parts
        of the mean loss, so that sums over both are those of the loss: `contribution` of each `matrix`,
        `remainder`, their sum `change`, `before` and `after`, and `frequency`, the share of the positions.
    """
    is_double = np.asarray(model.W_E).dtype == np.float64
    with jax.enable_x64(is_double), nan_is_a_result():
        passes = Passes(model, sequences, (), whole=False)
        path = iter(states)
        here = next(path)
        before = after = _pair_losses(passes, here, report)
        parts: dict[str, Any] = {name: np.zeros_like(before) for name in here}
        for there in path:
            start, after = after, _pair_losses(passes, there, report)
            step = _along(passes, here, there, (start, after), report)
            parts = {name: part + step[name] for name, part in parts.items()}
            here = there
    parts = {name: parts[name] for name in MATRICES if name in parts}
    frequency = _fold(passes, [np.ones_like(x) for x in _inside(passes)])
    asked = np.flatnonzero(frequency.sum(axis=1) > 0)
    by_pair = lambda table: (("trigger", "output"), table[asked])
    change = after - before
    variables: dict[str, Any] = {
        "contribution": (("matrix", "trigger", "output"), np.stack([x[asked] for x in parts.values()])),
        "remainder": by_pair(change - sum(parts.values())),
        "change": by_pair(change),
        "before": by_pair(before),
        "after": by_pair(after),
        "frequency": by_pair(frequency),
    }  # fmt: skip
    for name, (dims, values) in variables.items():
        variables[name] = (dims, values, {"long_name": _MEANINGS[name]})
    coords = {"matrix": list(parts), "trigger": asked, "output": np.arange(len(frequency))}
    return xr.Dataset(variables, coords, {"kind": "contributions"})


_MEANINGS = {
    "contribution": "change of the loss that the matrix made",
    "remainder": "change of the loss that is not accounted for",
    "change": "change of the loss",
    "before": "part of the loss at the first state",
    "after": "part of the loss at the last state",
    "frequency": "share of the positions that count",
}


def _along(
    passes: Passes,
    here: dict[str, Any],
    there: dict[str, Any],
    losses: tuple[np.ndarray, np.ndarray],
    report: Callable[[], None] | None,
    enough: float | None = None,
    depth: int = _HALVINGS,
) -> dict[str, np.ndarray]:
    """What each matrix did to the losses of all pairs on the straight line between two states."""
    moves = {name: there[name] - here[name] for name in here}
    at = lambda s: {name: (here[name] + s * moves[name]).astype(passes.dtype) for name in here}
    parts = {name: np.zeros_like(losses[0]) for name in here}
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    for place, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        for name, slopes in _pair_slopes(passes, at(place), moves, report).items():
            parts[name] += weight * slopes
    remainder = np.abs(losses[1] - losses[0] - sum(parts.values())).sum()
    if enough is None:
        rounding = 8 * float(np.finfo(passes.dtype).eps) * losses[0].sum()
        enough = max(_ENOUGH * sum(np.abs(part).sum() for part in parts.values()), rounding)
    if not depth or not remainder > enough:
        return parts
    middle = at(0.5)
    between = _pair_losses(passes, middle, report)
    halves = [
        _along(passes, *ends, report, enough / 2, depth - 1)
        for ends in ((here, middle, (losses[0], between)), (middle, there, (between, losses[1])))
    ]
    return {name: halves[0][name] + halves[1][name] for name in here}


def _pair_losses(passes: Passes, state: Any, report: Callable[[], None] | None) -> np.ndarray:
    return _fold(passes, [losses for losses, _ in _look(passes, state, {}, report)])


def _pair_slopes(passes: Passes, state: Any, moves: Any, report: Any) -> dict[str, np.ndarray]:
    seen = [slopes for _, slopes in _look(passes, state, moves, report)]
    return {name: _fold(passes, [slopes[name] for slopes in seen]) for name in moves}


def _inside(passes: Passes) -> list[np.ndarray]:
    """Piece by piece, which of the positions count."""
    places = np.arange(passes.counts.positions.shape[1])
    count = lambda share: np.where(share.weights > 0, passes.counts.counts[share.rows], 0)
    return [places < count(share)[..., None] for share in passes.shares]


def _fold(passes: Passes, values: list[np.ndarray]) -> np.ndarray:
    """Means of numbers by position, divided among pairs of a trigger and what follows it."""
    data, N = passes.counts, len(passes.model.W_U)
    sums = np.zeros(N * N)
    for share, inside, value in zip(passes.shares, _inside(passes), values, strict=True):
        rows = share.rows[..., None]
        triggers = data.tokens[rows, data.positions[share.rows]].astype(int)
        pairs = N * triggers + data.targets[share.rows]
        sums += np.bincount(pairs[inside], np.asarray(value, float)[inside], N * N)
    return sums.reshape(N, N) / passes.num_positions


def _look(passes: Passes, state: Any, moves: Any, report: Any) -> list[tuple[Any, Any]]:
    """Losses at all positions, and how fast they change as one matrix after another moves."""
    put = lambda tree: spread(tree, passes.mesh, shared=False)
    model, seen = passes.model.replace(put(state)), []
    for piece in passes.pieces:
        parts = _losses_and_slopes(model, put(moves), passes.data, piece, mesh=passes.mesh)
        seen.append(jax.tree.map(np.asarray, parts))
        if report is not None:
            report()
    return seen


@functools.partial(jax.jit, static_argnames=("mesh",))
def _losses_and_slopes(model: Model, moves: Any, data: Data, share: Share, *, mesh: Mesh) -> Any:
    def on_device(model: Model, moves: Any, data: Data, rows: Any) -> Any:
        def of(rows: Any) -> Any:
            losses = lambda matrices: _losses(model.replace(matrices), data, rows)
            slope = lambda name: jax.jvp(losses, ({name: model[name]},), ({name: moves[name]},))[1]
            return losses({}), {name: slope(name) for name in moves}

        return jax.tree.map(lambda seen: seen[None], jax.lax.map(of, rows[0]))

    return jax.shard_map(
        on_device, mesh=mesh, in_specs=(P(), P(), P(), P(AXIS)), out_specs=P(AXIS), check_vma=False
    )(model, moves, data, share.rows)


def _losses(model: Model, data: Data, rows: Any) -> Any:
    """Losses of some sequences where the loss looks."""
    tokens, positions, targets = (
        jnp.asarray(x)[rows].astype(int) for x in (data.tokens, data.positions, data.targets)
    )
    tables = make_tables(model)
    first = first_layer(tables, tokens)
    here, *_, read = features(model, first.start + first.added, positions)
    logits = jnp.einsum("nd,bqd->nbq", jnp.asarray(model.W_U), here)
    logits += jnp.einsum("nd,bqd->nbq", tables.readout, read)
    return errors_of(logits, targets, jnp.ones(targets.shape, logits.dtype))[0]
