"""The authors' settings and the values that they lead to, as shipped with the package."""

import functools
import json
from importlib import resources
from typing import Any

import numpy as np
import xarray as xr

from engram._checks import InputError
from engram.problem import Problem


@functools.cache
def reference(name: str) -> Any:
    """Settings and float64 values of a figure, for example "fig6"."""
    return json.loads((resources.files("engram.figures") / "data" / f"{name}.json").read_text())


def problem_of(case: Any) -> Problem:
    """The problem of a reference case: the authors' draw of the embeddings."""
    return Problem(case["E"], case["U"], case["probabilities_f64"], case["targets"])


def arrays_of(problem: Problem) -> xr.Dataset:
    """A problem as variables, so that the data of a figure can be used without the figure."""
    return xr.Dataset(
        {
            "inputs": (("token", "component"), problem.inputs),
            "outputs": (("class", "component"), problem.outputs),
            "probs": ("token", problem.probs),
            "targets": ("token", problem.targets.astype(float)),
        }
    )


def case_of(name: str, **wanted: Any) -> Any:
    """The case of a figure that has the given entries."""
    for case in reference(name)["cases"]:
        if all(np.isclose(case[key], value) for key, value in wanted.items()):
            return case
    entry, value = next(iter(wanted.items()))
    known = ", ".join(str(case[entry]) for case in reference(name)["cases"])
    raise InputError(
        f"the settings of {name} must keep to the authors' draws, {entry} = {known}, got {value!r}. Draw "
        "your own with `engram.on_sphere`."
    )
