r"""The same numbers, restructured: sums over a few sequences of losses, hits and gradients.

What is saved, next to `_model`: the inputs $e_z + p_t$ come from a dictionary of N + T vectors, so keys
and $W_O^1 W_V^1$ values of the first layer are tables; its scores are formed in causal blocks; the
second layer is needed only where the loss looks; $U$ and $U W_O^2 W_V^2$ meet the stream directly; and
the gradient is written out, so that each product is made once.
"""

import functools
from collections.abc import Collection
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Integer

from engram._types import Array
from engram.transformer._model import Model

_BLOCK = 64  # queries of the first layer that share their keys

# A weight of attention so far below the largest of its row, or a probability of error that small, is
# zero: no sum would change, and numbers that are not normalised cost a processor four times the time.
_LEAST_LOG = {"float32": -40.0, "float64": -300.0}
_LEAST_ERROR = {"float32": 1e-20, "float64": 1e-150}


class Batch(NamedTuple):
    """A few sequences and where their loss looks."""

    tokens: Integer[Array, "B T"]
    positions: Integer[Array, "B Q"]
    targets: Integer[Array, "B Q"]
    weights: Float[Array, "B Q"]  # zero beyond the positions that a sequence has


class Sums(NamedTuple):
    """Sums over positions; `grads` has the gradient of the loss in each trained matrix.

    While they are added up, gradients are kept in the form that costs least (`finish` turns them into
    matrices): of W_O^2 over the N outputs, of W_K^1 over the dictionary of tokens and positions.
    """

    loss: Any
    hits: Any
    grads: dict[str, Any]


class _First(NamedTuple):
    """The first layer's pass over the sequences, as far as its gradient needs it."""

    start: Float[Array, "B T d"]  # e_z + p_t
    values: Float[Array, "B T d"]  # W_O^1 W_V^1 (e_z + p_t)
    raised: list[Float[Array, "B q s"]]  # exp of the scores, block by block, not normalised
    totals: Float[Array, "B T 1"]  # their sums
    added: Float[Array, "B T d"]


class Tables(NamedTuple):
    """What a whole pass shares: the first layer on all tokens and positions, and U W_O^2 W_V^2."""

    tokens: tuple[Any, Any, Any]
    positions: tuple[Any, Any, Any]
    readout: Float[Array, "N d"]

    def look_up(self, tokens: Integer[Array, "B T"]) -> list[Float[Array, "B T d"]]:
        """Inputs, keys and values of sequences."""
        T = tokens.shape[1]
        pairs = zip(self.tokens, self.positions, strict=True)
        return [of_token[tokens] + of_position[None, :T] for of_token, of_position in pairs]


def make_tables(model: Model) -> Tables:
    """Make everything that does not depend on the sequences."""
    value = model.layer1.W_O @ model.layer1.W_V
    rows = lambda x: (x, model.score_scale * x @ model.layer1.W_K.T, x @ value.T)
    readout = jnp.asarray(model.W_U) @ model.layer2.W_O @ model.layer2.W_V
    return Tables(rows(jnp.asarray(model.W_E)), rows(jnp.asarray(model.W_P)), readout)


def no_sums(model: Model, trained: Collection[str]) -> Sums:
    """Where adding up begins."""
    dtype, (N, d), T = jnp.asarray(model.W_E).dtype, model.W_E.shape, len(model.W_P)
    zeros = lambda *shape: jnp.zeros(shape, dtype)
    forms = {"wo2": zeros(N, d), "wk2": zeros(d, d), "wk1": (zeros(N, d), zeros(T, d))}
    return Sums(zeros(), zeros(), {name: forms[name] for name in trained})


def finish(model: Model, sums: Sums) -> Sums:
    """Sums whose gradients are matrices."""
    scale, grads = model.score_scale, dict(sums.grads)
    if "wo2" in grads:
        grads["wo2"] = jnp.asarray(model.W_U).T @ grads["wo2"] @ model.layer2.W_V.T
    if "wk2" in grads:
        grads["wk2"] = scale * grads["wk2"]
    if "wk1" in grads:
        of_tokens, of_positions = grads["wk1"]
        grads["wk1"] = scale * (model.W_E.T @ of_tokens + model.W_P.T @ of_positions)
    return Sums(sums.loss, sums.hits, grads)


def _raise(scores: Any, keep: Any) -> tuple[Any, Any]:
    """Softmax, up to its normalisation: exponentials below the row's largest, and their sums."""
    scores = jnp.where(keep, scores, -jnp.inf)
    below = scores - scores.max(axis=-1, keepdims=True)
    raised = jnp.where(below > _LEAST_LOG[below.dtype.name], jnp.exp(below), 0.0)
    return raised, raised.sum(axis=-1, keepdims=True)


def _blocks(T: int) -> list[tuple[slice, slice]]:
    """Queries, and the keys that they may see."""
    starts = range(0, T, _BLOCK)
    return [(slice(k, min(k + _BLOCK, T)), slice(0, min(k + _BLOCK, T))) for k in starts]


def first_layer(tables: Tables, tokens: Integer[Array, "B T"]) -> _First:
    """Attention of the first layer over whole sequences, block by block."""
    start, keys, values = tables.look_up(tokens)
    places = jnp.arange(tokens.shape[1])
    raised, totals, added = [], [], []
    for queries, seen in _blocks(tokens.shape[1]):
        scores = jnp.einsum("btd,bsd->bts", start[:, queries], keys[:, seen])
        a, total = _raise(scores, places[None, None, seen] <= places[None, queries, None])
        raised.append(a)
        totals.append(total)
        added.append(jnp.einsum("bts,bsd->btd", a, values[:, seen]) / total)
    join = functools.partial(jnp.concatenate, axis=1)
    return _First(start, values, raised, join(totals), join(added))


def _first_grad(
    first: _First, above: Float[Array, "B T d"], tokens: Integer[Array, "B T"], num_tokens: int
) -> tuple[Float[Array, "N d"], Float[Array, "T d"]]:
    """The gradient in W_K^1 over tokens and positions, given that in the stream after the first layer.

    Queries are e_z + p_t, so the sum of their outer products with what moves them has two parts.
    """
    above = above / first.totals
    mean = (above * first.added).sum(axis=-1, keepdims=True)
    moved = []
    for (queries, seen), a in zip(_blocks(above.shape[1]), first.raised, strict=True):
        push = jnp.einsum("btd,bsd->bts", above[:, queries], first.values[:, seen])
        push = a * (push - mean[:, queries])
        moved.append(jnp.einsum("bts,bsd->btd", push, first.start[:, seen]))
    moves = jnp.concatenate(moved, axis=1)
    # A product with ones and zeros: quicker than adding row by row where a token has come.
    is_token = (jnp.arange(num_tokens)[:, None] == tokens.reshape(1, -1)).astype(moves.dtype)
    return is_token @ moves.reshape(-1, moves.shape[-1]), moves.sum(axis=0)


def features(
    model: Model, stream: Float[Array, "B T d"], positions: Integer[Array, "B Q"]
) -> tuple[Any, Any, Any, Any, Any]:
    """The second layer where the loss looks: the stream there, W_K^2's queries, attention, what it reads."""
    here = jnp.take_along_axis(stream, positions[..., None], axis=1)
    queries = model.score_scale * here @ model.layer2.W_K
    scores = jnp.einsum("bqd,bsd->bqs", queries, stream)
    places = jnp.arange(stream.shape[1])[None, None]
    raised, total = _raise(scores, places <= positions[..., None])
    read = jnp.einsum("bqs,bsd->bqd", raised, stream) / total
    return here, queries, raised, total, read


def errors_of(
    logits: Float[Array, "N ..."], targets: Integer[Array, "..."], weights: Float[Array, "..."]
) -> tuple[Any, Any, Any]:
    """Losses, hits, and the gradient in the logits, exact also where the target is all but certain.

    Classes come first: sums over them then run over many positions at once.
    """
    classes = jnp.arange(len(logits)).reshape(-1, *[1] * targets.ndim)
    is_target = classes == targets[None]
    wrong = jnp.where(is_target, -jnp.inf, logits)
    largest = wrong.max(axis=0)
    below = wrong - largest[None]
    raised = jnp.where(below > _LEAST_LOG[below.dtype.name], jnp.exp(below), 0.0)
    total = raised.sum(axis=0)
    score = jnp.where(is_target, logits, 0.0).sum(axis=0)
    gap = largest + jnp.log(total) - score
    losses = jax.nn.softplus(gap) * weights
    error = jax.nn.sigmoid(gap)
    error = jnp.where(error > _LEAST_ERROR[error.dtype.name], error, 0.0) * weights
    before = jnp.where(classes < targets[None], logits, -jnp.inf).max(axis=0)
    hits = ((score >= largest) & (score > before)) * weights  # ties go to the lowest index
    return losses, hits, jnp.where(is_target, -error[None], (error / total)[None] * raised)


def sums_from_stream(
    model: Model,
    tables: Tables,
    stream: Float[Array, "B T d"],
    batch: Batch,
    trained: Collection[str],
) -> tuple[Sums, Float[Array, "B T d"] | None]:
    """Loss, hits and gradients of the second layer, and the gradient in the stream that enters it."""
    here, queries, raised, total, read = features(model, stream, batch.positions)
    U, UO, W_K = jnp.asarray(model.W_U), tables.readout, model.layer2.W_K
    logits = jnp.einsum("nd,bqd->nbq", U, here) + jnp.einsum("nd,bqd->nbq", UO, read)
    losses, hits, push = errors_of(logits, batch.targets, batch.weights)
    sums = Sums(losses.sum(), hits.sum(), {})
    if "wo2" in trained:
        sums.grads["wo2"] = jnp.einsum("nbq,bqd->nd", push, read)
    if not {"wk2", "wk1"} & set(trained):
        return sums, None
    on_read = jnp.einsum("nbq,nd->bqd", push, UO) / total
    on_raised = jnp.einsum("bqd,bsd->bqs", on_read, stream)
    on_scores = raised * (on_raised - (on_read * read).sum(axis=-1, keepdims=True))
    moved = jnp.einsum("bqs,bsd->bqd", on_scores, stream)
    if "wk2" in trained:
        sums.grads["wk2"] = jnp.einsum("bqd,bqe->de", here, moved)
    if "wk1" not in trained:
        return sums, None
    on_here = jnp.einsum("nbq,nd->bqd", push, U) + model.score_scale * moved @ W_K.T
    weights = jnp.concatenate([raised, on_scores], axis=1)
    pushes = jnp.concatenate([on_read, queries], axis=1)
    above = jnp.einsum("bqd,bqs->bds", pushes, weights).swapaxes(
        1, 2
    )  # quicker than to bsd at once
    rows = jnp.arange(len(stream))[:, None]
    return sums, above.at[rows, batch.positions].add(on_here)


def sums_of(model: Model, tables: Tables, batch: Batch, trained: Collection[str]) -> Sums:
    """Loss, hits and gradients over a few sequences."""
    first = first_layer(tables, batch.tokens)
    sums, above = sums_from_stream(model, tables, first.start + first.added, batch, trained)
    if above is not None:
        sums.grads["wk1"] = _first_grad(first, above, batch.tokens, len(model.W_E))
    return sums
