r"""W_O^2 alone: with all else frozen, attention's reading is a fixed feature of each position.

The logits are $\langle u_y, h_t \rangle + \langle u_y, W_O^2 W_V^2 c_t \rangle$, affine in $W_O^2$: softmax
regression, convex, on features $c_t$ that are computed once.
"""

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
from engram.transformer._model import Model
from engram.transformer._passes import Data, Passes, look_at_streams
from engram.transformer._sums import Sums, errors_of, features

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


class _Filling:
    """One device's rows while they are being computed, laid out as they will be read."""

    def __init__(self, blocks: int, d: int, N: int, dtype: Any):
        zeros = lambda *shape, dtype=dtype: np.zeros((1, blocks, *shape, _ROWS), dtype)
        self.parts = [zeros(d), zeros(N), zeros(dtype=np.uint8), zeros()]
        self._filled = 0

    def add(self, read: np.ndarray, base: np.ndarray, targets: np.ndarray) -> None:
        block, row = np.divmod(np.arange(self._filled, self._filled + len(targets)), _ROWS)
        for part, values in zip(self.parts, (read, base, targets, 1), strict=True):
            part[0, block, ..., row] = values
        self._filled += len(targets)


def _pack(passes: Passes, tell: Callable[[], None] | None) -> Rows:
    """Compute every position's features, once."""
    data, mesh = passes.counts, passes.mesh
    used = [np.where(share.weights > 0, data.counts[share.rows], 0) for share in passes.shares]
    most = int(np.sum([counts.sum(axis=(1, 2)) for counts in used], axis=0).max())  # on a device
    blocks = max(-(-most // _ROWS), 1)
    d, N = passes.model.dim, passes.model.W_U.shape[0]
    mine: dict[int, _Filling] = {}
    for share, counts, on_mesh in zip(passes.shares, used, passes.pieces, strict=True):
        found = look_at_streams(_features, passes.model, passes.data, on_mesh, mesh=mesh)
        for read, base in zip(*(part.addressable_shards for part in found), strict=True):
            device = read.index[0].start or 0
            inside = np.arange(data.positions.shape[1]) < counts[device][..., None]
            if device not in mine:
                mine[device] = _Filling(blocks, d, N, passes.dtype)
            targets = np.asarray(data.targets)[share.rows[device]][inside]
            mine[device].add(
                np.asarray(read.data)[0][inside], np.asarray(base.data)[0][inside], targets
            )
        if tell is not None:
            tell()
    sharding = NamedSharding(mesh, P(AXIS))

    def join(part: int) -> jax.Array:
        """Hand one part over to the devices, and let go of it here."""
        take = lambda index: mine[index[0].start or 0].parts[part]
        shape = next(iter(mine.values())).parts[part].shape[1:]
        made = jax.make_array_from_callback((mesh.devices.size, *shape), sharding, take)
        made.block_until_ready()
        for filling in mine.values():
            filling.parts[part] = None  # pyright: ignore
        return made

    return Rows(*(join(part) for part in range(4)))


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

    def __init__(self, passes: Passes, tell: Callable[[], None] | None = None):
        self._mesh, self._total = passes.mesh, passes.num_positions
        model = gather((passes.model.W_U, passes.model.layer2.W_V))
        self._U, self._V = (np.asarray(matrix, np.float64) for matrix in model)
        self._dtype = passes.dtype
        self._rows = _pack(passes, tell)

    def measure_all(self, state: dict[str, Any]) -> Sums:
        """As `Passes.measure`, for a stack of matrices: each result has a leading axis."""
        U, V = self._U, self._V
        UO = (U @ np.asarray(state["wo2"], np.float64) @ V).astype(self._dtype)
        loss, hits, grads = gather(
            _pass(self._rows, spread(UO, self._mesh, shared=False), mesh=self._mesh)
        )
        grad = U.T @ (grads.astype(np.float64) / self._total) @ V.T
        return Sums(loss / self._total, hits / self._total, {"wo2": grad.astype(self._dtype)})
