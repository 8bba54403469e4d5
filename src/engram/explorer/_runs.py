"""What the page draws of the runs: series, paths in the plane, thresholds."""

from typing import Any, NamedTuple

import numpy as np

from engram._checks import InputError
from engram._precision import in_double
from engram.diagnosis import explain
from engram.dynamics import AbstractStepwise
from engram.explorer._compiled import compiling
from engram.explorer._controls import is_timed
from engram.explorer._events import LISTED, Named, Values, causes_of, events_of, own_findings
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


class _Given(NamedTuple):
    """What a run of the page is simulated from.

    Args:
        problem: What is remembered.
        dynamics: How it moves.
        options: What else `simulate` is called with.
        form: Names the program that runs it.
        unknown: Why something cannot be recorded, by its name.
    """

    problem: Problem
    dynamics: Any
    options: dict[str, Any]
    form: Any
    unknown: dict[str, str]


def given_of(state: State, problem: Problem, run: Run) -> _Given:
    """What a run of a state is simulated from."""
    start, _ = make_start(state, problem)
    dynamics = make_dynamics(run, state.steps)
    _check_steps(dynamics, state.steps)
    record, unknown = recordable(state, problem, dynamics, start)
    options = options_of(state, run, dynamics, record) | {"start": start}
    if state.events:
        own = [Named(item["kind"], make("event", item)) for item in state.events]
        options["events"] = [True, *own]
    count = state.steps + 1 if state.steps <= DENSE_STEPS else FEW_STEPS
    what = problem if state.is_plain else make_system(state, problem)
    form = what, dynamics, start, record, options.get("events"), segment_size(1, count)
    return _Given(problem, dynamics, options, form, unknown)


def _each(state: State, problem: Problem, job: Job) -> Any:
    for run in state.runs:
        job.check()
        yield run, given_of(state, problem, run)


def _simulate(given: _Given, job: Job, purpose: str = "runs", **changes: Any) -> Any:
    """A run, as `engram.simulate` computes it."""
    options = given.options | changes
    with compiling(job, purpose, *given.form) as is_new:
        is_first = is_new

        def progress(done: int, total: int) -> None:
            nonlocal is_first
            if is_first:
                job.begin()
            is_first = False
            job.check()

        return simulate_arrays(given.problem, given.dynamics, progress=progress, **options)


def runs_part(state: State, problem: Problem, job: Job) -> tuple[list[Any], dict[str, Any]]:
    """Each run of a state: words and small numbers, and arrays whose names begin with its number."""
    about, arrays = [], {}
    for number, (run, given) in enumerate(_each(state, problem, job)):
        words, series = _run_part(state, run, given, job)
        about.append(words)
        arrays |= {f"{number}.{name}": values for name, values in series.items()}
    return about, arrays


def _run_part(state: State, run: Run, given: _Given, job: Job) -> Parts:
    problem, dynamics, unknown = given.problem, given.dynamics, given.unknown
    result = _simulate(given, job)
    values = result.arrays()
    rate = _rate(values, run)
    clock = _clock(values, rate)
    extra = [item["kind"] for item in state.record if item["kind"] not in unknown]
    series = {"step": clock} | drawn(values)
    series |= {f"record.{name}": values[name] for name in extra}
    if has_plane(state, problem):
        series["path"] = memory_plane(problem).coordinates(problem, values["weights"])[0]
    job.check()
    is_dense = _is_dense(state, problem)
    if is_dense:
        series |= _sharpness(problem, values["weights"], clock)
    status = result.attrs["status"]
    words = described(values | {"probs": np.asarray(problem.probs)}, clock, rate, problem)
    return words | {
        "status": status,
        "status_text": _WORDS.get(status, result.attrs["status_text"]),
        "needs_key": bool(dynamics.needs_key),
        "unknown": unknown,
        "has_later": not is_dense and "sharpness" not in unknown,
        "thresholds": _thresholds(run, dynamics, state.steps),
        "found": own_findings(values),
        "symbols": {name: find("observable", name).about.get("symbol", "") for name in extra},
    }, series


def drawn(values: Values) -> dict[str, np.ndarray]:
    """The traces that the page always has."""
    return {name: values[name] for name in ("time", "loss", "error", "margins") if name in values}


def described(values: Values, clock: np.ndarray, rate: float, problem: Problem) -> dict[str, Any]:
    """What happened in a run, and when."""
    step = lambda value: float(value) / rate if np.isfinite(value) else None
    return {
        "ended_at": float(clock[-1]) if len(clock) else None,
        "num_spikes": int(values["num_spikes"]),
        **{name: step(values[name]) for name in ("first_perfect", "perfect_from", "last_rise")},
        "events": events_of(values, clock, step, problem.shown_names()),
    }


def causes_part(state: State, problem: Problem, job: Job) -> list[Any]:
    """The spikes of each run, as `engram.diagnosis.explain` explains them."""
    causes = []
    for run, given in _each(state, problem, job):
        dataset = _simulate(given, job).dataset()
        if not int(dataset["num_spikes"]):
            causes.append([])
            continue
        rate = _rate(dataset, run)
        with compiling(job, "causes", *given.form):
            explanation = explain(dataset, most=LISTED)
        step = lambda at, rate=rate: at / rate
        causes.append(causes_of(explanation, step, problem.shown_names()))
    return causes


def _rate(values: Any, run: Run) -> float:
    """The time of a step: 1 where steps are counted; a flow counts in time."""
    return 1.0 if "step" in values else run.rate or 1.0


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
    at = evenly(len(clock), most)
    at = at[np.isfinite(weights[at]).all((1, 2))]
    values = sharpness_along(problem, weights[at]) if len(at) else np.zeros(0)
    return {"sharpness_step": clock[at], "sharpness": values}


def evenly(count: int, most: int) -> np.ndarray:
    """At most so many of the places 0 to count - 1, evenly spread, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _is_dense(state: State, problem: Problem) -> bool:
    return state.is_plain and span_size(problem) <= _DENSE


def sharpness_part(state: State, problem: Problem, job: Job) -> dict[str, Any]:
    """The observable at a few steps of each run, where the runs come without: it may take long."""
    arrays = {}
    for number, (run, given) in enumerate(_each(state, problem, job)):
        if _is_dense(state, problem) or "sharpness" in given.unknown:
            continue  # they have come with the run, or cannot come
        changes = {"points": None, "record": ("sharpness",), "events": False}
        if not is_timed(run.kind):
            changes["at"] = evenly(state.steps + 1, _FEW)
        few = _simulate(given, job, "sharpness", **changes).arrays()
        arrays |= {
            f"{number}.sharpness_step": _clock(few, _rate(few, run)),
            f"{number}.sharpness": few["sharpness"],
        }
    return arrays


@in_double
def _thresholds(run: Run, dynamics: Any, steps: int) -> list[list[float]]:
    """The sharpness beyond which the method is unstable on a quadratic, as [from step, value] pairs.

    Empty where it is not the sharpness of the loss itself that counts.
    """
    if not isinstance(dynamics, AbstractStepwise) or dynamics.is_preconditioned:
        return []
    changes = [0, *(change.step for change in run.changes if change.step < steps)]
    if isinstance(run.table.get("learning_rate"), list | dict):  # one per step, or a schedule
        changes = evenly(steps, _FEW)
    pairs = [[float(step), float(dynamics.threshold(np.asarray(step)))] for step in changes]
    return [pair for pair in pairs if np.isfinite(pair[1])]
