"""The arrays that the compiled kernel reads, adds to and works in: padded with zeros, and aligned."""

from typing import Any, NamedTuple

import numpy as np

from engram.transformer._model import Model

MOST_POSITIONS = 1024  # tables over pairs of positions

# Rows of `Space.at`: numbers by position of the first layer, and by where the loss looks.
PLACES, FIRST_INVERSE, MEAN = 0, 1, 2
LOOKS, TARGETS, SECOND_INVERSE, LARGEST, BEFORE, SCORE, TOTAL = 3, 4, 5, 6, 7, 8, 9


class Tables(NamedTuple):
    """What a pass shares; scores and matrices of keys contain the factor of the scores."""

    E: Any  # embeddings, (N, d)
    P: Any  # positions, (T, d)
    VE: Any  # values of the first layer, likewise
    VP: Any
    EE: Any  # its scores by key (rows) and query (columns), (N, N)
    EP: Any  # key: position, query: token, (T, N)
    PE: Any  # key: token, query: position, (N, T)
    PP: Any  # (T, T)
    U: Any  # (N, d)
    UO: Any  # U W_O^2 W_V^2
    K: Any  # W_K^2
    KT: Any


class Totals(NamedTuple):
    """Sums over sequences: of the loss and hits, and of the gradients in tables and matrices."""

    scalars: Any  # loss, hits
    EE: Any
    EP: Any
    PE: Any
    PP: Any
    UO: Any
    K: Any


class Space(NamedTuple):
    """Room for one sequence."""

    stream: Any  # (d, T), first e_z + p_t, then after the first layer
    added: Any  # (d, T)
    above: Any  # (d, T)
    values: Any  # (T, d)
    rows: Any  # (T, d)
    first: Any  # (T, T), exp of the scores, not normalised
    strip: Any  # (T, 2 W)
    turned: Any  # (2 W, T)
    of_query: Any  # (N, T)
    of_both: Any  # (T, N)
    at: Any  # numbers by position, see above
    second: Any  # (T, Q)
    push: Any  # (T, Q)
    here: Any  # (d, Q)
    queries: Any
    read: Any
    on_read: Any
    moved: Any
    logits: Any  # (N, Q)
    errors: Any  # (N, Q)
    turned_errors: Any  # (Q, N)
    q_queries: Any  # (Q, d)
    q_on_read: Any
    q_moved: Any
    q_on_here: Any


def zeros(shape: tuple[int, ...], unit: int, dtype: Any) -> np.ndarray:
    """Zeros of padded sides, aligned; rows lie an odd number of cache lines apart.

    (A column of rows that lie a power of two apart would share a few places of the cache.)
    """
    line = 64 // np.dtype(dtype).itemsize
    rows, lead = (-(-size // unit) * unit for size in shape)
    lead = -(-lead // line) * line
    lead += line * (1 - lead // line % 2)
    room = np.zeros(rows * lead + line, dtype)
    skip = -room.ctypes.data % 64 // room.itemsize
    return room[skip : skip + rows * lead].reshape(rows, lead)


def make_tables(model: Model, unit: int) -> Tables:
    """Everything that does not depend on the sequences, as `_gradients.make_tables`."""
    E, P, U = (np.asarray(rows) for rows in (model.W_E, model.W_P, model.W_U))
    one, two = model.layer1, model.layer2
    scale, V = E.dtype.type(model.score_scale), np.asarray(one.W_O) @ one.W_V
    K = scale * np.asarray(two.W_K)
    score = lambda keys, queries: (keys @ np.asarray(one.W_K).T) @ (scale * queries).T
    tables = Tables(
        E=E, P=P, VE=E @ V.T, VP=P @ V.T, EE=score(E, E), EP=score(P, E), PE=score(E, P), PP=score(P, P),
        U=U, UO=U @ two.W_O @ two.W_V, K=K, KT=K.T,
    )  # fmt: skip

    def padded(table: np.ndarray) -> np.ndarray:
        out = zeros(table.shape, unit, E.dtype)
        out[: table.shape[0], : table.shape[1]] = table
        return out

    return Tables(*map(padded, tables))


def make_space(N: int, T: int, d: int, Q: int, unit: int, dtype: Any) -> Space:
    """Room for a sequence of T tokens, of which Q are looked at."""
    by_position, by_look = (d, T), (d, Q)
    shapes = Space(
        stream=by_position, added=by_position, above=by_position, values=(T, d), rows=(T, d), first=(T, T),
        strip=(T, unit), turned=(unit, T), of_query=(N, T), of_both=(T, N), at=(TOTAL + 1, max(T, Q)),
        second=(T, Q), push=(T, Q), here=by_look, queries=by_look, read=by_look, on_read=by_look,
        moved=by_look, logits=(N, Q), errors=(N, Q), turned_errors=(Q, N), q_queries=(Q, d),
        q_on_read=(Q, d), q_moved=(Q, d), q_on_here=(Q, d),
    )  # fmt: skip
    return Space(*(zeros(shape, unit, dtype) for shape in shapes))


def no_totals(N: int, T: int, d: int, unit: int, dtype: Any) -> Totals:
    """Where adding up begins."""
    shapes = ((N, N), (T, N), (N, T), (T, T), (d, N), (d, d))
    return Totals(np.zeros(2), *(zeros(shape, unit, dtype) for shape in shapes))


def finish(model: Model, totals: Totals) -> tuple[float, float, dict[str, np.ndarray]]:
    """Loss, hits and gradients in double precision, as `_gradients.finish`."""
    real = lambda array: np.asarray(array, np.float64)
    E, P, U = real(model.W_E), real(model.W_P), real(model.W_U)
    (N, d), T, scale = E.shape, len(P), float(model.score_scale)
    cut = lambda table, m, n: real(table[:m, :n]).T  # from keys in rows to queries in rows
    of_tokens = cut(totals.EE, N, N) @ E + cut(totals.EP, T, N) @ P
    of_positions = cut(totals.PE, N, T) @ E + cut(totals.PP, T, T) @ P
    grads = {
        "wo2": U.T @ cut(totals.UO, d, N) @ real(model.layer2.W_V).T,
        "wk2": scale * real(totals.K[:d, :d]),
        "wk1": scale * (E.T @ of_tokens + P.T @ of_positions),
    }
    return float(totals.scalars[0]), float(totals.scalars[1]), grads
