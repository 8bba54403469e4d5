"""Sums and maps over tokens in blocks, so that memory does not grow with N times M.

Where JAX has a mesh (`jax.set_mesh`), its devices share the tokens.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from engram._types import Array

# A block of scores near this many entries stays in cache between the matrix products and the
# exponentials; fewer rows than the second number would slow the products down, but beyond
# the third memory counts for more.
_ENTRIES = 2**19
_LEAST_ROWS = 256
_MOST_ENTRIES = 2**25


def choose_block(N: int, M: int, block_size: int | None) -> int:
    """How many tokens at a time: as asked, or few enough to fit, in blocks of equal length."""
    if block_size is not None:
        return min(N, block_size)
    rows = max(_ENTRIES, min(_LEAST_ROWS * M, _MOST_ENTRIES)) // M
    num_blocks = -(-N // max(rows, 1))
    return -(-N // num_blocks)


def map_blocks(fn: Callable[[Any], Any], rows: Any, block: int) -> Any:
    """Apply `fn`, from arrays with one row per token to arrays with one row per token."""
    devices = _devices(_num_rows(rows))
    if devices is None:
        return _map(fn, rows, block)
    share = P(devices.axis_names)
    each = lambda rows: _map(fn, rows, block)
    even, rest = _cut(rows, _num_rows(rows) // devices.size * devices.size)
    parts = [jax.shard_map(each, in_specs=share, out_specs=share, check_vma=False)(even)]
    parts += [fn(rest)] * (_num_rows(rest) > 0)
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *parts)


def sum_blocks(fn: Callable[[Any], Any], rows: Any, block: int) -> Any:
    """Add up `fn` over blocks of tokens."""
    devices = _devices(_num_rows(rows))
    if devices is None:
        return _sum(fn, rows, block)
    names = devices.axis_names
    each = lambda rows: jax.lax.psum(_sum(fn, rows, block), names)
    even, rest = _cut(rows, _num_rows(rows) // devices.size * devices.size)
    total = jax.shard_map(each, in_specs=P(names), out_specs=P(), check_vma=False)(even)
    return jax.tree.map(jnp.add, total, fn(rest)) if _num_rows(rest) else total


def _devices(tokens: int) -> AbstractMesh | None:
    """Devices to share the tokens among; none where they share something already, in another way."""
    mesh = jax.sharding.get_abstract_mesh()
    is_free = all(kind == AxisType.Auto for kind in mesh.axis_types)
    return mesh if is_free and 1 < mesh.size <= tokens else None


def _map(fn: Callable[[Any], Any], rows: Any, block: int) -> Any:
    N = _num_rows(rows)
    if block >= N:
        return fn(rows)
    head, tail = _split(rows, block)
    whole = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), jax.lax.map(fn, head))
    if _num_rows(whole) == N:
        return whole
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), whole, fn(tail))


def _sum(fn: Callable[[Any], Any], rows: Any, block: int) -> Any:
    N = _num_rows(rows)
    if block >= N:
        return fn(rows)
    head, tail = _split(rows, block)
    add = lambda total, part: jax.tree.map(jnp.add, total, part)
    first = jax.tree.map(lambda a: a[0], head)
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(fn, first))
    total, _ = jax.lax.scan(lambda total, part: (add(total, fn(part)), None), zero, head)
    return total if N % block == 0 else add(total, fn(tail))


def transposed_dot(A: Array, B: Array) -> jax.Array:
    """`A.T @ B`, a sum over rows."""
    # XLA's float64 product on the CPU is half as fast when it must also transpose.
    if A.dtype == jnp.float64 and jax.default_backend() == "cpu":
        return jnp.matmul(jax.lax.optimization_barrier(A.T), B)
    return jnp.matmul(A.T, B)


def _num_rows(rows: Any) -> int:
    return len(jax.tree.leaves(rows)[0])


def _split(rows: Any, block: int) -> tuple[Any, Any]:
    """Whole blocks, stacked, and the rows that are left over."""
    head, tail = _cut(rows, _num_rows(rows) // block * block)
    return jax.tree.map(lambda a: a.reshape(-1, block, *a.shape[1:]), head), tail


def _cut(rows: Any, count: int) -> tuple[Any, Any]:
    """The first so many rows, and the others."""
    return jax.tree.map(lambda a: a[:count], rows), jax.tree.map(lambda a: a[count:], rows)
