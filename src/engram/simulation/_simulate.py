"""simulate: choose a space, run in compiled segments, label what was recorded."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, check_count, read_array
from engram._devices import shared_among
from engram._precision import in_double
from engram._types import ArrayLike, Space, StateLike, Table
from engram.dynamics import (
    AbstractDynamics,
    AbstractFlow,
    AbstractFold,
    AbstractStepwise,
    Context,
    Status,
)
from engram.memory import MemorySystem
from engram.observables import SPIKE_FACTOR, Events, Folds, Record, make_record
from engram.problem import Problem, as_key
from engram.registry import check_table, entries, make
from engram.simulation._dataset import Labelled, label
from engram.simulation._drive import drive
from engram.simulation._segments import Segments, flow_path
from engram.simulation._source import Request, source_of
from engram.simulation._space import check_space, choose_space, make_system
from engram.simulation._stop import make_stop
from engram.simulation._when import When
from engram.system import AbstractSystem


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; `partial` holds the dataset of what was recorded until then."""

    def __init__(self, partial: xr.Dataset):
        super().__init__("interrupted; `.partial` holds what was recorded")
        self.partial = partial


def simulate(
    problem: Problem | AbstractSystem | Table,
    dynamics: AbstractDynamics | Table,
    *,
    system: str | Table | None = None,
    start: StateLike | None = None,
    record: str | Sequence[str | Table] = ("loss", "error", "margins"),
    space: Space = "auto",
    key: PRNGKeyArray | int | None = None,
    when: When | None = None,
    at: ArrayLike | None = None,
    every: int | None = None,
    points: int | None = None,
    stop: float | str | Mapping[str, float] | None = None,
    events: bool | str | AbstractFold | Table | Sequence[bool | str | AbstractFold | Table] = True,
    spike_factor: float = SPIKE_FACTOR,
    devices: int = 1,
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
        when: Which steps to record, `When(at=...)`, `When(every=...)` or `When(points=...)`; by default every
            step up to 10,000 steps, beyond that 200 on a logarithmic scale. Flows have `times`.
        at: Short for `when=When(at=...)`, and so are `every` and `points`.
        every: Record every so many steps, and the last.
        points: Record about this many steps, evenly on a logarithmic scale.
        stop: End early: "perfect" at the first step without error, or a number at the first with a loss of
            at most that; {"error": 0.1} and {"grad_norm": 1e-3} are bounds on those.
        events: Look at every step for perfect accuracy, spikes, peaks and forgetting. Or a fold of your own
            (an `engram.dynamics.AbstractFold`), the registered name of one, or a list of
            those in which True stands for engram's own. Of a flow they see the recorded times.
        spike_factor: How far above its running minimum the loss must be in a spike.
        devices: Number of JAX devices that share the tokens of a large memory, moved as weights; results
            then agree to rounding. `engram.use_devices` makes several of a CPU's cores.
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
        "system": system, "start": start, "record": record, "space": space, "key": key, "when": when,
        "at": at, "every": every, "points": points, "stop": stop, "events": events,
        "spike_factor": spike_factor, "devices": devices,
    }  # fmt: skip
    return simulate_arrays(problem, dynamics, progress=progress, **options).dataset()


@in_double
def simulate_arrays(
    problem: Problem | AbstractSystem | Table,
    dynamics: AbstractDynamics | Table,
    *,
    when: When | None = None,
    at: ArrayLike | None = None,
    every: int | None = None,
    points: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Labelled:
    """As `simulate`, before a dataset is built of it: for callers that want arrays many times a second."""
    short = When(at, every, points)
    if when is not None and not short.is_default:
        raise InputError(
            "`when` and `at`, `every` or `points` exclude each other. Give `when` alone."
        )
    request = Request(problem, dynamics, when=when or short, **options)
    context, state, record, space, steps = _read(request)
    complete = functools.partial(
        label, context, record, space=space, source=lambda: source_of(request)
    )
    with _in_one_line(), shared_among(request.devices):
        if steps is None:
            return complete(*flow_path(context, state, record))
        segments = Segments(context, state, record, steps)
        try:
            drive(segments, progress)
            segments.record_end()
        except KeyboardInterrupt:
            segments.status = Status.INTERRUPTED
        labelled = complete(*segments.path())
    if segments.status == Status.INTERRUPTED:
        raise Interrupted(labelled.dataset())
    return labelled


def _read(request: Request) -> tuple[Context, Any, Record, str, np.ndarray | None]:
    """What runs, from where, what is recorded, in which space, and at which steps; None for a flow."""
    problem, dynamics, system, key = request.problem, request.dynamics, request.system, request.key
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
    check_count("devices", request.devices)
    where = request.space
    if request.devices > 1 and isinstance(problem, Problem):
        if where not in ("auto", "weights"):
            raise InputError(
                f"`devices` share the tokens of a memory that moves as weights, got space={where!r}. "
                "Leave one of them out."
            )
        where = "weights"
    system, state, space = _place(problem, dynamics, request.start, where)
    dynamics.check(system)
    system.check(state)
    record = make_record(request.record, system, dynamics, key)
    fold = _read_events(request.events, request.spike_factor)
    when, stop = request.when, request.stop
    if isinstance(dynamics, AbstractFlow):
        if stop is not None or not when.is_default:
            raise InputError(
                "`at`, `every`, `points` and `stop` count steps, and a flow has none. Give the flow "
                "its `times`."
            )
        return Context(system, dynamics, fold), state, record, space, None
    steps = (When(dynamics.record_at) if when.is_default else when).steps(dynamics.num_steps)
    return (
        Context(system, dynamics, fold, make_stop(stop, system), key),
        state,
        record,
        space,
        steps,
    )


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
        chosen = choose_space(problem, dynamics, space)
        check_space(problem, chosen)
        W = read_array("start", problem.zero_weights if start is None else start)
        MemorySystem(problem).check(W)
        return *make_system(problem, dynamics, chosen, np.asarray(W, float)), chosen
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
