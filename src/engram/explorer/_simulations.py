"""From a state to calls of `engram.simulate`, and to the Python lines that make the same calls."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from engram._checks import InputError
from engram._precision import in_double, make_key
from engram.dynamics import AbstractStepwise, Carry
from engram.explorer import _requests as R
from engram.explorer._controls import SIZES, is_timed
from engram.figures import case_of, problem_of, reference
from engram.memory import MemorySystem
from engram.observables import make_record
from engram.planes import memory_plane
from engram.problem import Problem
from engram.registry import entry_of, make, origins
from engram.specs import problem_of as stored_problem

RECORD = ("loss", "error", "margins", "token_losses", "weights")
_FLOW_STEPS = 4096  # of the explicit solver, so that no request takes long
_FLOW_POINTS = 257
OWN_SIZES = {"num_tokens": 200, "num_classes": 50, "dim": 64, "output_dim": 64}  # at most
_MOST_NUMBERS = 2**16  # of a system's state


# --- what moves, and from where -------------------------------------------------------------------------


def make_problem(part: Any, own: Mapping[str, Any]) -> Problem:
    """The problem of a state; `own` holds those that Python sessions have handed over."""
    match part:
        case R.Paper():
            figure, _, which = part.name.partition("-")
            if which == "sgd":
                return problem_of(reference("fig4_sgd")["cases"][0])
            return problem_of(case_of(figure, **{"d" if figure == "fig6" else "seed": int(which)}))
        case R.Table():
            inputs = np.array([[token.x, token.y] for token in part.tokens])
            probs = np.array([token.prob for token in part.tokens])
            return Problem(inputs, np.eye(2), probs, [token.target for token in part.tokens])
        case R.Own() if part.name not in own:
            raise InputError(
                f"problem.name: {part.name!r} is not known: the Python session that showed it has ended. "
                "Call `engram.explore(problem)` again, or choose another problem."
            )
        case R.Own() if isinstance(own[part.name], xr.Dataset):
            return own_problem("the problem of the file", problem_in(own[part.name]))
        case R.Own():
            return own[part.name]
        case _:
            problem = make("problem", part.table)
            check_problem("problem:", problem, SIZES)
            return problem.astype("float64")


def form_of(part: Any) -> tuple[Any, ...]:
    """What the programs that draw a problem depend on."""
    if not isinstance(part, R.Family):
        return ()
    return tuple((name, value) for name, value in part.table.items() if name != "seed")


def problem_in(dataset: xr.Dataset) -> Problem:
    """The problem of a run from a file, in double precision."""
    return stored_problem(dataset, Path("the file")).astype("float64")


def check_problem(name: str, problem: Problem, sizes: Mapping[str, int]) -> None:
    """Refuse a problem that cannot be drawn live."""
    if problem.is_noisy:
        raise InputError(f"{name} must have targets without noise here. Choose another problem.")
    for size, most in sizes.items():
        if (actual := getattr(problem, size)) > most:
            raise InputError(f"{name} must have {size} of at most {most} here, got {actual}.")


def own_problem(name: str, problem: Problem) -> Problem:
    """A problem of the user's own in double precision, refused where it is too large for the page."""
    check_problem(name, problem, OWN_SIZES)
    return problem.astype("float64")


def has_plane(state: R.State, problem: Problem) -> bool:
    """Whether two coordinates are all that the loss depends on."""
    outputs = np.asarray(problem.outputs)
    is_small = problem.dim == problem.num_classes == 2
    return state.is_plain and is_small and bool((outputs[0] != outputs[1]).any())


def make_system(state: R.State, problem: Problem) -> Any:
    """What moves."""
    if state.is_plain:
        return MemorySystem(problem)
    return make("system", state.system, problem=problem, law=problem.law)


def make_start(state: R.State, problem: Problem) -> tuple[Any, str]:
    """The state to start from, None for the system's own, and the expression that makes it."""
    part = state.start
    if has_plane(state, problem):
        text = f"engram.planes.memory_plane(problem).weights({part.a!r}, {part.b!r})"
        return np.asarray(memory_plane(problem).weights(part.a, part.b)), text
    if part.scale == 0:
        return None, "None"
    system = 'engram.registry.make("system", system, problem=problem, law=problem.law)'
    whose, source = (
        (problem, "problem") if state.is_plain else (make_system(state, problem), system)
    )
    return (
        whose.draw_start(part.scale, part.seed),
        f"{source}.draw_start({part.scale!r}, {part.seed})",
    )


# --- how it moves ---------------------------------------------------------------------------------------


def dynamics_table(run: R.Run, steps: int) -> dict[str, Any]:
    """The dynamics of a run as the library's table: flows take as long as so many steps would."""
    fields, rate = entry_of("dynamics", run.kind).fields, run.rate or 1.0
    if not is_timed(run.kind):
        return run.table | ({"steps": steps} if "steps" in fields else {})
    spacing = "linear" if steps <= R.DENSE_STEPS else "log"
    times = {"end": rate * steps, "num_times": _FLOW_POINTS, "spacing": spacing}
    caps = {"solver": "explicit", "max_steps": _FLOW_STEPS, "time_step": rate / 10}
    return run.table | times | {name: cap for name, cap in caps.items() if name in fields}


def _pieces(run: R.Run, steps: int) -> tuple[list[Any], list[int]]:
    """The learning rates of a run, and for how many steps each of them holds."""
    edges = [0, *(min(change.step, steps) for change in run.changes), steps]
    return [run.rate, *(change.rate for change in run.changes)], np.diff(edges).tolist()


def make_dynamics(run: R.Run, steps: int) -> Any:
    """The dynamics of a run, with the rates that change during it."""
    table = dynamics_table(run, steps)
    if run.changes:
        table["learning_rate"] = np.repeat(*_pieces(run, steps))
    return make("dynamics", table)


def options_of(state: R.State, run: R.Run, dynamics: Any, record: Sequence[Any]) -> dict[str, Any]:
    """What else `simulate` is called with, in plain values."""
    options: dict[str, Any] = {"record": record}
    if not state.is_plain:
        options["system"] = state.system
    if dynamics.needs_key:
        options["key"] = run.seed
    if not is_timed(run.kind) and state.steps > R.DENSE_STEPS:
        options["points"] = R.FEW_STEPS
    if state.events:
        options["events"] = [True, *map(_short, state.events)]
    return options


def _short(table: Mapping[str, Any]) -> Any:
    """A name alone where that says it all."""
    return table["kind"] if len(table) == 1 else dict(table)


# --- what can be recorded -------------------------------------------------------------------------------


@in_double
def recordable(
    state: R.State, problem: Problem, dynamics: Any, start: Any
) -> tuple[tuple[Any, ...], dict[str, str]]:
    """What can be recorded of a run; and, by name, why something cannot.

    The page's own traces are known of a matrix W. Whatever else is asked for, and all of it of another
    system, is traced, which computes nothing.
    """
    extra = [_short(table) for table in state.record]
    wanted = {item if isinstance(item, str) else item["kind"]: item for item in (*RECORD, *extra)}
    traced = {name: item for name, item in wanted.items() if item not in RECORD}
    if not state.is_plain:
        traced = wanted | {"sharpness": "sharpness"}
    if not traced:
        return RECORD, {}
    system, faults = make_system(state, problem), {}
    at = jax.tree.map(jnp.asarray, system.start() if start is None else start)
    _check_size(at)
    for name, item in traced.items():
        try:
            shape = _shape(item, system, dynamics, at)
        except InputError as error:
            faults[name] = str(error).partition(". ")[0] + "."  # what to do is not for the page
            continue
        if len(shape) > 1 and name not in RECORD:
            faults[name] = f"`{name}` has the shape {shape}, which cannot be drawn."
    return tuple(item for name, item in wanted.items() if name not in faults), faults


def _check_size(state: Any) -> None:
    """Refuse a state of more numbers than a request can move."""
    count = sum(np.size(leaf) for leaf in jax.tree.leaves(state))
    if count > _MOST_NUMBERS:
        raise InputError(
            f"system: must have a state of at most {_MOST_NUMBERS} numbers here, got {count}. Choose a "
            "smaller one."
        )


def _shape(item: Any, system: Any, dynamics: Any, state: Any) -> tuple[int, ...]:
    """The shape of what an observable has at a step."""
    key = make_key(0) if dynamics.needs_key else None
    record, zero = make_record((item,), system, dynamics, key), jnp.zeros((), int)

    def at(state: Any) -> Any:
        is_stepwise = isinstance(dynamics, AbstractStepwise)
        inner = dynamics.init(system, state) if is_stepwise else state
        return record(system, dynamics, Carry(zero, inner, None, zero))

    return next(iter(jax.eval_shape(at, state).values())).shape


def replayed(part: Any, own: Mapping[str, Any]) -> xr.Dataset:
    """The dataset that a state shows."""
    dataset = own.get(part.name)
    if not isinstance(dataset, xr.Dataset):
        raise InputError(
            f"problem.name: {part.name!r} is not known: the explorer that showed that file has ended. Run "
            "`engram explore FILE` again, or choose another problem."
        )
    return dataset


# --- as Python ------------------------------------------------------------------------------------------


def python_lines(state: R.State, own: Mapping[str, Any]) -> str:
    """The lines which, run, give the numbers on the page."""
    if isinstance(state.problem, R.Replay):
        return _REPLAY.format(path=replayed(state.problem, own).encoding["source"])
    problem = make_problem(state.problem, own)
    start, start_text = make_start(state, problem)
    lines = [
        "import numpy as np", "", "import engram", "", *_plugin_lines(state),
        f"problem = {_problem_text(state.problem, problem)}",
        *([] if state.is_plain else [f"system = {state.system!r}"]),
        f"start = {start_text}",
        "runs = [",
    ]  # fmt: skip
    for run in state.runs:
        dynamics, table = make_dynamics(run, state.steps), dynamics_table(run, state.steps)
        texts = {name: repr(value) for name, value in table.items()}
        if run.changes:
            rates, counts = _pieces(run, state.steps)
            texts["learning_rate"] = f"np.repeat({rates!r}, {counts!r})"
        text = ", ".join(f"{name!r}: {value}" for name, value in texts.items())
        record, _ = recordable(state, problem, dynamics, start)
        options = options_of(state, run, dynamics, record)
        more = "".join(f", {name}={value!r}" for name, value in options.items())
        lines.append(
            f"    engram.simulate(\n        problem, {{{text}}},\n        start=start{more},\n    ),"
        )
    lines += [
        "]",
        "for run in runs:",
        "    print(run.attrs['dynamics'], run.attrs['status'], 'last loss', float(run.loss[-1]))",
    ]
    return "\n".join(lines) + "\n"


_REPLAY = """from pathlib import Path

from engram import diagnosis
from engram.specs import read_netcdf

path = Path({path!r})
is_recording = diagnosis.is_recording(path)
run = diagnosis.open_recording(path) if is_recording else read_netcdf(path)
print(run)
print(diagnosis.explain(run))
"""


def _plugin_lines(state: R.State) -> list[str]:
    """The lines that register what a state names and engram does not have."""
    lines = []
    for origin in origins(R.entries_of(state)):
        if path := origin.get("path"):
            lines.append(f"engram.registry.load_plugin({path!r})")
        elif origin["module"] == "__main__":
            lines.append("# run first what registers your own names")
        else:
            lines.append(f"import {origin['module']}")
    return [*lines, ""] if lines else []


def _problem_text(part: Any, problem: Problem) -> str:
    """The table of a family; any other problem by its numbers, to the last bit."""
    if isinstance(part, R.Family):
        return f'engram.registry.make("problem", {part.table!r})'
    arrays = ("inputs", "outputs", "probs", "targets")
    values = {name: np.asarray(getattr(problem, name)).tolist() for name in arrays}
    values |= {name: getattr(problem, name) for name in ("names", "class_names")}
    given = (f"{name}={value!r}" for name, value in values.items() if value is not None)
    return "engram.Problem(\n    {},\n)".format(",\n    ".join(given))
