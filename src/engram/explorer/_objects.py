"""From a state to the library's objects, side by side with the Python lines that make the same ones."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from engram._checks import InputError
from engram.explorer import _state as S
from engram.explorer._catalogue import FLOW_STEPS, MOST_TOKENS, is_timed
from engram.figures import case_of, problem_of, reference
from engram.planes import memory_plane
from engram.problem import Problem
from engram.registry import entry_of, make
from engram.simulation import log_spaced

_FLOW_POINTS = 257
_MOST = {"num_tokens": MOST_TOKENS, "num_classes": 10, "dim": 32, "output_dim": 32}
_MOST_NUMBERS = 2**16  # of a state


class Made(NamedTuple):
    """An object and the expression that makes it; none where only its numbers can be written out."""

    value: Any
    lines: str | None


def has_plane(problem: Problem) -> bool:
    """Whether two coordinates are all that the loss depends on."""
    outputs = np.asarray(problem.outputs)
    return problem.dim == 2 and problem.num_classes == 2 and bool((outputs[0] != outputs[1]).any())


# --- problems -------------------------------------------------------------------------------------------


def make_problem(part: Any, own: Mapping[str, Problem]) -> Made:
    """The problem of a state; `own` holds those that Python sessions have handed over."""
    return _MAKERS[part.kind](part, own)


def _from_family(part: S.Family, own: Mapping[str, Problem]) -> Made:
    del own
    problem = make("problem", part.table)
    for name, most in _MOST.items():
        if (met := getattr(problem, name)) > most:
            raise InputError(f"problem: must have {name} of at most {most} here, got {met}.")
    if problem.is_noisy:
        raise InputError("problem: must have certain targets to be explored. Choose another.")
    return Made(problem.astype("float64"), f'engram.registry.make("problem", {part.table!r})')


def _from_paper(part: S.Paper, own: Mapping[str, Problem]) -> Made:
    del own
    figure, _, which = part.name.partition("-")
    if which == "sgd":
        return Made(problem_of(reference("fig4_sgd")["cases"][0]), None)
    wanted = {"d" if figure == "fig6" else "seed": int(which)}
    return Made(problem_of(case_of(figure, **wanted)), None)


def _from_table(part: S.Table, own: Mapping[str, Problem]) -> Made:
    del own
    inputs = np.array([[token.x, token.y] for token in part.tokens])
    probs = np.array([token.prob for token in part.tokens])
    targets = np.array([token.target for token in part.tokens])
    return Made(Problem(inputs, np.eye(2), probs, targets), None)


def _from_session(part: S.Own, own: Mapping[str, Problem]) -> Made:
    if part.name not in own:
        raise InputError(
            f"problem.name: {part.name!r} is not here: the Python session that showed it has ended. "
            "Call `engram.explore(problem)` again, or choose another problem."
        )
    return Made(own[part.name], None)


_MAKERS = {
    "family": _from_family, "paper": _from_paper, "table": _from_table, "own": _from_session,
}  # fmt: skip


# --- what moves, and from where -------------------------------------------------------------------------


def make_system(state: S.State, problem: Problem) -> Any:
    """What moves: the problem itself stands for its matrix W, in the cheapest space."""
    if state.is_plain:
        return problem
    return make("system", state.system, problem=problem, law=problem.law)


def make_start(state: S.State, problem: Problem, system: Any) -> Made:
    """The state to start from; None is the system's own."""
    part = state.start
    if state.is_plain and has_plane(problem):
        text = f"engram.planes.memory_plane(problem).weights({part.a!r}, {part.b!r})"
        return Made(np.asarray(memory_plane(problem).weights(part.a, part.b)), text)
    if part.scale == 0 and state.is_plain:
        return Made(problem.zero_weights, "problem.zero_weights")
    if part.scale == 0:
        return Made(None, "None")
    made = 'engram.registry.make("system", system, problem=problem, law=problem.law)'
    where = "problem" if state.is_plain else made
    drawn = system.draw_start(part.scale, part.seed)
    return Made(drawn, f"{where}.draw_start({part.scale!r}, {part.seed})")


def check_state(state: Any) -> None:
    """Refuse a state of more numbers than a request can move."""
    import jax

    count = sum(np.size(leaf) for leaf in jax.tree.leaves(state))
    if count > _MOST_NUMBERS:
        raise InputError(
            f"system: must have a state of at most {_MOST_NUMBERS} numbers here, got {count}. Choose a "
            "smaller one."
        )


# --- how it moves ---------------------------------------------------------------------------------------


def make_dynamics(run: S.Run, steps: int) -> Made:
    """The dynamics of a run, over so many steps, as a table of the registry."""
    values = {name: Made(value, repr(value)) for name, value in run.table.items()}
    if run.changes:
        values["learning_rate"] = _changing(run, steps)
    values |= _supplied(run, steps)
    text = ", ".join(f'"{name}": {made.lines}' for name, made in values.items())
    table = {name: made.value for name, made in values.items()}
    return Made(make("dynamics", table), f"{{{text}}}")


def _supplied(run: S.Run, steps: int) -> dict[str, Made]:
    """What the page decides: how many steps; for flows times, and caps on what they may take."""
    fields, rate = entry_of("dynamics", run.kind).fields, run.rate or 1.0
    caps: dict[str, Any] = {"solver": "explicit", "max_steps": FLOW_STEPS, "time_step": rate / 10}
    if is_timed(run.kind):
        chosen = {name: Made(cap, repr(cap)) for name, cap in caps.items() if name in fields}
        return {"times": _times(rate, steps)} | chosen
    return {"steps": Made(steps, str(steps))} if "steps" in fields else {}


def _changing(run: S.Run, steps: int) -> Made:
    edges = [0, *(min(change.step, steps) for change in run.changes), steps]
    rates = [run.rate, *(change.rate for change in run.changes)]
    counts = np.diff(edges).tolist()
    return Made(np.repeat(rates, counts), f"np.repeat({rates!r}, {counts!r})")


def _times(rate: float, steps: int) -> Made:
    """The flow over the same time eta t, recorded evenly, or on a logarithmic scale if long."""
    end = rate * steps
    if steps <= S.DENSE_STEPS:
        text = f"np.linspace(0.0, {end!r}, {_FLOW_POINTS})"
        return Made(np.linspace(0.0, end, _FLOW_POINTS), text)
    times = np.append(0.0, np.geomspace(rate, end, _FLOW_POINTS - 1))
    return Made(times, f"np.append(0.0, np.geomspace({rate!r}, {end!r}, {_FLOW_POINTS - 1}))")


def make_when(run: S.Run, steps: int) -> Made:
    """Which steps are recorded, as an argument of `simulate`; empty for flows and short runs."""
    if is_timed(run.kind) or steps <= S.DENSE_STEPS:
        return Made({}, "")
    return Made(
        {"at": log_spaced(steps, S.FEW_STEPS)},
        f", at=engram.simulation.log_spaced({steps}, {S.FEW_STEPS})",
    )


# --- what is found --------------------------------------------------------------------------------------

RECORD = ("loss", "error", "margins", "token_losses", "weights")


def short(table: Mapping[str, Any]) -> Any:
    """A name alone where that says it all."""
    return table["kind"] if len(table) == 1 else dict(table)


def make_events(state: S.State) -> Made:
    """What is looked for at every step: engram's own events, and those that are asked for."""
    if not state.events:
        return Made(True, "")
    items = ", ".join(repr(short(item)) for item in state.events)
    return Made(
        [True, *(make("event", item) for item in state.events)], f", events=[True, {items}]"
    )
