"""From a state to the library's objects, side by side with the Python lines that make the same ones."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from engram import dynamics as D
from engram._checks import InputError
from engram.explorer import _state as S
from engram.figures import reference
from engram.figures._reference import case_of, problem_of
from engram.planes import memory_plane
from engram.problem import Problem, on_sphere, two_tokens
from engram.simulation import log_spaced

_FLOW_POINTS = 257
FLOW_STEPS = 4096  # of the explicit solver, so that no request takes long


class Made(NamedTuple):
    """An object and the expression that makes it; none where only its numbers can be written out."""

    value: Any
    lines: str | None


def has_plane(problem: Problem) -> bool:
    """Whether two coordinates are all that the loss depends on."""
    outputs = np.asarray(problem.outputs)
    return problem.dim == 2 and problem.num_outputs == 2 and bool((outputs[0] != outputs[1]).any())


def make_problem(part: Any, own: Mapping[str, Problem]) -> Made:
    """The problem of a state; `own` holds those that Python sessions have handed over."""
    if isinstance(part, S.Two):
        text = f"engram.two_tokens({part.correlation!r}, {part.p1!r})"
        return Made(two_tokens(part.correlation, part.p1), text)
    if isinstance(part, S.Sphere):
        sizes = (part.seed, part.tokens, part.classes, part.dim)
        text = f"engram.on_sphere({', '.join(map(str, sizes))}, exponent={part.exponent!r})"
        return Made(on_sphere(*sizes, exponent=part.exponent), text)
    if isinstance(part, S.Table):
        return Made(_from_table(part), None)
    if isinstance(part, S.Own):
        if part.name not in own:
            raise InputError(
                f"problem.name: {part.name!r} is not here: the Python session that showed it has ended. "
                "Call `engram.explore(problem)` again, or choose another problem."
            )
        return Made(own[part.name], None)
    figure, _, which = part.name.partition("-")
    if which == "sgd":
        return Made(problem_of(reference("fig4_sgd")["cases"][0]), None)
    wanted = {"d" if figure == "fig6" else "seed": int(which)}
    return Made(problem_of(case_of(figure, **wanted)), None)


def sizes_of(part: Any, own: Mapping[str, Problem]) -> tuple[int, int, int, int] | None:
    """N, M, d and k of the problem of a state, without making it; None if it is not there."""
    if isinstance(part, S.Two):
        return 2, 2, 2, 2
    if isinstance(part, S.Sphere):
        return part.tokens, part.classes, part.dim, part.dim
    if isinstance(part, S.Table):
        return len(part.tokens), 2, 2, 2
    if isinstance(part, S.Own) and part.name not in own:
        return None
    return sizes_of_problem(make_problem(part, own).value)


def sizes_of_problem(problem: Problem) -> tuple[int, int, int, int]:
    """N, M, d and k: what programs are compiled for."""
    return problem.num_inputs, problem.num_outputs, problem.dim, problem.output_dim


def _from_table(part: S.Table) -> Problem:
    inputs = np.array([[token.x, token.y] for token in part.tokens])
    probs = np.array([token.prob for token in part.tokens])
    return Problem(inputs, np.eye(2), probs, np.array([token.target for token in part.tokens]))


def _written_out(problem: Problem) -> str:
    """A problem by its numbers, to the last bit."""
    arrays = ("inputs", "outputs", "probs", "targets")
    values = {name: np.asarray(getattr(problem, name)).tolist() for name in arrays}
    values |= {name: getattr(problem, name) for name in ("names", "class_names")}
    given = (f"{name}={value!r}" for name, value in values.items() if value is not None)
    text = ",\n    ".join(given)
    return f"engram.Problem(\n    {text},\n)"


def make_start(part: S.Start, problem: Problem) -> Made:
    """The weights to start from."""
    if has_plane(problem):
        at = (part.a, part.b)
        text = f"engram.planes.memory_plane(problem).weights({part.a!r}, {part.b!r})"
        return Made(np.asarray(memory_plane(problem).weights(*at)), text)
    zero, d = problem.zero_weights, problem.dim
    if part.scale == 0:
        return Made(zero, f"np.zeros({zero.shape})")
    noise = np.random.default_rng(part.seed).standard_normal(zero.shape)
    text = f"{part.scale!r} * np.random.default_rng({part.seed}).standard_normal({zero.shape}) / np.sqrt({d})"
    return Made(part.scale * noise / np.sqrt(d), text)


def make_dynamics(run: S.Run, steps: int) -> Made:
    """The dynamics of a run, over so many steps."""
    rate = run.rate
    if run.method == "gd" and run.changes:
        return _changing(run, steps)
    if run.method == "gd":
        return Made(D.GradientDescent(rate, steps), f"engram.GradientDescent({rate!r}, {steps})")
    if run.method == "flow":
        return _flow(rate, steps)
    if run.method == "sgd":
        text = f"engram.StochasticGradientDescent({rate!r}, {steps}, batch_size={run.batch})"
        return Made(D.StochasticGradientDescent(rate, steps, batch_size=run.batch), text)
    optimizer = getattr(D, run.method)(rate)
    text = f"engram.PracticalDescent(engram.dynamics.{run.method}({rate!r}), {steps})"
    return Made(D.PracticalDescent(optimizer, steps), text)


def _changing(run: S.Run, steps: int) -> Made:
    edges = [0, *(min(change.step, steps) for change in run.changes), steps]
    rates = [run.rate, *(change.rate for change in run.changes)]
    counts = np.diff(edges).tolist()
    text = f"engram.GradientDescent(np.repeat({rates!r}, {counts!r}), {steps})"
    return Made(D.GradientDescent(np.repeat(rates, counts), steps), text)


def _flow(rate: float, steps: int) -> Made:
    """The flow over the same time eta t, recorded evenly, or on a logarithmic scale if long."""
    end = rate * steps
    options = {"solver": "explicit", "max_steps": FLOW_STEPS}
    if steps <= S.DENSE_STEPS:
        times = np.linspace(0.0, end, _FLOW_POINTS)
        text = f"np.linspace(0.0, {end!r}, {_FLOW_POINTS})"
    else:
        times = np.append(0.0, np.geomspace(rate, end, _FLOW_POINTS - 1))
        text = f"np.append(0.0, np.geomspace({rate!r}, {end!r}, {_FLOW_POINTS - 1}))"
    text = f'engram.GradientFlow({text}, solver="explicit", max_steps={FLOW_STEPS})'
    return Made(D.GradientFlow(times, **options), text)


def make_when(method: str, steps: int) -> Made:
    """Which steps are recorded, as an argument of `simulate`; empty for flows and short runs."""
    if method == "flow" or steps <= S.DENSE_STEPS:
        return Made({}, "")
    return Made(
        {"at": log_spaced(steps, S.FEW_STEPS)},
        f", at=engram.simulation.log_spaced({steps}, {S.FEW_STEPS})",
    )


RECORD = ("loss", "error", "margins", "token_losses", "weights")


def python_lines(state: S.State, own: Mapping[str, Problem]) -> str:
    """The lines which, run, give the numbers on the page."""
    problem = make_problem(state.problem, own)
    start = make_start(state.start, problem.value)
    lines = [
        "import numpy as np",
        "",
        "import engram",
        "",
        f"problem = {problem.lines or _written_out(problem.value)}",
        f"start = {start.lines}",
        f"record = {RECORD!r}",
        "runs = [",
    ]
    for run in state.runs:
        dynamics, when = make_dynamics(run, state.steps), make_when(run.method, state.steps)
        key = f", key={run.seed}" if run.method == "sgd" else ""
        lines.append(
            f"    engram.simulate(problem, {dynamics.lines}, start=start, record=record{key}{when.lines}),"
        )
    lines += [
        "]",
        "for run in runs:",
        "    print(run.attrs['dynamics'], run.attrs['status'], 'last loss', float(run.loss[-1]))",
    ]
    return "\n".join(lines) + "\n"
