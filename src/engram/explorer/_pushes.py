"""Who pushed whom at a step of a run: a number for each pair of tokens."""

from typing import Any

import numpy as np

from engram._checks import InputError
from engram.diagnosis import interference
from engram.explorer._compiled import compiling
from engram.explorer._controls import is_timed
from engram.explorer._jobs import Job
from engram.explorer._requests import Request
from engram.explorer._runs import given_of
from engram.explorer._simulations import make_system, replayed
from engram.problem import Problem

_MOST_WORK = 3e9  # steps times the numbers of all tokens' gradients; some ten seconds
_REST = ("decay", "noise", "rival", "embeddings", "remainder")

Parts = tuple[dict[str, Any], dict[str, Any]]  # small numbers, and arrays


def pushes_part(request: Request, problem: Problem, job: Job) -> Parts:
    """The update after a step, the last one where no other comes, as `diagnosis.interference` shares it."""
    state, number = request.state, request.run
    if number >= len(state.runs):
        raise InputError(f"run: must be one of the {len(state.runs)} runs, got {number}.")
    run = state.runs[number]
    if is_timed(run.kind):
        raise InputError(f"{run.kind} makes no steps, so that the pushes of one are not known.")
    given = given_of(state, problem, run)
    step = min(request.step, given.dynamics.num_steps - 1)
    system = None if state.is_plain else make_system(state, problem)
    _check_work(problem, step)
    key = run.seed if given.dynamics.needs_key else None
    with compiling(job, "pushes", *given.form):
        shares = interference(
            problem if system is None else system,
            given.dynamics, at=step, start=given.options["start"], key=key,
        )  # fmt: skip
    return described(shares, number)


def replayed_pushes(request: Request, own: Any, job: Job) -> Parts:
    """The same of a run from a file, at the record of a step."""
    part: Any = request.state.problem
    dataset = replayed(part, own)
    along = "step" if "step" in dataset.dims else "time"
    if along == "time":
        raise InputError("a flow makes no steps, so that the pushes of one are not known.")
    steps = dataset[along].values[:-1]
    at = float(steps[max(0, int(np.searchsorted(steps, request.step, "right")) - 1)])
    with compiling(job, "replayed pushes", part.name):
        return described(interference(dataset, at=at), 0)


def described(shares: Any, number: int) -> Parts:
    """The pushes as the page draws them: `push` by token (row) and source (column), and the `rest`."""
    rest = sum(shares[name].values for name in _REST if name in shares)
    about = {"run": number, "first": shares.attrs["first"], "last": shares.attrs["last"]}
    return about, {"push": shares["push"].values, "rest": rest, "change": shares["change"].values}


def _check_work(problem: Problem, step: int) -> None:
    numbers = problem.num_tokens * problem.dim * problem.output_dim
    if numbers * (step + 1) > _MOST_WORK:
        most = int(_MOST_WORK / numbers)
        raise InputError(f"who pushed whom takes too long beyond step {most} here, got {step}.")
