"""From a spec to the objects it names, and to the run it describes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from engram import dynamics as D
from engram import problem as P
from engram._checks import InputError
from engram._room import check_room
from engram.problem import Problem
from engram.simulation import choose_space, simulate
from engram.specs._models import DynamicsSpec, ProblemSpec, SimulationSpec


def build_problem(spec: ProblemSpec) -> Problem:
    """The problem that a spec describes."""
    if spec.family == "file":
        return _in_rows(_load(Path(str(spec.path))))
    if spec.family == "two":
        options: Any = {} if spec.dim is None else {"dim": spec.dim}
        return P.two_tokens(_known(spec.correlation), _known(spec.p1), **options)
    laws: Any = {"probs": spec.probs, "exponent": spec.exponent, "targets": spec.targets}
    sizes = (_known(spec.num_tokens), _known(spec.num_classes))
    if spec.family == "one_hot":
        return P.one_hot(*sizes, **laws, key=spec.seed)
    if spec.family == "orthonormal":
        return P.orthonormal(*sizes, dim=spec.dim, **laws, key=spec.seed)
    family = P.on_sphere if spec.family == "sphere" else P.gaussian
    return family(spec.seed, *sizes, _known(spec.dim), **laws)


def _load(path: Path) -> Problem:
    try:
        return Problem.load(path)
    except InputError as error:
        fault = str(error).replace("`path` ", "")
        raise InputError(f"--problem-file (problem.path): {fault}") from None


def _in_rows(problem: Problem) -> Problem:
    """The same numbers, row by row in memory: products may round otherwise when they lie otherwise."""
    return jax.tree.map(np.ascontiguousarray, problem)


def build_dynamics(spec: DynamicsSpec) -> D.AbstractDynamics:
    """The dynamics that a spec describes."""
    if spec.kind == "gd":
        return D.GradientDescent(spec.learning_rate, _known(spec.steps))
    if spec.kind == "sgd":
        return D.StochasticGradientDescent(
            spec.learning_rate, _known(spec.steps), _known(spec.batch_size)
        )
    if spec.kind in ("flow", "sgf"):
        times = _times(spec)
        if spec.kind == "flow":
            return D.GradientFlow(times)
        return D.StochasticGradientFlow(
            times,
            spec.learning_rate,
            spec.batch_size,
            noise_scale=spec.noise_scale,
            time_step=spec.time_step,
        )
    names = ("momentum", "b1", "b2", "decay", "eps", "weight_decay")
    numbers = {name: getattr(spec, name) for name in names if getattr(spec, name) is not None}
    # AdamW's decay is its own; for others it is a term of the gradient.
    coupled = 0.0 if spec.kind == "adamw" else numbers.pop("weight_decay", 0.0)
    return D.PracticalDescent(
        getattr(D, spec.kind)(spec.learning_rate, **numbers),
        _known(spec.steps),
        spec.batch_size,
        weight_decay=coupled,
        layer_norm=spec.layer_norm,
    )


def simulate_spec(
    spec: SimulationSpec,
    progress: Callable[[int, int], None] | None = None,
    *,
    problem: Problem | None = None,
) -> xr.Dataset:
    """Run what a spec describes, on its own problem or on one that was built or stored before."""
    problem = build_problem(spec.problem) if problem is None else problem
    run, dynamics = spec.run, build_dynamics(spec.dynamics)
    _check_fits(problem, dynamics, run.space)
    start = None
    if run.start_scale:
        shape = problem.zero_weights.shape
        draws = np.random.default_rng(run.seed).standard_normal(shape)
        start = run.start_scale * draws / np.sqrt(problem.dim)
    return simulate(
        problem,
        dynamics,
        start=start,
        record=tuple(run.record),
        space=run.space,
        key=run.seed,
        every=run.every,
        points=run.points,
        stop=run.stop,
        progress=progress,
    )


def _check_fits(problem: Problem, dynamics: D.AbstractDynamics, space: str) -> None:
    """Refuse a run that would not fit into memory: a state, its gradient and copies of them."""
    N, M, d, k = problem.num_inputs, problem.num_outputs, problem.dim, problem.output_dim
    space = choose_space(problem, dynamics, space)
    more = {"weights": 0, "particles": N**2 + M**2 + 4 * N * M, "margins": N**2}[space]
    check_room(8 * (4 * k * d + more), num_tokens=N, num_classes=M, dim=max(d, k))


def _times(spec: DynamicsSpec) -> np.ndarray:
    end = _known(spec.end)
    if spec.spacing == "linear":
        return np.linspace(0, end, spec.num_times)
    return np.expm1(np.linspace(0, np.log1p(end), spec.num_times))


def _known(value: Any) -> Any:
    assert value is not None, "checked when the spec was read"
    return value
