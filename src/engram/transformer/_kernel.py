r"""The same sums on a processor, sequence by sequence, in one compiled function (needs numba).

Beyond what `_gradients` saves: scores of the first layer are sums of four tables, over tokens and positions
of query and key, so scores and their gradient are looked up and added up, not multiplied; keys that a query
cannot see are left out, in tiles; and what one sequence needs stays in the processor's caches.

Here positions are columns and features are rows, so that sums over keys, features and classes run
over many positions at once. Sizes are padded with zeros to multiples of a vector.
"""

import functools
from typing import Any

import numpy as np
from numba import njit

from engram.transformer._gradients import _LEAST_ERROR, _LEAST_LOG
from engram.transformer._kernel_arrays import (
    BEFORE,
    FIRST_INVERSE,
    LARGEST,
    LOOKS,
    MEAN,
    PLACES,
    SCORE,
    SECOND_INVERSE,
    TARGETS,
    TOTAL,
)
from engram.transformer._tiles import make_tiles
from engram.transformer._vectors import make_vectors, where_equal, where_less, where_most

_compile = njit(nogil=True, error_model="numpy")


@functools.cache
def compiled(name: str) -> Any:
    """The function for floats of this name, and how wide its vectors are."""
    dtype = np.dtype(name)
    tiles, vectors = make_tiles(dtype), make_vectors(dtype)
    unit, block, turned, multiply, transpose = tiles
    W, load, store, splat, exp = vectors
    wide = 2 * W
    real = dtype.type
    zero, one, infinity = real(0), real(1), real(np.inf)
    least_log, least_error = real(_LEAST_LOG[name]), real(_LEAST_ERROR[name])

    @_compile
    def raised(x):
        """exp(x), without numbers that are not normalised; zero at NaN."""
        least = splat(least_log)
        return where_less(least, x, exp(where_less(least, x, x, least)), splat(zero))

    @_compile
    def larger(x, y):
        return where_less(y, x, x, y)

    @_compile
    def up(k, to):
        return (k + to - 1) // to * to

    @_compile
    def first_layer(t, s, z, T):
        """The stream after the first layer."""
        Tp, Np, d = up(T, wide), s.of_query.shape[0], s.stream.shape[0]
        for p in range(Tp):
            x = z[p]
            for k in range(0, d, W):
                store(s.rows, p, k, load(t.E, x, k) + load(t.P, p, k))
                store(s.values, p, k, load(t.VE, x, k) + load(t.VP, p, k))
            for y in range(0, Np, W):
                store(s.of_both, p, y, load(t.EP, p, y) + load(t.EE, x, y))
        transpose(block(s.stream, d, Tp), block(s.rows, Tp, d))
        transpose(block(s.of_query, Np, Tp), block(s.of_both, Tp, Np))
        for p in range(0, Tp, wide):
            seen = p + wide
            for j in range(wide):
                x = z[p + j]
                for key in range(0, seen, W):
                    store(s.turned, j, key, load(s.of_query, x, key))
            transpose(block(s.strip, seen, wide), block(s.turned, wide, seen))
            for j in range(0, wide, W):
                largest, place = splat(-infinity), load(s.at, PLACES, p + j)
                for key in range(seen):
                    score = load(s.strip, key, j) + (
                        load(t.PP, key, p + j) + load(t.PE, z[key], p + j)
                    )
                    score = where_most(splat(real(key)), place, score, splat(-infinity))
                    store(s.first, key, p + j, score)
                    largest = larger(score, largest)
                total = splat(zero)
                for key in range(seen):
                    a = raised(load(s.first, key, p + j) - largest)
                    store(s.first, key, p + j, a)
                    total = total + a
                inverse = where_less(place, splat(real(T)), splat(one) / total, splat(zero))
                store(s.at, FIRST_INVERSE, p + j, inverse)
            multiply(
                block(s.added, d, wide, 0, p),
                turned(s.values, seen, d),
                block(s.first, seen, wide, 0, p),
                True,
            )
            for j in range(p, seen, W):
                inverse = load(s.at, FIRST_INVERSE, j)
                for k in range(d):
                    added = load(s.added, k, j) * inverse
                    store(s.added, k, j, added)
                    store(s.stream, k, j, load(s.stream, k, j) + added)

    @_compile
    def second_layer(t, s, pos, Q):
        """Where the loss looks: what the second layer reads there."""
        d, Qp = s.here.shape[0], up(Q, unit)
        for q in range(Qp):
            for k in range(d):
                s.here[k, q] = s.stream[k, pos[q]] if q < Q else zero
        multiply(block(s.queries, d, Qp), turned(t.K, d, d), block(s.here, d, Qp), True)
        for q in range(0, Qp, wide):
            end = min(q + wide, Qp)
            n = end - q
            S = up(pos[min(end, Q) - 1] + 1, unit)
            multiply(
                block(s.second, S, n, 0, q),
                turned(s.stream, d, S),
                block(s.queries, d, n, 0, q),
                True,
            )
            for j in range(q, end, W):
                largest, place = splat(-infinity), load(s.at, LOOKS, j)
                for key in range(S):
                    score = where_most(
                        splat(real(key)), place, load(s.second, key, j), splat(-infinity)
                    )
                    largest = larger(score, largest)
                total = splat(zero)
                for key in range(S):
                    a = raised(load(s.second, key, j) - largest)
                    a = where_most(splat(real(key)), place, a, splat(zero))
                    store(s.second, key, j, a)
                    total = total + a
                inverse = where_less(place, splat(zero), splat(zero), splat(one) / total)
                store(s.at, SECOND_INVERSE, j, inverse)
            multiply(
                block(s.read, d, n, 0, q), block(s.stream, d, S), block(s.second, S, n, 0, q), True
            )
            for j in range(q, end, W):
                inverse = load(s.at, SECOND_INVERSE, j)
                for k in range(d):
                    store(s.read, k, j, load(s.read, k, j) * inverse)

    @_compile
    def errors(t, s, totals, weight, Q, N):
        """Losses, hits, and the gradient in the logits, as `_gradients.errors_of`."""
        Qp, Np, d = up(Q, unit), s.errors.shape[0], s.here.shape[0]
        multiply(block(s.logits, Np, Qp), block(t.U, Np, d), block(s.here, d, Qp), True)
        multiply(block(s.logits, Np, Qp), block(t.UO, Np, d), block(s.read, d, Qp), False)
        for q in range(0, Qp, W):
            largest, before, score = splat(-infinity), splat(-infinity), splat(zero)
            target = load(s.at, TARGETS, q)
            for n in range(N):
                logit, this = load(s.logits, n, q), splat(real(n))
                score = where_equal(this, target, logit, score)
                largest = larger(where_equal(this, target, splat(-infinity), logit), largest)
                before = larger(where_less(this, target, logit, splat(-infinity)), before)
            total = splat(zero)
            for n in range(N):
                a = raised(load(s.logits, n, q) - largest)
                a = where_equal(splat(real(n)), target, splat(zero), a)
                store(s.errors, n, q, a)
                total = total + a
            store(s.at, LARGEST, q, largest)
            store(s.at, BEFORE, q, before)
            store(s.at, SCORE, q, score)
            store(s.at, TOTAL, q, total)
        for q in range(Q):
            largest, score, total = s.at[LARGEST, q], s.at[SCORE, q], s.at[TOTAL, q]
            gap = largest + np.log(total) - score
            small = np.exp(-abs(gap))
            loss = (gap if gap > zero else zero) + np.log1p(small)
            error = one / (one + small) if gap >= zero else small / (one + small)
            totals.scalars[0] += weight * (loss if gap == gap else gap)  # NaN stays
            totals.scalars[1] += weight if score >= largest and score > s.at[BEFORE, q] else zero
            error = weight * (zero if error <= least_error else error)
            s.at[SCORE, q] = -error
            s.at[TOTAL, q] = error / total
        for q in range(Q, Qp):
            s.at[SCORE, q] = zero
            s.at[TOTAL, q] = zero
        for q in range(0, Qp, W):
            target, right, wrong = (
                load(s.at, TARGETS, q),
                load(s.at, SCORE, q),
                load(s.at, TOTAL, q),
            )
            for n in range(N):
                error = where_equal(splat(real(n)), target, right, wrong * load(s.errors, n, q))
                store(s.errors, n, q, error)

    @_compile
    def second_gradient(t, s, totals, pos, Q, T):
        """Gradients in the readout and W_K^2, and that in the stream after the first layer (`above`)."""
        d, Np, Qp, Tp = s.here.shape[0], s.errors.shape[0], up(Q, unit), up(T, wide)
        transpose(block(s.turned_errors, Qp, Np), block(s.errors, Np, Qp))
        multiply(
            block(s.q_on_read, Qp, d), block(s.turned_errors, Qp, Np), block(t.UO, Np, d), True
        )
        multiply(block(s.q_on_here, Qp, d), block(s.turned_errors, Qp, Np), block(t.U, Np, d), True)
        # In the readout, transposed: over features and classes.
        multiply(
            block(totals.UO, d, Np), block(s.read, d, Qp), block(s.turned_errors, Qp, Np), False
        )
        for q in range(Qp):
            inverse = splat(s.at[SECOND_INVERSE, q])
            for k in range(0, d, W):
                store(s.q_on_read, q, k, load(s.q_on_read, q, k) * inverse)
        transpose(block(s.on_read, d, Qp), block(s.q_on_read, Qp, d))
        transpose(block(s.q_queries, Qp, d), block(s.queries, d, Qp))
        for p in range(Tp):
            for k in range(0, d, W):
                store(s.rows, p, k, splat(zero))
        for q in range(0, Qp, wide):
            end = min(q + wide, Qp)
            n = end - q
            S = up(pos[min(end, Q) - 1] + 1, unit)
            multiply(
                block(s.push, S, n, 0, q),
                turned(s.stream, d, S),
                block(s.on_read, d, n, 0, q),
                True,
            )
            for j in range(q, end, W):
                mean = splat(zero)
                for k in range(d):
                    mean = mean + load(s.on_read, k, j) * load(s.read, k, j)
                for key in range(S):
                    push = load(s.second, key, j) * (load(s.push, key, j) - mean)
                    store(s.push, key, j, push)
            multiply(
                block(s.moved, d, n, 0, q), block(s.stream, d, S), block(s.push, S, n, 0, q), True
            )
            multiply(
                block(s.rows, S, d),
                block(s.second, S, n, 0, q),
                block(s.q_on_read, n, d, q, 0),
                False,
            )
            multiply(
                block(s.rows, S, d),
                block(s.push, S, n, 0, q),
                block(s.q_queries, n, d, q, 0),
                False,
            )
        transpose(block(s.q_moved, Qp, d), block(s.moved, d, Qp))
        multiply(block(totals.K, d, d), block(s.here, d, Qp), block(s.q_moved, Qp, d), False)
        multiply(block(s.q_on_here, Qp, d), block(s.q_moved, Qp, d), block(t.KT, d, d), False)
        for q in range(Q):
            for k in range(0, d, W):
                store(s.rows, pos[q], k, load(s.rows, pos[q], k) + load(s.q_on_here, q, k))
        transpose(block(s.above, d, Tp), block(s.rows, Tp, d))

    @_compile
    def first_gradient(s, totals, z, T):
        """What moves the first layer's scores, added up by tokens and positions of key and query."""
        d, Tp, Np = s.stream.shape[0], up(T, wide), s.of_query.shape[0]
        for n in range(Np):
            for key in range(0, Tp, W):
                store(s.of_query, n, key, splat(zero))
        for p in range(0, Tp, wide):
            seen = p + wide
            for j in range(p, seen, W):
                inverse, mean = load(s.at, FIRST_INVERSE, j), splat(zero)
                for k in range(d):
                    above = load(s.above, k, j) * inverse
                    store(s.above, k, j, above)
                    mean = mean + above * load(s.added, k, j)
                store(s.at, MEAN, j, mean)
            multiply(
                block(s.strip, seen, wide),
                block(s.values, seen, d),
                block(s.above, d, wide, 0, p),
                True,
            )
            for j in range(0, wide, W):
                mean = load(s.at, MEAN, p + j)
                for key in range(seen):
                    x = z[key]
                    push = load(s.first, key, p + j) * (load(s.strip, key, j) - mean)
                    store(s.strip, key, j, push)
                    store(totals.PP, key, p + j, load(totals.PP, key, p + j) + push)
                    store(totals.PE, x, p + j, load(totals.PE, x, p + j) + push)
            transpose(block(s.turned, wide, seen), block(s.strip, seen, wide))
            for j in range(wide):
                x = z[p + j]
                for key in range(0, seen, W):
                    store(s.of_query, x, key, load(s.of_query, x, key) + load(s.turned, j, key))
        transpose(block(s.of_both, Tp, Np), block(s.of_query, Np, Tp))
        for key in range(Tp):
            x = z[key]
            for n in range(0, Np, W):
                pushes = load(s.of_both, key, n)
                store(totals.EP, key, n, load(totals.EP, key, n) + pushes)
                store(totals.EE, x, n, load(totals.EE, x, n) + pushes)

    @_compile
    def add_up(t, s, totals, tokens, positions, targets, counts, rows, weights, N):
        z, pos = np.zeros(s.first.shape[0], np.int64), np.zeros(s.here.shape[1], np.int64)
        for p in range(s.first.shape[0]):
            s.at[PLACES, p] = p
        for k in range(rows.shape[0]):
            row, weight = rows[k], weights[k]
            Q = counts[row]
            if weight == 0 or Q == 0:
                continue
            for q in range(pos.shape[0]):
                pos[q] = positions[row, q] if q < Q else -1
                s.at[LOOKS, q] = pos[q]
                s.at[TARGETS, q] = targets[row, q] if q < Q else 0
            T = pos[Q - 1] + 1  # what comes later is not looked at
            for p in range(z.shape[0]):
                z[p] = tokens[row, p] if p < T else 0
            first_layer(t, s, z, T)
            second_layer(t, s, pos, Q)
            errors(t, s, totals, weight, Q, N)
            second_gradient(t, s, totals, pos, Q, T)
            first_gradient(s, totals, z, T)

    return add_up, max(unit, wide)
