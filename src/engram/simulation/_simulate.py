"""simulate: choose a space, run in compiled segments, label what was recorded."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, check_finite, read_array
from engram._precision import in_double
from engram._types import ArrayLike
from engram.dynamics import (
    AbstractDynamics,
    AbstractFlow,
    AbstractFold,
    AbstractStepwise,
    Carry,
    Status,
    begin,
    finish,
    moment_of,
    run,
    segment,
)
from engram.dynamics._run import BURST
from engram.observables import (
    SPIKE_FACTOR,
    Events,
    Folds,
    Record,
    events_of_series,
    make_record,
)
from engram.problem import Problem, as_key
from engram.registry import check_table, entries, make
from engram.simulation._dataset import Labelled, label
from engram.simulation._drive import Drained, drive
from engram.simulation._source import source_of
from engram.simulation._space import choose_space, make_system
from engram.simulation._stop import make_stop
from engram.simulation._when import choose_steps
from engram.system import AbstractSystem

_POINTS = 256  # records per compiled segment, at most
_ROOM = 2**20  # numbers in the records of a segment, about
_SECONDS = 0.2  # how long a segment may take, so that Ctrl-C and progress are prompt


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; `partial` holds the dataset of what was recorded until then."""

    def __init__(self, partial: xr.Dataset):
        super().__init__("interrupted; `.partial` holds what was recorded")
        self.partial = partial


def simulate(
    problem: Problem | AbstractSystem | Mapping[str, Any],
    dynamics: Any,
    *,
    system: Any = None,
    start: ArrayLike | None = None,
    record: Sequence[Any] = ("loss", "error", "margins"),
    space: str = "auto",
    key: PRNGKeyArray | int | None = None,
    at: ArrayLike | None = None,
    every: int | None = None,
    points: int | None = None,
    stop: Any = None,
    events: bool | str | AbstractFold | Sequence[Any] = True,
    spike_factor: float = SPIKE_FACTOR,
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    r"""Run a dynamics on a problem and return what was recorded, labelled.

    Args:
        problem: What is to be remembered, computed with in double precision, whatever it holds; or a
            system of your own, whose state then moves as it is; or a table, {"family": "two", ...}.
        dynamics: How W moves: `GradientDescent`, `GradientFlow`, `StochasticGradientDescent`,
            `StochasticGradientFlow` or `PracticalDescent`; or a table, {"kind": "adam", ...}.
        system: What moves for a problem, by its registered name, or a table {"kind": name, ...}; by
            default the matrix W, in the cheapest space.
        start: $W_0$, shape (k, d), zero by default; for a system a state of it, by default its `start()`.
        record: Names of observables; `engram.observables.OBSERVABLES` lists them.
        space: "weights" moves W, "particles" its N x M scores, "margins" (two classes only) the N
            margins; "auto" picks the cheapest. The answer is the same. A system is its own space.
        key: A JAX key or a seed, for dynamics that draw random numbers.
        at: The steps to record, increasing. By default every step up to 10,000 steps, beyond that
            200 on a logarithmic scale. Flows record at their own `times`.
        every: Record every so many steps, and the last.
        points: Record about this many steps, evenly on a logarithmic scale.
        stop: End early: "perfect" at the first step without error, or {"loss": 1e-3} at the first
            with a loss of at most that (likewise "error", "grad_norm").
        events: Look at every step for perfect accuracy, spikes, peaks and forgetting. Or a fold of your own
            (an `engram.dynamics.AbstractFold`), the registered name of one, or a list of
            those in which True stands for engram's own. Of a flow they see the recorded times.
        spike_factor: How far above its running minimum the loss must be in a spike.
        progress: Called with the steps done and the steps in all.

    Returns:
        A dataset with the dimension `step` (or `time` for flows), and `token`, `class`, `row`, `col` as
        needed; the last weights as `final_weights`; the events as variables, NaN where they did
        not happen; how the run ended in the attributes `status` and `stopped_at`.

    Raises:
        Interrupted: On Ctrl-C, with the dataset so far in its `partial`.

    Paper: Section 2.
    """
    options = {
        "system": system, "start": start, "record": record, "space": space, "key": key, "at": at,
        "every": every, "points": points, "stop": stop, "events": events, "spike_factor": spike_factor,
    }  # fmt: skip
    complete = lambda found: _with_source(found, source_of(problem, dynamics, **options))
    try:
        return complete(simulate_arrays(problem, dynamics, progress=progress, **options).dataset())
    except Interrupted as stopped:
        raise Interrupted(complete(stopped.partial)) from None


def _with_source(found: xr.Dataset, source: dict[str, Any]) -> xr.Dataset:
    """A dataset with what it was made of."""
    return found.assign_attrs(found.attrs | source)


@in_double
def simulate_arrays(
    problem: Problem | AbstractSystem | Mapping[str, Any],
    dynamics: Any,
    *,
    system: Any = None,
    start: ArrayLike | None = None,
    record: Sequence[Any] = ("loss", "error", "margins"),
    space: str = "auto",
    key: PRNGKeyArray | int | None = None,
    at: ArrayLike | None = None,
    every: int | None = None,
    points: int | None = None,
    stop: Any = None,
    events: bool | str | AbstractFold | Sequence[Any] = True,
    spike_factor: float = SPIKE_FACTOR,
    progress: Callable[[int, int], None] | None = None,
) -> Labelled:
    """As `simulate`, before a dataset is built of it: for callers that want arrays many times a second."""
    for kind, given in (("problem", problem), ("dynamics", dynamics), ("system", system)):
        if isinstance(given, Mapping):
            check_table(kind, given)
    if isinstance(dynamics, Mapping):
        dynamics = make("dynamics", dynamics)
    if not isinstance(dynamics, AbstractFlow | AbstractStepwise):
        raise InputError(
            f"`dynamics` must be one of engram's dynamics, got {dynamics!r}. "
            "Try `engram.GradientDescent(learning_rate=1.0, steps=100)`."
        )
    if dynamics.needs_key and key is None:
        raise InputError(
            f"`{type(dynamics).__name__}` draws random numbers: pass `key`, a JAX key or a seed."
        )
    key = None if key is None else as_key(key)
    problem = make("problem", problem) if isinstance(problem, Mapping) else problem
    if system is not None and isinstance(problem, Problem):
        problem = make("system", system, problem=problem, law=problem.law)
    system, state, chosen = _place(problem, dynamics, start, space)
    dynamics.check(system)
    system.check(state)
    noted = make_record(record, system, dynamics, key)
    about = {"dynamics": dynamics, "space": chosen}
    fold = _read_events(events, spike_factor)
    if isinstance(dynamics, AbstractFlow):
        if any(option is not None for option in (at, every, points, stop)):
            raise InputError(
                "`at`, `every`, `points` and `stop` count steps, and a flow has none. Give the flow "
                "its `times`."
            )
        with _in_one_line():
            return _flow(system, dynamics, state, noted, fold, about)
    if at is None and not (every or points):
        at = dynamics.record_at
    steps = choose_steps(dynamics.num_steps, at, every, points)
    condition = make_stop(stop, system)
    with _in_one_line():
        return _steps(system, dynamics, state, noted, fold, condition, key, steps, progress, about)


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """A refusal that comes while JAX traces has notes of JAX's own: leave them out."""
    try:
        yield
    except InputError as error:
        raise InputError(*error.args) from None


def _read_events(events: Any, spike_factor: float) -> AbstractFold | None:
    """The fold over all steps: engram's own events, folds by name, other folds, several of them, or none."""
    if events is False:
        return None
    several = isinstance(events, Sequence) and not isinstance(events, str)
    own = Events(np.asarray(spike_factor, float))
    folds = []
    for each in events if several else [events]:
        if isinstance(each, Mapping):
            check_table("event", each)
        each = make("event", each) if isinstance(each, str | Mapping) and each != "events" else each
        folds.append(own if each is True or each == "events" else each)
        if not isinstance(folds[-1], AbstractFold):
            raise InputError(
                f"`events` must be True, False, a fold, a name among {', '.join(entries('event'))}, or a "
                f"list of those, got {each!r}."
            )
    return folds[0] if len(folds) == 1 else Folds(tuple(folds))


def _place(what: Any, dynamics: AbstractDynamics, start: Any, space: str) -> tuple[Any, Any, str]:
    """What moves, where it starts, and the name of the space: of a problem the cheapest one."""
    if isinstance(what, Problem):
        problem = what.astype("float64") if what.probs.dtype != np.float64 else what
        W0 = _read_weights(problem, start)
        chosen = choose_space(problem, dynamics, space)
        return *make_system(problem, dynamics, chosen, jnp.asarray(W0)), chosen
    if not isinstance(what, AbstractSystem):
        raise InputError(
            f"`problem` must be a Problem or a system, got {type(what).__name__}. Make one with "
            "`engram.two_tokens(0.95, 0.75)`, say."
        )
    if space != "auto":
        raise InputError(
            f"`space` belongs to a Problem, got {space!r} with a system. Leave it out."
        )
    state = what.start() if start is None else start
    return what, jax.tree.map(jnp.asarray, state), type(what).__name__


def _read_weights(problem: Problem, start: Any) -> np.ndarray:
    zero = problem.zero_weights
    W = read_array("start", zero if start is None else start)
    if W.shape != zero.shape or W.dtype.kind not in "fiu":
        raise InputError(
            f"`start` must be the weights W_0, shape (k, d) = {zero.shape}, got {W.dtype} of shape "
            f"{W.shape}. Scores become weights with `particles.scores_to_weights`."
        )
    check_finite("start", W)
    return W.astype(np.float64)


@eqx.filter_jit
def _begin(system: Any, dynamics: Any, state: Any, fold: Any, key: Any) -> tuple[Carry, Any]:
    return begin(system, dynamics, state, fold, key), system.kept(state)


@eqx.filter_jit
def _segment(system, dynamics, carry, at, record, fold, stop, key, bursts, waits):
    return segment(
        system, dynamics, carry, at, record,
        fold=fold, stop=stop, key=key, bursts=bursts, waits=waits,
    )  # fmt: skip


@eqx.filter_jit
def _finish(system: Any, dynamics: Any, carry: Carry, fold: Any, key: Any) -> Any:
    kept = system.kept(dynamics.state_of(carry.inner))
    return finish(system, dynamics, carry, fold, key), kept


class _FlowRecord(eqx.Module):
    """What is recorded of a flow, whose `record` sees a state: observables, and what the events need."""

    record: Record
    system: Any
    flow: Any
    fold: Any

    def __call__(self, state: Any) -> Any:
        zero = jnp.zeros((), int)
        moment = moment_of(self.system, self.flow, Carry(zero, state, None, zero))
        if self.fold is None:
            return self.record.at(moment), None
        return self.record.at(moment), state if self.fold.reads_states else moment.look


@eqx.filter_jit
def _run_flow(system: Any, flow: Any, state: Any, record: Any) -> Any:
    path = run(system, flow, state, at=jnp.asarray(flow.times), record=record)
    return path, system.kept(state), system.kept(path.final)


def _length(row: dict[str, Any]) -> int:
    return len(next(iter(row.values()))) if row else 0


def _flow(system, flow, state, noted: Record, fold: AbstractFold | None, about) -> Labelled:
    record = _FlowRecord(noted, system, flow, fold)
    first, *others = flow.attempts()
    path, start, final = jax.device_get(_run_flow(system, first, state, record))
    if path.status == Status.STEP_LIMIT and others:
        path, start, final = jax.device_get(_run_flow(system, others[0], state, record))
    reached = int(path.num_recorded)
    records, series = jax.tree.map(lambda values: values[:reached], path.records)
    found = None
    if fold is not None and reached:
        whose = (system, flow) if fold.reads_states else ()
        found = events_of_series(fold, series, *whose)
    return label(
        times=np.asarray(flow.times)[:reached],
        steps=None,
        records={name: records[name] for name in noted.names},
        about=noted,
        fold=fold,
        found=jax.device_get(found),
        num_events=reached,
        clock=lambda index: np.asarray(flow.times)[index],
        start=start,
        final=final,
        status=Status(int(path.status)),
        stopped_at=float(path.stopped_at),
        num_steps=int(path.num_steps),
        system=system,
        **about,
    )


def segment_size(numbers: int, count: int) -> int:
    """How many records a segment has: a power of four, so that few numbers of records compile again.

    Args:
        numbers: How many numbers are at work in a step, about (`Problem.size`).
        count: How many steps are recorded in all.
    """
    most = max(_ROOM // numbers, 1)
    most = min(_POINTS, max(64, 1 << (most.bit_length() - 1)))
    fours = ((max(count, 1) - 1).bit_length() + 1) // 2
    return min(most, 4**fours)


class _Segments:
    """A run in compiled segments, each about as long as it may take for Ctrl-C and progress to be prompt."""

    def __init__(self, system, dynamics, state, noted, fold, stop, key, steps):
        self.carry, self.first = _begin(system, dynamics, state, fold, key)
        self.steps, self.total = steps, dynamics.num_steps
        self.rows: list[Any] = []
        self.drained, self.status = Drained(), Status.RUNNING
        self._size = segment_size(system.size(state), len(steps))
        # Between records that are close there is no room for a burst.
        bursts = bool(np.diff(steps, prepend=0, append=self.total).max() >= BURST)
        self._go = lambda carry, until: _segment(
            system,
            dynamics,
            carry,
            until,
            noted,
            fold,
            stop,
            key,
            bursts,
            np.array(not self.drained.is_full),
        )
        self._finish = lambda: _finish(system, dynamics, self.carry, fold, key)
        if self.total * system.size(state) > _ROOM:
            # A run that somebody may want to end: this compiles now, so that Ctrl-C is prompt.
            self._finish()
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

    def move(self) -> None:
        """One segment."""
        before, size = self.index, self._size
        horizon = min(before + self._limit, self.total)
        wanted = self.steps[self._position : self._position + size]
        wanted = wanted[wanted <= horizon]
        until = np.full(size, wanted[-1] if len(wanted) else horizon)
        until[: len(wanted)] = wanted
        began = time.perf_counter()
        carry, records, reached = self._go(self.carry, until)
        kept = int(np.asarray(reached)[: len(wanted)].sum())
        rows = jax.tree.map(lambda x: np.asarray(x)[:kept], records)
        took = time.perf_counter() - began
        self.carry, self._position = carry, self._position + kept
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
        """The state that ended a run belongs to the record."""
        if np.isin(self.index, self.steps[: self._position]):
            return
        _, records, _ = self._go(self.carry, np.full(self._size, self.index))
        self.rows.append(jax.tree.map(lambda x: np.asarray(x)[:1], records))
        self.steps = np.append(self.steps[: self._position], self.index)

    def finish(self) -> tuple[Any, Any]:
        """What the fold has found, and the last state."""
        folded, final = jax.device_get(self._finish())
        return self.drained.restored(folded), final


def _steps(system, dynamics, state, noted, fold, stop, key, steps, progress, about) -> Labelled:
    is_flow = dynamics.counts_time
    segments = _Segments(system, dynamics, state, noted, fold, stop, key, steps)
    try:
        drive(segments, progress)
        if segments.status == Status.STOPPED:
            segments.record_end()
        status = Status.COMPLETED if segments.status == Status.RUNNING else segments.status
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    found, final = segments.finish()
    index, steps, rows = segments.index, segments.steps, segments.rows
    # In the order asked for: JAX sorts what it maps over.
    records = {name: np.concatenate([row[name] for row in rows]) for name in noted.names if rows}
    count = _length(records) if noted.names else int((steps <= index).sum())
    labelled = label(
        times=dynamics.time_at(steps[:count]),
        steps=None if is_flow else steps[:count],
        records=records,
        about=noted,
        fold=fold,
        found=found,
        num_events=index + 1,
        clock=dynamics.time_at if is_flow else None,
        start=jax.device_get(segments.first),
        final=final,
        status=status,
        stopped_at=float(dynamics.time_at(index)) if is_flow else index,
        num_steps=index,
        system=system,
        **about,
    )
    if status == Status.INTERRUPTED:
        raise Interrupted(labelled.dataset())
    return labelled
