"""The Python lines which, run, give the numbers on the page."""

from collections.abc import Mapping

import numpy as np

from engram.explorer import _state as S
from engram.explorer._known import known_of
from engram.explorer._objects import (
    make_dynamics,
    make_events,
    make_problem,
    make_start,
    make_system,
    make_when,
)
from engram.problem import Problem
from engram.registry import origins


def _written_out(problem: Problem) -> str:
    """A problem by its numbers, to the last bit."""
    arrays = ("inputs", "outputs", "probs", "targets")
    values = {name: np.asarray(getattr(problem, name)).tolist() for name in arrays}
    values |= {name: getattr(problem, name) for name in ("names", "class_names")}
    given = (f"{name}={value!r}" for name, value in values.items() if value is not None)
    text = ",\n    ".join(given)
    return f"engram.Problem(\n    {text},\n)"


def _loads(state: S.State) -> list[str]:
    """The lines that register what a state names and engram does not have."""
    lines = []
    for origin in origins(S.used_in(state)):
        path, module = origin.get("path"), origin["module"]
        told = (
            "# run first what registers your own names"
            if module == "__main__"
            else f"import {module}"
        )
        lines.append(f"engram.registry.load_plugin({path!r})" if path else told)
    return [*lines, ""] if lines else []


def python_lines(state: S.State, own: Mapping[str, Problem]) -> str:
    """The lines which, run, give the numbers on the page."""
    problem = make_problem(state.problem, own)
    system = make_system(state, problem.value)
    start = make_start(state, problem.value, system)
    lines = [
        "import numpy as np", "", "import engram", "", *_loads(state),
        f"problem = {problem.lines or _written_out(problem.value)}",
        *([] if state.is_plain else [f"system = {state.system!r}"]),
        f"start = {start.lines}",
        "runs = [",
    ]  # fmt: skip
    for run in state.runs:
        dynamics, when = make_dynamics(run, state.steps), make_when(run, state.steps)
        what = "" if state.is_plain else ", system=system"
        key = f", key={run.seed}" if dynamics.value.needs_key else ""
        names = known_of(state, system, dynamics.value, start.value).record
        lines.append(
            f"    engram.simulate(\n        problem, {dynamics.lines}{what}, start=start,\n"
            f"        record={names!r}{key}{when.lines}{make_events(state).lines},\n    ),"
        )
    lines += [
        "]",
        "for run in runs:",
        "    print(run.attrs['dynamics'], run.attrs['status'], 'last loss', float(run.loss[-1]))",
    ]
    return "\n".join(lines) + "\n"
