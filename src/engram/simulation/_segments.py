"""What moves a run: compiled segments of steps, or a flow as a whole."""

import dataclasses
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError
from engram._memory_limits import check_fits
from engram._programs import host_program
from engram._types import PyTree
from engram.dynamics import BURST, Carry, Context, Drained, Status, Trajectory, moment_of, run
from engram.observables import Record, events_of_series

_POINTS = 256  # records per compiled segment, at most
_ROOM = 2**20  # numbers in the records of a segment, about
_LARGE = 2**26  # from so many numbers on it is asked whether records fit into memory
_SECONDS = 0.2  # how long a segment may take, so that Ctrl-C and progress are prompt


@host_program
def _begin(context: Context, state: PyTree) -> tuple[Carry, Any]:
    return context.begin(state), context.system.kept(state)


@host_program
def _segment(context: Context, carry: Carry, at: Any, record: Any, bursts: bool, waits: Any) -> Any:
    return context.segment(carry, at, record, bursts=bursts, waits=waits)


@host_program
def _finish(context: Context, carry: Carry) -> Any:
    kept = context.system.kept(context.dynamics.state_of(carry.inner))
    return context.finish(carry), kept


def segment_size(numbers: int, count: int) -> int:
    """How many records a segment has: a power of four, so that few numbers of records compile again.

    Args:
        numbers: How many numbers are at work in a step, about (`Problem.size`).
        count: How many steps are recorded in all.
    """
    most = max(_ROOM // numbers, 1)
    least = 64 if numbers <= _ROOM else 4  # of millions of numbers each, a few are enough
    most = min(_POINTS, max(least, 1 << (most.bit_length() - 1)))
    if numbers > _ROOM:
        return min(most, max(count, 1))  # a look takes longer than compiling again
    fours = ((max(count, 1) - 1).bit_length() + 1) // 2
    return min(most, 4**fours)


def _check_records(context: Context, record: Record, carry: Carry, count: int) -> None:
    """Refuse records that do not fit into memory; XLA would end the process."""
    if context.system.size(context.dynamics.state_of(carry.inner)) * count < _LARGE:
        return
    shapes = eqx.filter_eval_shape(record, context.system, context.dynamics, carry)
    sizes = {name: count * x.size * x.dtype.itemsize for name, x in shapes.items()}
    try:
        check_fits(2 * sum(sizes.values()), records=count)
    except InputError as error:
        largest = max(sizes, key=lambda name: sizes[name])
        hint = f"Record less often with `points`, or leave {largest!r} out of `record`."
        raise InputError(f"{str(error).removesuffix('Choose smaller ones.')}{hint}") from None


class Segments:
    """A run in compiled segments, each about as long as it may take for Ctrl-C and progress to be prompt.

    Args:
        context: What the whole run shares.
        state: Where it starts.
        record: What to record.
        steps: When to record, increasing.
    """

    def __init__(self, context: Context, state: PyTree, record: Record, steps: np.ndarray):
        self.carry, self.first = _begin(context, state)
        self.context, self.record, self.steps = context, record, steps
        self.total = context.dynamics.num_steps
        self.rows: list[Any] = []
        self.drained, self.status = Drained(), Status.RUNNING
        size = context.system.size(state)
        _check_records(context, record, self.carry, len(steps))
        self._size = segment_size(size, len(steps))
        # Between records that are close there is no room for a burst.
        self._bursts = bool(np.diff(steps, prepend=0, append=self.total).max() >= BURST)
        if self.total * size > _ROOM:
            # A run that somebody may want to end: this compiles now, so that Ctrl-C is prompt.
            _finish(context, self.carry)
        self._position, self._limit, self._is_measured = 0, 32 * BURST, False

    @property
    def index(self) -> int:
        return int(self.carry.index)

    @property
    def so_far(self) -> tuple[int, int]:
        return self.index, self.total

    @property
    def is_over(self) -> bool:
        to_come = self.index < self.total or self._position < len(self.steps)
        return self.status != Status.RUNNING or not to_come

    def _go(self, until: np.ndarray) -> Any:
        waits = np.array(not self.drained.is_full)
        return _segment(self.context, self.carry, until, self.record, self._bursts, waits)

    def move(self) -> None:
        """One segment."""
        before, size = self.index, self._size
        horizon = min(before + self._limit, self.total)
        wanted = self.steps[self._position : self._position + size]
        wanted = wanted[wanted <= horizon]
        until = np.full(size, wanted[-1] if len(wanted) else horizon)
        until[: len(wanted)] = wanted
        began = time.perf_counter()
        carry, records, reached = self._go(until)
        kept = int(np.asarray(reached)[: len(wanted)].sum())
        rows = jax.tree.map(lambda x: np.asarray(x)[:kept], records)
        took = time.perf_counter() - began
        self._position += kept
        self.rows.append(rows)
        folded = self.drained.take(carry.folded)
        self.carry = Carry(carry.index, carry.inner, folded, carry.status)
        if self._is_measured:  # the first segment also compiles
            # By the steps really made: records may have ended the segment before its limit.
            rate = (self.index - before) / max(took, 1e-6)
            self._limit = int(np.clip(rate * _SECONDS, 64, 4 * self._limit))
            # Whole bursts, so that no result depends on how fast the machine is.
            self._limit -= self._limit % BURST
        self._is_measured = True
        self.status = Status(int(carry.status))

    def save(self) -> None:
        """Records are kept as they come."""

    def record_end(self) -> None:
        """The state at which a run was stopped belongs to the record."""
        if self.status != Status.STOPPED or self.index in self.steps[: self._position]:
            return
        _, records, _ = self._go(np.full(self._size, self.index))
        self.rows.append(jax.tree.map(lambda x: np.asarray(x)[:1], records))
        self.steps = np.append(self.steps[: self._position], self.index)

    def path(self) -> tuple[Trajectory, Any]:
        """What was recorded, on the host, and what is kept of the first state."""
        folded, final = jax.device_get(_finish(self.context, self.carry))
        # In the order asked for: JAX sorts what it maps over.
        names = self.record.names if self.rows else ()
        records = {name: np.concatenate([row[name] for row in self.rows]) for name in names}
        count = int((self.steps <= self.index).sum())
        if self.record.names:
            count = max(map(len, records.values()), default=0)
        status = Status.COMPLETED if self.status == Status.RUNNING else self.status
        path = Trajectory(
            times=self.steps[:count],
            records=records,
            folded=self.drained.restored(folded),
            final=final,
            status=np.asarray(status),
            stopped_at=np.asarray(self.index),
            num_recorded=np.asarray(count),
            num_steps=np.asarray(self.index),
        )
        return path, jax.device_get(self.first)


class _FlowRecord(eqx.Module):
    """What is recorded of a flow, whose `record` sees a state: observables, and what the events need."""

    record: Record
    context: Context

    def __call__(self, state: PyTree) -> Any:
        zero, fold = jnp.zeros((), int), self.context.fold
        carry = Carry(zero, state, None, zero)
        moment = moment_of(self.context.system, self.context.dynamics, carry)
        series = None if fold is None else state if fold.reads_states else moment.look
        return self.record.at(moment), series


@host_program
def _run_flow(flow: Any, context: Context, state: PyTree, record: Record) -> Any:
    times, system = jnp.asarray(flow.times), context.system
    path = run(system, flow, state, at=times, record=_FlowRecord(record, context))
    return path, system.kept(state), system.kept(path.final)


def flow_path(context: Context, state: PyTree, record: Record) -> tuple[Trajectory, Any]:
    """What is recorded of a flow, on the host, and what is kept of the first state."""
    flow, fold = context.dynamics, context.fold
    first, *others = flow.attempts()
    path, start, final = jax.device_get(_run_flow(first, context, state, record))
    if path.status == Status.STEP_LIMIT and others:
        path, start, final = jax.device_get(_run_flow(others[0], context, state, record))
    reached = int(path.num_recorded)
    records, series = jax.tree.map(lambda values: values[:reached], path.records)
    folded = None
    if fold is not None and reached:
        whose = (context.system, flow) if fold.reads_states else ()
        folded = jax.device_get(events_of_series(fold, series, *whose))
    times, records = flow.times[:reached], {name: records[name] for name in record.names}
    path = dataclasses.replace(path, times=times, records=records, folded=folded, final=final)
    return path, start
