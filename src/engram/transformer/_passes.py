"""Passes over many sequences: a scan over small batches, shared out among devices."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Float, Integer

from engram._types import Array
from engram.transformer._compiled import CompiledSums, can_compile
from engram.transformer._devices import AXIS, gather, make_mesh, spread
from engram.transformer._gradients import (
    Batch,
    Sums,
    finish,
    first_layer,
    make_tables,
    no_sums,
    sums_from_stream,
    sums_of,
)
from engram.transformer._model import Model
from engram.transformer._task import Sequences

_LEVELS = (0.3, 0.6, 0.9, 1.0)  # quantiles of the numbers of positions; code is compiled for each
_PIECE = 256  # sequences per device and call: about a second at most, so that Ctrl-C is obeyed
_CACHE = 1 << 30  # bytes of cached streams that are worth their memory


class Data(eqx.Module):
    """Sequences as a pass reads them: where the loss looks, packed to the left.

    Args:
        tokens: What is read.
        positions: Where the loss looks, in order; zero beyond `counts`.
        targets: What comes next there.
        counts: How many such positions each sequence has.
        sizes: Numbers of positions for which code is compiled; each sequence takes the next larger.
    """

    tokens: Integer[Array, "S T"]
    positions: Integer[Array, "S Q"]
    targets: Integer[Array, "S Q"]
    counts: Integer[Array, " S"]
    sizes: tuple[int, ...] = eqx.field(static=True)


def pack(sequences: Sequences, levels: tuple[float, ...]) -> Data:
    """Find where the loss looks; one size is compiled for each of these quantiles of the counts."""
    in_loss, T = sequences.in_loss, sequences.length
    counts = in_loss.sum(axis=1).astype(np.int32)
    most = max(int(counts.max()), 1)
    first = np.argsort(~in_loss, axis=1, kind="stable")[:, :most].astype(np.int32)
    inside = np.arange(most) < counts[:, None]
    positions = np.where(inside, first, 0)
    targets = np.take_along_axis(sequences.targets, positions, axis=1)
    ends = np.quantile(counts, levels)
    sizes = sorted({min(8 * int(np.ceil(max(end, 1) / 8)), T, most) for end in ends})
    return Data(sequences.inputs, positions, targets, counts, tuple(sizes))


class Share(NamedTuple):
    """Which sequences each device takes, batch by batch, and how much each counts."""

    rows: Integer[Array, "*D C B"]
    weights: Float[Array, "*D C B"]


def share_out(
    counts: np.ndarray, rows: np.ndarray, weights: np.ndarray, num_devices: int, size: int
) -> list[Share]:
    """Deal sequences to devices in small batches of like ones, in pieces of about a second."""
    order = np.argsort(counts[rows], kind="stable")
    num = -(-len(rows) // (num_devices * size)) * num_devices * size
    filled = np.zeros((2, num))
    filled[:, : len(rows)] = rows[order], weights[order]
    # (batch, device, place): neighbours in the order go to different devices.
    chosen, amounts = filled.reshape(2, -1, num_devices, size).swapaxes(1, 2)
    step = min(max(_PIECE // size, 1), chosen.shape[1])
    pieces = []
    for k in range(0, chosen.shape[1], step):
        pad = ((0, 0), (0, step - chosen[:, k : k + step].shape[1]), (0, 0))
        cut = [np.pad(part[:, k : k + step], pad) for part in (chosen, amounts)]
        pieces.append(Share(cut[0].astype(np.int32), cut[1]))
    return pieces


def _batch(data: Data, rows: Array, weights: Array, size: int) -> Batch:
    inside = jnp.arange(size)[None] < jnp.asarray(data.counts)[rows][:, None]
    return Batch(
        jnp.asarray(data.tokens)[rows].astype(int),
        jnp.asarray(data.positions)[rows, :size].astype(int),
        jnp.asarray(data.targets)[rows, :size].astype(int),
        jnp.where(inside, weights[:, None], 0),
    )


def scan_sums(model: Model, data: Data, share: Any, streams: Any, trained: tuple[str, ...]) -> Sums:
    """Sums over batch after batch: one device's part of a pass."""
    tables = make_tables(model)
    nothing = no_sums(model, trained)

    def compute(size: int, rows: Any, weights: Any, stream: Any) -> Sums:
        batch = _batch(data, rows, weights, size)
        if stream is not None:
            return sums_from_stream(model, tables, stream, batch, trained)[0]
        return sums_of(model, tables, batch, trained)

    branches = [lambda *_: nothing, *(functools.partial(compute, size) for size in data.sizes)]

    def add(sums: Sums, part: Any):
        rows, weights, stream = part
        most = jnp.where(weights != 0, jnp.asarray(data.counts)[rows], 0).max()
        which = jnp.where(most > 0, 1 + jnp.searchsorted(jnp.asarray(data.sizes), most), 0)
        part_sums = jax.lax.switch(which, branches, rows, weights, stream)
        return jax.tree.map(jnp.add, sums, part_sums), None

    sums, _ = jax.lax.scan(add, nothing, (share.rows, share.weights, streams))
    return finish(model, sums)


@functools.partial(jax.jit, static_argnames=("mesh", "trained"))
def _piece(
    model: Model, data: Data, share: Share, streams: Any, so_far: Any, *, mesh: Mesh, trained: Any
) -> Sums:
    """Add one piece of a pass to what came before; every device does its share."""

    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(), P(AXIS), P(AXIS)),
        out_specs=P(),
        check_vma=False,
    )
    def on_device(model: Model, data: Data, share: Share, streams: Any) -> Sums:
        share, streams = jax.tree.map(lambda array: array[0], (share, streams))
        return jax.lax.psum(scan_sums(model, data, share, streams, trained), AXIS)

    return jax.tree.map(jnp.add, so_far, on_device(model, data, share, streams))


@functools.partial(jax.jit, static_argnames=("look", "mesh"))
def look_at_streams(
    look: Callable[..., Any], model: Model, data: Data, share: Share, *, mesh: Mesh
) -> Any:
    """`look(model, data, rows, stream)`, batch by batch: what it sees in the stream after the first layer."""

    def on_device(model: Model, data: Data, rows: Any) -> Any:
        tables = make_tables(model)

        def of(rows: Any) -> Any:
            first = first_layer(tables, jnp.asarray(data.tokens)[rows].astype(int))
            return look(model, data, rows, first.start + first.added)

        return jax.tree.map(lambda seen: seen[None], jax.lax.map(of, rows[0]))

    return jax.shard_map(
        on_device, mesh=mesh, in_specs=(P(), P(), P(AXIS)), out_specs=P(AXIS), check_vma=False
    )(model, data, share.rows)


def _all_of_it(model: Model, data: Data, rows: Any, stream: Any) -> Any:
    return stream


class Passes:
    """Losses and gradients of a model over its sequences, on all the devices of a mesh.

    Args:
        model: All matrices; the trained ones are replaced in each call.
        sequences: The data.
        trained: Which matrices have gradients.
        size: Sequences per small batch.
        mesh: The devices, by default all there are.
        whole: Whether passes will be over all sequences; then what is frozen may be kept.
        compiled: Whether to use the kernel that numba compiles (for some seconds), where it can compute
            this. It is several times as fast, and the same but for rounding.
    """

    def __init__(
        self,
        model: Model,
        sequences: Sequences,
        trained: tuple[str, ...],
        *,
        size: int | None = None,
        mesh: Mesh | None = None,
        whole: bool = True,
        compiled: bool = False,
    ):
        self.mesh: Mesh = make_mesh() if mesh is None else mesh
        self.size: int = (1 if jax.default_backend() == "cpu" else 64) if size is None else size
        self.trained: tuple[str, ...] = trained
        self.dtype: np.dtype = model.W_E.dtype
        self.counts: Data = pack(sequences, _LEVELS)
        self.data: Data = spread(self.counts, self.mesh, shared=False)
        self.model: Model = spread(model, self.mesh, shared=False)
        self.num_positions: int = int(self.counts.counts.sum())
        self.num_sequences: int = len(sequences.tokens)
        everything = np.arange(self.num_sequences)
        self.shares: list[Share] = self._share(everything, np.ones(self.num_sequences))
        self.pieces: list[Share] = [spread(share, self.mesh, shared=True) for share in self.shares]
        self._compiled: CompiledSums | None = None
        if compiled and can_compile(model, trained):
            self._compiled = CompiledSums(model, self.counts, self.mesh)
        self._streams: list[Any] = [None] * len(self.pieces)
        kept = self.num_sequences * sequences.length * model.dim * self.dtype.itemsize
        if whole and "wk1" not in trained and kept <= _CACHE:
            self._streams = [
                look_at_streams(_all_of_it, self.model, self.data, share, mesh=self.mesh)
                for share in self.pieces
            ]

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled kernel does the sums."""
        return self._compiled is not None

    def _share(self, rows: np.ndarray, weights: np.ndarray) -> list[Share]:
        devices = self.mesh.devices.size
        shares = share_out(np.asarray(self.counts.counts), rows, weights, devices, self.size)
        return [Share(share.rows, share.weights.astype(self.dtype)) for share in shares]

    def measure(
        self,
        state: dict[str, Any],
        law: np.ndarray | None = None,
        report: Callable[[], None] | None = None,
    ) -> Sums:
        """Mean loss and accuracy over the positions that count, and the gradient of that loss.

        Args:
            state: The trained matrices.
            law: Weights of the sequences, by default all alike; sequences of weight zero cost nothing.
                The gradient is linear in it, so that batches are right on average; loss and accuracy
                are means over the positions of the sequences it names.
            report: Called between pieces of a second or less.
        """
        shares, named = self.shares, self.num_positions
        if law is not None:
            rows = np.flatnonzero(law)
            weights = np.asarray(law, np.float64)[rows] * self.num_sequences
            shares, named = self._share(rows, weights), weights @ self.counts.counts[rows]
        if self._compiled is not None:
            loss, hits, grads = self._compiled.sums(state, shares, report)
        else:
            loss, hits, grads = self._sums(state, shares, report)
        mean = lambda grad: (grad / self.num_positions).astype(self.dtype)
        part = (lambda total: total / named) if named else (lambda total: np.float64("nan"))
        return Sums(
            part(loss),
            part(hits),
            {name: mean(grad) for name, grad in grads.items() if name in self.trained},
        )

    def _sums(
        self, state: dict[str, Any], shares: list[Share], report: Callable[[], None] | None
    ) -> Sums:
        """Sums by JAX, added up over all devices."""
        model = self.model.replace(spread(state, self.mesh, shared=False))
        pieces, streams = self.pieces, self._streams
        if shares is not self.shares:
            pieces = [spread(share, self.mesh, shared=True) for share in shares]
            streams = [None] * len(pieces)
        zero = np.zeros((), self.dtype)
        empty = Sums(zero, zero, {name: np.zeros_like(state[name]) for name in self.trained})
        sums = spread(empty, self.mesh, shared=False)
        for share, stream in zip(pieces, streams, strict=True):
            sums = _piece(
                model, self.data, share, stream, sums, mesh=self.mesh, trained=self.trained
            )
            if report is not None:
                jax.block_until_ready(sums)
                report()
        return gather(sums)
