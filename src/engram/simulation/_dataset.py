"""Labels: from arrays to an xarray Dataset that says what it is."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import engram
from engram._checks import InputError
from engram.dynamics import AbstractFlow, Context, Status, Trajectory
from engram.observables import Record
from engram.problem import Problem
from engram.registry import find, table

_CITED = re.compile(r"(.*) \(((?:eq:|thm:|Section ).*)\)")  # a meaning with its place in the paper
_STEPS = {  # events whose values are steps
    "first_perfect": "first step without error",
    "perfect_from": "step from which on there is no error",
    "last_rise": "last step at which the loss rose (length of the oscillation)",
    "spike_start": "step at which a spike leaves the running minimum",
    "spike_step": "step of a spike's peak",
    "spike_end": "step at which a spike has returned",
    "highest_spike_step": "step of its peak",
    "peak_step": "step of a peak",
    "first_learnt": "first step at which a token's margin was above zero",
    "first_forgotten": "first step at which a token was forgotten",
    "last_forgotten": "last step at which a token was forgotten",
    "last_relearnt": "last step at which a forgotten token was re-learnt",
    "event_step": "step at which a token was learnt, forgotten or re-learnt",
}
_EVENTS = _STEPS | {
    "num_spikes": "excursions of the loss above the spike factor times its running minimum",
    "spike_height": "peak of a spike over the running minimum",
    "highest_spike": "height of the highest spike, of all there were",
    "highest_rise": "largest loss over the running minimum before it; 1 if it never rose",
    "max_loss": "largest loss of the run",
    "num_peaks": "maxima of the loss between a rise and a fall by the spike factor",
    "peak_height": "loss of a peak over that of the trough before it",
    "num_learnt": "how often a token was learnt or re-learnt",
    "num_forgotten": "how often a token was forgotten",
    "event_token": "which token, by its place",
    "margin_before": "its margin one step before; NaN at the start",
    "margin_after": "its margin at that step",
}


@dataclass(frozen=True)  # a leaf to JAX, which would sort the names
class Labelled:
    """What becomes a dataset: variables and coordinates as (axes, values, attributes), and attributes.

    What it was made of (`source`) is written out only for a dataset.
    """

    variables: dict[str, Any]
    coords: dict[str, Any]
    attrs: dict[str, Any]
    source: Callable[[], dict[str, Any]]

    def dataset(self) -> xr.Dataset:
        variables, coords = (
            {name: _variable(name, entry) for name, entry in entries.items()}
            for entries in (self.variables, self.coords)
        )
        return xr.Dataset(variables, coords, self.attrs | self.source())

    def arrays(self) -> dict[str, np.ndarray]:
        """All values by name, without labels."""
        return {
            name: np.asarray(entry[1] if isinstance(entry, tuple) else entry)
            for name, entry in (self.coords | self.variables).items()
        }


def _variable(name: str, entry: Any) -> Any:
    """Of an array as it is: to look at it, xarray would load dask, which takes as long as a short run."""
    axes, values, *attrs = entry if isinstance(entry, tuple) else ((name,) * np.ndim(entry), entry)
    values = np.asarray(values)
    return xr.Variable(axes, values, *attrs, fastpath=values.dtype.kind in "biufcU")


def label(
    context: Context,
    record: Record,
    path: Trajectory,
    first: dict[str, Any],
    space: str,
    source: Callable[[], dict[str, Any]],
) -> Labelled:
    """Name the axes of everything recorded, and say how the run was made and how it ended."""
    system, dynamics = context.system, context.dynamics
    is_flow, num_steps = isinstance(dynamics, AbstractFlow), int(path.num_steps)
    clock = path.times.__getitem__ if is_flow else dynamics.time_at
    along = "time" if is_flow or dynamics.counts_time else "step"
    coords = system.coords()
    times = np.asarray(path.times if is_flow else clock(path.times))
    about_time = {"long_name": "flow time, the sum of the learning rates", "symbol": "eta t"}
    coords["time"] = (along, times, about_time)
    if along == "step":
        coords["step"] = ("step", path.times, {"long_name": "updates made", "symbol": "t"})
    variables: dict[str, Any] = {}
    for name, observable in zip(record.names, record.observables, strict=True):
        if name in path.records:
            entry, values = find("observable", name), np.asarray(path.records[name])
            axes, symbol = observable.axes, observable.symbol or entry.about.get("symbol", "")
            axes = [f"{name}_{i}" for i in range(values.ndim - 1)] if axes is None else axes
            attrs = {"long_name": observable.meaning or entry.help, "symbol": symbol}
            if cited := _CITED.fullmatch(attrs["long_name"]):
                attrs["long_name"], attrs["paper"] = cited.groups()
            variables[name] = ((along, *axes), values, attrs)
    about_events: dict[str, Any] = {}
    if context.fold is not None and path.folded is not None:
        last = len(times) - 1 if is_flow else num_steps
        described = context.fold.describe(path.folded, last)
        taken = {*variables, *coords}
        variables |= label_events(described, None if along == "step" else clock, taken)
        about_events = about_events_in(variables)
    problem = getattr(system, "problem", None)
    variables |= {} if problem is None else label_problem(problem)
    for when, kept in (("start", first), ("final", path.final)):
        for name, value in kept.items():
            axes, symbol = _axes_of(name, np.ndim(value)), "W" if name == "weights" else name
            attrs = {"long_name": f"{symbol} at the {'end' if when == 'final' else when}"}
            variables[f"{when}_{name}"] = (axes, np.asarray(value), attrs)
    status = Status(int(path.status))
    ended_at = path.stopped_at if is_flow else clock(num_steps)
    attrs = {
        "status": status.name.lower().replace("_", " "),
        "status_text": status.text,
        "stopped_at": num_steps if along == "step" else float(ended_at),
        "num_steps": num_steps,
        "dynamics": type(dynamics).__name__,
        "settings": json.dumps(table(dynamics)),
        "space": space,
        **about_events,
        "engram": engram.__version__,
    }
    return Labelled(variables, coords, attrs, source)


def label_events(
    described: Any, clock: Callable[[Any], Any] | None, taken: Any = ()
) -> dict[str, Any]:
    """Events as variables; where they are counted in records, the clock says when those were."""
    variables = {}
    for name, (axes, value) in described.items():
        value = value if clock is None else at_times(name, value, clock)
        name = f"event_{name}" if name in taken else name
        variables[name] = (axes, value, {"long_name": _EVENTS.get(name, name)})
    return variables


def label_problem(problem: Problem) -> dict[str, Any]:
    """The arrays of a problem as variables; its frequencies are a coordinate."""
    return {
        f"problem_{name}": (axes, np.asarray(getattr(problem, name)))
        for name, axes in problem.axes().items()
        if name != "probs"
    }


def stored_problem(run: xr.Dataset) -> Problem:
    """The problem of a run, from the arrays in its dataset."""
    stored = {"inputs": "problem_inputs", "outputs": "problem_outputs", "probs": "probs"}
    stored |= {"targets": "problem_targets", "clean_labels": "problem_clean_labels"}
    arrays = {name: run.get(variable) for name, variable in stored.items()}
    missing = [
        stored[name] for name in ("inputs", "outputs", "probs", "targets") if arrays[name] is None
    ]
    if missing:
        raise InputError(
            f"`run` must hold its problem, and lacks {', '.join(missing)}. Give what `simulate` returned."
        )
    labels = {"names": run.coords.get("token"), "class_names": run.coords.get("class")}
    arrays |= {
        name: axis for name, axis in labels.items() if axis is not None and axis.dtype.kind in "OSU"
    }
    return Problem(**{name: array.values for name, array in arrays.items() if array is not None})


def _axes_of(name: str, ndim: int) -> tuple[str, ...]:
    return ("row", "col") if name == "weights" else tuple(f"{name}_{i}" for i in range(ndim))


def about_events_in(variables: dict[str, Any]) -> dict[str, Any]:
    """Which loss was read, and how many events were counted without being kept one by one."""
    if "event_step" not in variables and "spike_step" not in variables:
        return {}
    size = lambda name: len(variables[name][1]) if name in variables else 0
    total = lambda *names: sum(
        int(np.sum(variables[name][1])) for name in names if name in variables
    )
    counted = total("num_spikes", "num_peaks", "num_learnt", "num_forgotten")
    kept = size("spike_step") + size("peak_step") + size("event_step")
    return {"events_loss": "loss under the data's own law", "events_lost": counted - kept}


def at_times(name: str, value: Any, clock: Callable[[Any], Any]) -> Any:
    """An event counted in records, or in steps of a scheme, by the time of that record or step."""
    if name not in _STEPS:
        return value
    index = np.asarray(value, float)
    known = np.isfinite(index)
    return np.where(known, clock(np.where(known, index, 0).astype(int)), np.nan)
