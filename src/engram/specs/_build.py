"""From a spec to the objects it names, and to the run it describes."""

from collections.abc import Callable
from typing import Any

import xarray as xr

from engram._checks import InputError
from engram._precision import in_double
from engram.problem import Problem
from engram.registry import make
from engram.simulation import Interrupted, simulate
from engram.specs._read import SimulationSpec
from engram.specs._stored import write_spec


@in_double
def build_problem(table: dict[str, Any]) -> Problem:
    """The problem that a table describes."""
    try:
        return make("problem", table)
    except InputError as error:
        if not table.get("path"):
            raise
        fault = str(error).replace("`path` ", "").replace("`text` ", "")
        raise InputError(f"problem.path: {fault}") from None


def build_system(table: dict[str, Any], problem: Problem) -> Any:
    """The system that a table describes, for a problem."""
    return make("system", table, problem=problem, law=problem.law)


@in_double
def simulate_spec(
    spec: SimulationSpec,
    progress: Callable[[int, int], None] | None = None,
    *,
    problem: Problem | None = None,
    **given: Any,
) -> xr.Dataset:
    """Run what a spec describes, on its own problem or on one that was built or stored before.

    What is `given` goes to `simulate` as it is: a start, a key, the steps to record.
    """
    problem = build_problem(spec.problem) if problem is None else problem
    run, dynamics = dict(spec.run), make("dynamics", spec.dynamics)
    scale, seed = run.pop("start_scale"), run.pop("seed")
    what: Any = problem if spec.system is None else build_system(spec.system, problem)
    events = [True if item == "events" else make("event", item) for item in run.pop("events")]
    events = events[0] if len(events) == 1 else events or False
    usual = {"start": what.draw_start(scale, seed) if scale else None, "key": seed}
    complete = lambda dataset: dataset if given else dataset.assign_attrs(spec=write_spec(spec))
    try:
        return complete(
            simulate(what, dynamics, progress=progress, events=events, **run, **usual | given)
        )
    except Interrupted as stopped:
        raise Interrupted(complete(stopped.partial)) from None
