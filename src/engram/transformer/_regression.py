r"""W_O^2 alone: with all else frozen, attention's reading is a fixed feature of each position.

The logits are $\langle u_y, h_t \rangle + \langle u_y, W_O^2 W_V^2 c_t \rangle$, affine in $W_O^2$: softmax
regression, convex, on features $c_t$ that are computed once.
"""

import collections
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Float, Integer

from engram._types import Array
from engram.transformer._devices import AXIS, gather, spread
from engram.transformer._gradients import Sums, errors_of, features
from engram.transformer._model import Model
from engram.transformer._passes import Data, Passes, look_at_streams

_ROWS = 256  # positions at a time: their logits stay in the cache


class Rows(NamedTuple):
    """All positions that count, device by device, in blocks."""

    read: Float[Array, "D K d R"]
    base: Float[Array, "D K N R"]
    targets: Integer[Array, "D K R"]
    weights: Float[Array, "D K R"]


def _features(model: Model, data: Data, rows: Any, stream: Any) -> tuple[Any, Any]:
    """What attention reads where the loss looks, and the logits without W_O^2."""
    positions = jnp.asarray(data.positions)[rows].astype(int)
    here, *_, read = features(model, stream, positions)
    return read, here @ model.W_U.T


def _pack(passes: Passes, report: Callable[[], None] | None) -> Rows:
    """Compute every position's features once, laid out on the host as the devices will read them."""
    data, mesh = passes.counts, passes.mesh
    used = [np.where(share.weights > 0, data.counts[share.rows], 0) for share in passes.shares]
    most = int(np.sum([counts.sum(axis=(1, 2)) for counts in used], axis=0).max())  # on a device
    d, N = passes.model.dim, passes.model.W_U.shape[0]
    zeros = lambda *shape, dtype=passes.dtype: np.zeros(
        (1, max(-(-most // _ROWS), 1), *shape, _ROWS), dtype
    )
    empty = lambda: [zeros(d), zeros(N), zeros(dtype=np.dtype(np.uint8)), zeros()]
    parts: dict[int, list[np.ndarray]] = collections.defaultdict(empty)  # by device
    filled: dict[int, int] = collections.Counter()
    for share, counts, on_mesh in zip(passes.shares, used, passes.pieces, strict=True):
        computed = look_at_streams(_features, passes.model, passes.data, on_mesh, mesh=mesh)
        for read, base in zip(*(part.addressable_shards for part in computed), strict=True):
            device = read.index[0].start or 0
            inside = np.arange(data.positions.shape[1]) < counts[device][..., None]
            values = [np.asarray(part.data)[0][inside] for part in (read, base)]
            values += [np.asarray(data.targets)[share.rows[device]][inside], np.ones(inside.sum())]
            block, row = np.divmod(filled[device] + np.arange(inside.sum()), _ROWS)
            for part, value in zip(parts[device], values, strict=True):
                part[0, block, ..., row] = value
            filled[device] += len(row)
        if report is not None:
            report()
    sharding = NamedSharding(mesh, P(AXIS))

    def join() -> jax.Array:
        """Hand one part over to the devices, and let go of it here."""
        mine = {device: each.pop(0) for device, each in parts.items()}
        shape = (mesh.devices.size, *next(iter(mine.values())).shape[1:])
        take = lambda index: mine[index[0].start or 0]
        return jax.make_array_from_callback(shape, sharding, take).block_until_ready()

    return Rows(*(join() for _ in Rows._fields))


@functools.partial(jax.jit, static_argnames=("mesh",))
def _pass(rows: Rows, UO: Float[Array, "L N d"], *, mesh: Mesh) -> Any:
    """Losses, hits and the gradients in U W_O^2 W_V^2 of several such matrices at once."""

    def one(rows: Rows, UO: Any) -> Any:
        def add(sums: Any, block: Rows):
            def of(UO: Any) -> Any:
                logits = block.base + UO @ block.read
                targets = block.targets.astype(int)
                losses, hits, push = errors_of(logits, targets, block.weights)
                return losses.sum(), hits.sum(), push @ block.read.T

            return jax.tree.map(jnp.add, sums, jax.vmap(of)(UO)), None

        zero = jnp.zeros(len(UO), UO.dtype)
        sums, _ = jax.lax.scan(add, (zero, zero, jnp.zeros_like(UO)), Rows(*(x[0] for x in rows)))
        return jax.lax.psum(sums, AXIS)

    return jax.shard_map(
        one, mesh=mesh, in_specs=(P(AXIS), P()), out_specs=P(), check_vma=False
    )(rows, UO)  # fmt: skip


class Regression:
    """Losses and gradients in W_O^2 alone, of several W_O^2 side by side."""

    def __init__(self, passes: Passes, report: Callable[[], None] | None = None):
        self._mesh, self._total = passes.mesh, passes.num_positions
        model = gather((passes.model.W_U, passes.model.layer2.W_V))
        self._U, self._V = (np.asarray(matrix, np.float64) for matrix in model)
        self._dtype = passes.dtype
        self._rows = _pack(passes, report)

    def measure_all(self, state: dict[str, Any]) -> Sums:
        """As `Passes.measure`, for a stack of matrices: each result has a leading axis."""
        U, V = self._U, self._V
        UO = (U @ np.asarray(state["wo2"], np.float64) @ V).astype(self._dtype)
        loss, hits, grads = gather(
            _pass(self._rows, spread(UO, self._mesh, shared=False), mesh=self._mesh)
        )
        grad = U.T @ (grads.astype(np.float64) / self._total) @ V.T
        return Sums(loss / self._total, hits / self._total, {"wo2": grad.astype(self._dtype)})
