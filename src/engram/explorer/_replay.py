"""A run or a recording from a file, shown as it was recorded: nothing is computed again but its causes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from engram.diagnosis import explain
from engram.explorer._compiled import compiling
from engram.explorer._events import LISTED, causes_of
from engram.explorer._jobs import Job
from engram.explorer._requests import State
from engram.explorer._runs import described, drawn, evenly
from engram.explorer._simulations import problem_in, replayed
from engram.problem import Problem

_NUMBERS = 10**6  # of a trace, at most; records between are left out
_RECORDS = 1001


def replay(state: State, own: Mapping[str, Any], parts: Any, job: Job) -> tuple[Any, Any]:
    """The header and the arrays of a file's run, in the form of those of a run that is computed."""
    part: Any = state.problem
    dataset = replayed(part, own)
    problem = problem_in(dataset)
    header: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    if "runs" in parts:
        words, series = _run_part(dataset, problem)
        header["runs"] = [words]
        arrays |= {f"runs.0.{name}": values for name, values in series.items()}
    if "plane" in parts:
        sizes = [problem.num_tokens, problem.num_classes, problem.dim]
        names = problem.shown_names()
        header["plane"] = {"sizes": sizes, "output_dim": problem.output_dim, "has_plane": False}
        header["plane"] |= {"names": names, "minimiser_exists": False}
        arrays |= {"plane.probs": problem.probs, "plane.targets": problem.labels}
    if "causes" in parts:
        with compiling(job, "replay", part.name):
            explanation = explain(dataset, most=LISTED)
        header["causes"] = [causes_of(explanation, float, problem.shown_names())]
    return header, arrays


def _run_part(dataset: xr.Dataset, problem: Problem) -> tuple[dict[str, Any], dict[str, Any]]:
    values: dict[str, Any] = {str(name): dataset[name].values for name in dataset.variables}
    clock = values["step"].astype(float) if "step" in dataset.dims else values["time"]
    most = min(_RECORDS, max(2, _NUMBERS // problem.num_tokens))
    at = evenly(len(clock), most)
    series = {"step": clock[at]}
    series |= {name: value[at] for name, value in drawn(values).items()}
    if "sharpness" in values:
        series |= {"sharpness_step": clock[at], "sharpness": values["sharpness"][at]}
    shown = ("error", "margins", "sharpness")
    absent = {name: f"`{name}` was not recorded." for name in shown if name not in values}
    words = described(values | {"probs": np.asarray(problem.probs)}, clock, 1.0, problem)
    return words | {
        "status": dataset.attrs.get("status", "completed"),
        "status_text": dataset.attrs.get("status_text", ""),
        "needs_key": False,
        "unknown": absent,
        "has_later": False,
        "thresholds": [],
        "found": [],
        "symbols": {},
        "name": dataset.attrs.get("dynamics", "recording"),
    }, series
