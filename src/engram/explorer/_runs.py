"""What the page draws of the runs: series, paths in the plane, thresholds."""

from collections.abc import Callable
from typing import Any

import numpy as np

from engram._checks import InputError
from engram._precision import in_double
from engram.dynamics import AbstractStepwise
from engram.explorer._compiled import is_compiled, note_compiled, program_of
from engram.explorer._events import Named, Values, events_of, losses_at_spikes, own_findings
from engram.explorer._jobs import Job
from engram.explorer._requests import DENSE_STEPS, FEW_STEPS, Run, State
from engram.explorer._simulations import (
    has_plane,
    make_dynamics,
    make_start,
    make_system,
    options_of,
    recordable,
)
from engram.planes import memory_plane, sharpness_along, span_size
from engram.problem import Problem
from engram.registry import find, make
from engram.simulation import segment_size, simulate_arrays

_CURVATURE_WORK = 3e7  # cubes of the Hessian's size, in all, that are worth a request's time
_DENSE = 320  # the largest Hessian whose eigenvalues are computed whole; Lanczos beyond
_FEW = 33  # records of the sharpness where it takes Lanczos, and of thresholds that change all the time
_WORDS = {  # where the page has other ways out than the library
    "step limit": "the flow is too stiff for the explicit solver; choose a smaller rate or fewer steps"
}

Parts = tuple[dict[str, Any], dict[str, Any]]  # words and small numbers, and arrays


def runs_part(state: State, problem: Problem, job: Job) -> tuple[list[Any], dict[str, Any]]:
    """Each run of a state: words and small numbers, and arrays whose names begin with its number."""
    about, arrays = [], {}
    start, _ = make_start(state, problem)
    for number, run in enumerate(state.runs):
        job.check()
        words, series = run_part(state, problem, start, run, job)
        about.append(words)
        arrays |= {f"{number}.{name}": values for name, values in series.items()}
    return about, arrays


def run_part(state: State, problem: Problem, start: Any, run: Run, job: Job) -> Parts:
    """One run, as `engram.simulate` computes it. What it takes to compile is not counted."""
    dynamics = make_dynamics(run, state.steps)
    _check_steps(dynamics, state.steps)
    record, unknown = recordable(state, problem, dynamics, start)
    options = options_of(state, run, dynamics, record) | {"start": start}
    if state.events:
        own = [Named(item["kind"], make("event", item)) for item in state.events]
        options["events"] = [True, *own]
    count = state.steps + 1 if state.steps <= DENSE_STEPS else FEW_STEPS
    what = problem if state.is_plain else make_system(state, problem)
    own_parts = record, options.get("events")
    program = program_of(what, dynamics, start, own_parts, segment_size(1, count))
    is_new = not is_compiled(program)
    if is_new:
        job.will_compile()

    def progress(done: int, total: int) -> None:
        nonlocal is_new
        if is_new:
            job.begin()
        is_new = False
        job.check()

    def compute(**changes: Any) -> Any:
        return simulate_arrays(problem, dynamics, progress=progress, **options | changes)

    result = compute()
    if is_new:  # a flow, which reports no progress
        job.begin()
    note_compiled(program)
    probs = {"probs": np.asarray(problem.probs)}
    values = result.arrays() | probs
    # The same run, recorded at other steps: `points` is another way of saying so.
    again = lambda at, **changes: compute(at=at, points=None, **changes).arrays() | probs
    rate = 1.0 if "step" in values else run.rate or 1.0  # a flow counts in time
    clock = _clock(values, rate)
    extra = [item["kind"] for item in state.record if item["kind"] not in unknown]
    series = {"step": clock}
    series |= {
        name: values[name] for name in ("time", "loss", "error", "margins") if name in values
    }
    series |= {f"record.{name}": values[name] for name in extra}
    if has_plane(state, problem):
        series["path"] = memory_plane(problem).coordinates(problem, values["weights"])[0]
    job.check()
    if state.is_plain and span_size(problem) <= _DENSE:
        series |= _sharpness(problem, values["weights"], clock)
    elif "sharpness" not in unknown:
        series |= _few_sharpnesses(again, values, rate)
    step = lambda value: float(value) / rate if np.isfinite(value) else None
    losses = losses_at_spikes(values, clock, lambda at: again(at, events=True))
    words = {
        "status": result.attrs["status"],
        "status_text": _WORDS.get(result.attrs["status"], result.attrs["status_text"]),
        "ended_at": float(clock[-1]) if len(clock) else None,
        "needs_key": bool(dynamics.needs_key),
        "unknown": unknown,
        "num_spikes": int(values["num_spikes"]),
        **{name: step(values[name]) for name in ("first_perfect", "perfect_from", "last_rise")},
        "thresholds": _thresholds(run, dynamics, state.steps),
        "events": events_of(values, clock, step, losses, problem.shown_names()),
        "found": own_findings(values),
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
    """The sharpness along a path of weights, by dense algebra: at all records if the Hessian is small."""
    most = max(8, int(_CURVATURE_WORK / max(span_size(problem), 1) ** 3))
    at = _evenly(len(clock), most)
    at = at[np.isfinite(weights[at]).all((1, 2))]
    values = sharpness_along(problem, weights[at]) if len(at) else np.zeros(0)
    return {"sharpness_step": clock[at], "sharpness": values}


def _evenly(count: int, most: int) -> np.ndarray:
    """At most so many of the places 0 to count - 1, evenly spread, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _few_sharpnesses(again: Callable[..., Values], values: Values, rate: float) -> dict[str, Any]:
    """The observable at a few steps of the same run, for any system."""
    at = values["step"][_evenly(len(values["step"]), _FEW)] if "step" in values else None
    few = again(at, record=("sharpness",), events=False)
    return {"sharpness_step": _clock(few, rate), "sharpness": few["sharpness"]}


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
    pairs = [[float(step), float(dynamics.threshold(np.asarray(step)))] for step in changes]
    return [pair for pair in pairs if np.isfinite(pair[1])]
