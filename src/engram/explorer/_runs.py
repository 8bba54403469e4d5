"""What the page draws of the runs: series, paths in the plane, thresholds."""

from typing import Any

import numpy as np

from engram.dynamics import GradientFlow
from engram.explorer._desk import Ticket
from engram.explorer._events import Values, events_of, losses_at_spikes
from engram.explorer._objects import (
    RECORD,
    has_plane,
    make_dynamics,
    make_start,
    make_when,
    sizes_of_problem,
)
from engram.explorer._programs import is_known, note, programs_of
from engram.explorer._state import Run, State
from engram.planes import memory_plane, sharpness_along, span_size
from engram.problem import Problem
from engram.simulation import simulate_arrays

_CURVATURE_WORK = 3e7  # cubes of the Hessian's size, in all, that are worth a request's time
_WORDS = {  # where the page has other ways out than the library
    "step limit": "the flow is too stiff for the explicit solver; choose a smaller rate or fewer steps"
}


def runs_part(
    state: State, problem: Problem, ticket: Ticket
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Each run of a state: words and small numbers, and arrays whose names begin with its number."""
    start = make_start(state.start, problem).value
    about, arrays = [], {}
    programs = programs_of(state, sizes_of_problem(problem))
    for number, (run, program) in enumerate(zip(state.runs, programs, strict=True)):
        ticket.check()
        is_cold = not is_known([program])
        words, series = run_series(problem, run, state.steps, start, ticket, is_cold)
        note(program)
        about.append(words)
        arrays |= {f"{number}.{name}": values for name, values in series.items()}
    return about, arrays


def run_series(
    problem: Problem, run: Run, steps: int, start: Any, ticket: Ticket, is_cold: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run, as `engram.simulate` computes it. What it takes to compile is not counted."""
    dynamics = make_dynamics(run, steps).value

    def tell(done: int, total: int) -> None:
        nonlocal is_cold
        if is_cold:
            ticket.begin()
        is_cold = False
        ticket.check()

    options = {"start": start, "record": RECORD, "key": run.seed if run.method == "sgd" else None}
    when = make_when(run.method, steps).value
    found = simulate_arrays(problem, dynamics, progress=tell, **options, **when)
    if is_cold:  # a flow, which tells nothing on its way
        ticket.begin()
    is_flow = isinstance(dynamics, GradientFlow)
    values = found.arrays()

    def again(steps: np.ndarray) -> Values:
        """The same run, recorded at other steps as well."""
        at = np.union1d(values["step"], steps)
        return simulate_arrays(problem, dynamics, progress=tell, **options, at=at).arrays()

    clock = values["time"] / run.rate if is_flow else values["step"].astype(float)
    step = lambda value: _step(value, run, is_flow)
    series = {"step": clock} | {name: values[name] for name in ("time", "loss", "error", "margins")}
    weights = values["weights"]
    if has_plane(problem):
        series["path"] = memory_plane(problem).coordinates(problem, weights)[0]
    at = _where_curved(span_size(problem), len(clock))
    finite = at[np.isfinite(weights[at]).all((1, 2))]
    series["sharpness_step"] = clock[finite]
    ticket.check()
    series["sharpness"] = sharpness_along(problem, weights[finite]) if len(finite) else np.zeros(0)
    words = {
        "status": found.attrs["status"],
        "status_text": _WORDS.get(found.attrs["status"], found.attrs["status_text"]),
        "ended_at": float(clock[-1]) if len(clock) else None,
        "num_spikes": int(values["num_spikes"]),
        "first_perfect": step(values["first_perfect"]),
        "perfect_from": step(values["perfect_from"]),
        "last_rise": step(values["last_rise"]),
        "thresholds": _thresholds(run, dynamics, steps),
        "events": events_of(
            values, clock, step, losses_at_spikes(values, clock, again), problem.shown_names()
        ),
    }
    return words, series


def _where_curved(size: int, count: int) -> np.ndarray:
    """The records at which the sharpness is computed: all of them where the Hessian is small."""
    most = max(8, int(_CURVATURE_WORK / max(size, 1) ** 3))
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _thresholds(run: Run, dynamics: Any, steps: int) -> list[list[float]]:
    """The sharpness beyond which the method is unstable on a quadratic, as [from step, value] pairs.

    Empty where it is not the sharpness of the loss itself that counts.
    """
    if run.method in ("gd", "sgd"):
        later = [(change.step, change.rate) for change in run.changes if change.step < steps]
        changes = [(0, run.rate), *later]
        return [[float(step), 2 / rate] for step, rate in changes]
    if run.method in ("momentum", "nesterov"):
        return [[0.0, float(dynamics.threshold(np.asarray(0)))]]
    return []


def _step(value: Any, run: Run, is_flow: bool) -> float | None:
    value = float(value) / run.rate if is_flow else float(value)
    return value if np.isfinite(value) else None
