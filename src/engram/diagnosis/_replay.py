"""Paths of runs, made again from what a dataset says of itself."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from engram._checks import InputError
from engram._types import ArrayLike
from engram.diagnosis._pushes import Path
from engram.dynamics import AbstractFlow, Descent
from engram.problem import Problem, as_key
from engram.registry import make
from engram.simulation import choose_space, make_system, stored_problem
from engram.system import AbstractSystem


def check_events(run: xr.Dataset, name: str) -> None:
    """Refuse a run without its events."""
    if name in run:
        return
    if run.attrs.get("kind") == "recording":
        raise InputError("`run` must have finite weights, and its first record has others.")
    raise InputError("`run` must have its events. Run `simulate` with `events=True`.")


def check_tokens(run: xr.Dataset) -> None:
    """Refuse a run whose events are of tokens that it does not have."""
    if "event_token" not in run:
        return
    tokens, count = run["event_token"].values, run.sizes.get("token", 0)
    if not ((tokens >= 0) & (tokens < count)).all():
        raise InputError(
            f"`run` must have events of its {count} tokens, got others in `event_token`. It was changed: run "
            "`simulate` again."
        )


def check_moments(run: xr.Dataset, path: Path) -> None:
    """Refuse a run whose events lie beyond its end, where a replay would not end."""
    dynamics = path.dynamics
    if not isinstance(dynamics, AbstractFlow | Descent):
        return  # events of a recording are found in its weights
    if isinstance(dynamics, AbstractFlow) or dynamics.counts_time:
        end = dynamics.end * (1 + 1e-12)
    else:
        end = dynamics.num_steps
    for name in ("spike_start", "spike_step", "event_step"):
        moments = run[name].values if name in run else np.zeros(0)
        if not ((moments >= 0) & (moments <= end)).all():
            raise InputError(
                f"`run` must have its events between 0 and {end:g}, got others in `{name}`. It was changed: "
                "run `simulate` again."
            )


def path_of(
    what: xr.Dataset | Problem | AbstractSystem,
    dynamics: Any = None,
    start: ArrayLike | None = None,
    key: PRNGKeyArray | int | None = None,
) -> Path:
    """The path of a run: of a dataset as it says itself, otherwise of what is given as for `simulate`."""
    if isinstance(what, xr.Dataset):
        return _path_of_dataset(what)
    if dynamics is None:
        raise InputError("`dynamics` must be given with a problem or a system, got none.")
    dynamics = make("dynamics", dynamics) if isinstance(dynamics, dict) else dynamics
    key = None if key is None else as_key(key)
    if isinstance(what, Problem):
        space = choose_space(what, dynamics, "auto")
        W = what.zero_weights if start is None else np.asarray(start, float)
        return Path(*_placed(what, dynamics, space, W), key)
    state = what.start() if start is None else start
    return Path(what, dynamics, jax.tree.map(jnp.asarray, state), key)


def _placed(problem: Problem, dynamics: Any, space: str, W: Any) -> tuple[Any, Any, Any]:
    system, state = make_system(problem, dynamics, space, jnp.asarray(W))
    return system, dynamics, state


def _path_of_dataset(run: xr.Dataset) -> Path:
    if run.attrs.get("kind") == "recording":
        from engram.diagnosis._path_average import RecordFollower

        follower = RecordFollower(run)
        return Path(follower.system, follower, run["start_weights"].values, None)
    problem = stored_problem(run)
    try:
        spec = json.loads(run.attrs["spec"])
        dynamics = make("dynamics", spec["dynamics"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"`run` must say how it was made, and its dynamics cannot be made again ({error}). Run "
            "`simulate` again, or give the problem with its `dynamics`, `start` and `key`."
        ) from None
    given = spec.get("given", {})
    key = spec.get("run", {}).get("seed")
    if "key" in given:
        key = jax.random.wrap_key_data(jnp.asarray(given["key"], jnp.uint32), impl="threefry2x32")
    key = None if key is None or not dynamics.needs_key else as_key(key)
    table, space = spec.get("system"), str(run.attrs.get("space"))
    if table is not None and table != {"kind": "memory"}:
        system = make("system", table, problem=problem, law=problem.law)
        return Path(system, dynamics, _kept_start(run, system), key)
    W = run["start_weights"].values if "start_weights" in run else problem.zero_weights
    spaces = ("weights", "particles", "margins")
    space = space if space in spaces else choose_space(problem, dynamics, "auto")
    return Path(*_placed(problem, dynamics, space, W), key)


def _kept_start(run: xr.Dataset, system: AbstractSystem) -> Any:
    """The state that a system started from: its parts are in the dataset by their names."""
    example = jax.tree.map(jnp.asarray, system.start())
    names = list(system.kept(example))
    leaves, structure = jax.tree.flatten(example)
    stored = [f"start_{name}" for name in names]
    if len(leaves) != len(names) or any(name not in run for name in stored):
        raise InputError(
            f"`run` must hold the state that its {type(system).__name__} started from. Give the system "
            "with its `dynamics`, `start` and `key` instead."
        )
    return jax.tree.unflatten(structure, [jnp.asarray(run[name].values) for name in stored])
