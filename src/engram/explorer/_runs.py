"""What the page draws of the runs: series, paths in the plane, thresholds."""

from typing import Any

import numpy as np

from engram._checks import InputError
from engram._precision import in_double
from engram.dynamics import AbstractStepwise
from engram.explorer._desk import Ticket
from engram.explorer._events import (
    Values,
    events_of,
    found_by_own,
    losses_at_spikes,
    named_events,
)
from engram.explorer._known import can_tell, known_of
from engram.explorer._objects import (
    has_plane,
    make_dynamics,
    make_events,
    make_start,
    make_system,
    make_when,
)
from engram.explorer._programs import is_known, note, programs_of
from engram.explorer._state import Run, State
from engram.planes import memory_plane, sharpness_along, span_size
from engram.problem import Problem
from engram.registry import find
from engram.simulation import simulate_arrays

_CURVATURE_WORK = 3e7  # cubes of the Hessian's size, in all, that are worth a request's time
_FEW = 33  # records of the sharpness where it takes Lanczos, and of thresholds that change all the time
_WORDS = {  # where the page has other ways out than the library
    "step limit": "the flow is too stiff for the explicit solver; choose a smaller rate or fewer steps"
}


def runs_part(
    state: State, problem: Problem, ticket: Ticket
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Each run of a state: words and small numbers, and arrays whose names begin with its number."""
    about, arrays = [], {}
    what = make_system(state, problem)
    start = make_start(state, problem, what).value
    for number, (run, program) in enumerate(zip(state.runs, programs_of(state), strict=True)):
        ticket.check()
        is_cold = not is_known([program])
        words, series = run_series(state, problem, what, start, run, ticket, is_cold)
        note(program)
        about.append(words)
        arrays |= {f"{number}.{name}": values for name, values in series.items()}
    return about, arrays


def run_series(
    state: State,
    problem: Problem,
    what: Any,
    start: Any,
    run: Run,
    ticket: Ticket,
    is_cold: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run, as `engram.simulate` computes it. What it takes to compile is not counted."""
    dynamics = make_dynamics(run, state.steps).value
    _check_steps(dynamics, state.steps)
    known = known_of(state, what, dynamics, start)

    def tell(done: int, total: int) -> None:
        nonlocal is_cold
        if is_cold:
            ticket.begin()
        is_cold = False
        ticket.check()

    def compute(record: Any, **more: Any) -> Any:
        key = run.seed if dynamics.needs_key else None
        return simulate_arrays(
            what, dynamics, start=start, record=record, key=key, progress=tell, **more
        )

    events = named_events(make_events(state).value, state.events)
    found = compute(known.record, events=events, **make_when(run, state.steps).value)
    if is_cold:  # a flow, which tells nothing on its way
        ticket.begin()
    values = found.arrays() | {"probs": np.asarray(problem.probs)}

    def again(steps: np.ndarray) -> Values:
        """The same run, recorded at other steps as well."""
        at = np.union1d(values["step"], steps)
        return compute(known.record, at=at).arrays() | {"probs": values["probs"]}

    rate = 1.0 if "step" in values else run.rate or 1.0  # a flow counts in time
    clock = _clock(values, rate)
    names = [name for name in ("time", "loss", "error", "margins") if name in values]
    extra = [item["kind"] for item in state.record if item["kind"] not in known.unknown]
    series = {"step": clock} | {name: values[name] for name in names}
    series |= {f"record.{name}": values[name] for name in extra}
    if state.is_plain and has_plane(problem):
        series["path"] = memory_plane(problem).coordinates(problem, values["weights"])[0]
    ticket.check()
    unknown = dict(known.unknown)
    if state.is_plain:
        series |= _sharpness(problem, values["weights"], clock)
    elif can_tell("sharpness", what, dynamics, start):
        series |= _few_sharpnesses(compute, values, rate)
    else:
        unknown["sharpness"] = "`sharpness` is not known."
    step = lambda value: float(value) / rate if np.isfinite(value) else None
    losses = losses_at_spikes(values, clock, again)
    words = {
        "status": found.attrs["status"],
        "status_text": _WORDS.get(found.attrs["status"], found.attrs["status_text"]),
        "ended_at": float(clock[-1]) if len(clock) else None,
        "needs_key": bool(dynamics.needs_key),
        "unknown": unknown,
        "num_spikes": int(values["num_spikes"]),
        **{name: step(values[name]) for name in ("first_perfect", "perfect_from", "last_rise")},
        "thresholds": _thresholds(run, dynamics, state.steps),
        "events": events_of(values, clock, step, losses, problem.shown_names()),
        "found": found_by_own(values),
        "symbols": {name: find("observable", name).about.get("symbol", "") for name in extra},
    }
    return words, series


def _clock(values: Values, rate: float) -> np.ndarray:
    """The step of each record; of a flow, which has none, the time over that of a step."""
    return values["step"].astype(float) if "step" in values else values["time"] / rate


def _check_steps(dynamics: Any, steps: int) -> None:
    """Refuse dynamics of one's own that have a length of their own, beyond what is drawn."""
    is_counted = isinstance(dynamics, AbstractStepwise) and not dynamics.counts_time
    if is_counted and dynamics.num_steps > steps:
        raise InputError(
            f"steps: must be at least {dynamics.num_steps} for {type(dynamics).__name__}, which makes "
            f"so many, got {steps}. Choose more."
        )


# --- sharpness ------------------------------------------------------------------------------------------


def _sharpness(problem: Problem, weights: np.ndarray, clock: np.ndarray) -> dict[str, Any]:
    """The sharpness along a path of weights, by dense algebra, which compiles nothing."""
    at = _where_curved(span_size(problem), len(clock))
    finite = at[np.isfinite(weights[at]).all((1, 2))]
    values = sharpness_along(problem, weights[finite]) if len(finite) else np.zeros(0)
    return {"sharpness_step": clock[finite], "sharpness": values}


def _where_curved(size: int, count: int) -> np.ndarray:
    """The records at which the sharpness is computed: all of them where the Hessian is small."""
    most = max(8, int(_CURVATURE_WORK / max(size, 1) ** 3))
    return _evenly(count, most)


def _evenly(count: int, most: int) -> np.ndarray:
    """At most so many of the places 0 to count - 1, evenly spread, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _few_sharpnesses(compute: Any, values: Values, rate: float) -> dict[str, Any]:
    """The observable at a few steps of the same run, for any system."""
    at = {}
    if "step" in values:
        at = {"at": values["step"][_evenly(len(values["step"]), _FEW)]}
    found = compute(("sharpness",), events=False, **at).arrays()
    return {"sharpness_step": _clock(found, rate), "sharpness": found["sharpness"]}


@in_double
def _thresholds(run: Run, dynamics: Any, steps: int) -> list[list[float]]:
    """The sharpness beyond which the method is unstable on a quadratic, as [from step, value] pairs.

    Empty where it is not the sharpness of the loss itself that counts.
    """
    if not isinstance(dynamics, AbstractStepwise) or dynamics.is_preconditioned:
        return []
    changes = [0, *(change.step for change in run.changes if change.step < steps)]
    if isinstance(run.table.get("learning_rate"), list | dict):  # one per step, or a schedule
        changes = _evenly(steps, _FEW)
    found = [[float(step), float(dynamics.threshold(np.asarray(step)))] for step in changes]
    return [pair for pair in found if np.isfinite(pair[1])]
