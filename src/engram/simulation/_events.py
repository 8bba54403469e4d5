"""events: what happened in a run, one row after another."""

from typing import Any

import numpy as np
import xarray as xr

from engram._checks import InputError
from engram._precision import in_double
from engram.observables import SPIKE_FACTOR, Events, events_of_series
from engram.simulation._dataset import at_times
from engram.system import Look

_COLUMNS = {
    "what": "what happened",
    "token": "to which token; NaN, or empty, if to none",
    "margin_before": "its margin one step before; NaN if there is none",
    "margin_after": "its margin then",
    "height": "of a spike over the lowest loss before it, of a peak over the trough before it; else NaN",
}


@in_double
def events(
    run: xr.Dataset, *, margins: str = "margins", spike_factor: float = SPIKE_FACTOR
) -> xr.Dataset:
    """What happened in a run, as a table: one row per event, in the order of steps.

    What happens is "learnt", "forgotten" and "re-learnt" of a token; "spike" and "peak" of the loss, at the
    highest point; "perfect", the first step without error, and "perfect for good", from where there is none.

    Args:
        run: What `simulate` returned, also from a file, or the `partial` of an interrupted run. In any other
            dataset with a `loss` by step or time, such as the log of a training, the records are searched.
        margins: Where those records have the margins, if they have them.
        spike_factor: As for `simulate`, for events that are found among the records.

    Returns:
        A dataset with the dimension `event`: `step` (or `time`), `what`, `token`, `margin_before`,
        `margin_after`, `height`. `.to_dataframe()` makes a data frame of it, for `.to_csv` say.
    """
    along = "step" if "step" in run.dims else "time"
    if along not in run.dims:
        raise InputError(
            "`run` must have a dimension `step` or `time`. Give what `simulate` returned."
        )
    if "event_step" not in run and "spike_step" not in run:
        run = _of_records(run, along, margins, spike_factor)
    value = lambda name: run[name].values if name in run else np.zeros(0)
    one = lambda name: np.atleast_1d(value(name))
    rows = [
        _rows("spike", value("spike_step"), height=value("spike_height")),
        _rows("peak", value("peak_step"), height=value("peak_height")),
        _rows("perfect", one("first_perfect")),
        _rows("perfect for good", one("perfect_from")),
    ]
    labels: Any = np.zeros(0)
    if "event_step" in run:
        labels = run["token"].values if "token" in run.coords else np.arange(run.sizes["token"])
        rows.append(_changes(run))
    joined = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    happened = np.isfinite(joined["when"])
    order = np.flatnonzero(happened)[np.argsort(joined["when"][happened], kind="stable")]
    table = {name: values[order] for name, values in joined.items()}
    when = table.pop("when")
    table["token"] = _labelled(table["token"], labels)
    variables = {name: ("event", table[name], {"long_name": _COLUMNS[name]}) for name in _COLUMNS}
    when = when.astype(int) if along == "step" else when
    kept = {name: run.attrs[name] for name in ("events_loss", "events_lost") if name in run.attrs}
    return xr.Dataset(variables, {along: ("event", when)}, kept)


def _rows(what: Any, when: Any, **columns: Any) -> dict[str, np.ndarray]:
    count = len(when)
    nothing = dict.fromkeys(("margin_before", "margin_after", "height"), np.full(count, np.nan))
    what = np.full(count, what, dtype="<U16") if isinstance(what, str) else what
    return {"when": when, "what": what, "token": np.full(count, -1), **nothing, **columns}


def _changes(run: xr.Dataset) -> dict[str, np.ndarray]:
    """Tokens that were learnt, forgotten or re-learnt."""
    when, token = run.event_step.values, run.event_token.values.astype(int)
    is_first = when == run.first_learnt.values[token]
    gained = np.where(is_first, "learnt", "re-learnt")
    what = np.where(run.margin_before.values > 0, "forgotten", gained).astype("<U16")
    margins = {name: run[name].values for name in ("margin_before", "margin_after")}
    return _rows(what, when, token=token, **margins)


def _labelled(token: np.ndarray, labels: np.ndarray) -> np.ndarray:
    if not len(labels):
        return np.full(len(token), np.nan)
    none = np.nan if labels.dtype.kind in "iuf" else ""
    return np.where(token < 0, none, labels[np.maximum(token, 0)])


def _of_records(run: xr.Dataset, along: str, margins: str, spike_factor: float) -> xr.Dataset:
    """The events among the records of a run."""
    if "loss" not in run or run["loss"].dims != (along,):
        raise InputError(
            f"`run` must have events, or a `loss` by {along} alone, got "
            f"{dict(run['loss'].sizes) if 'loss' in run else 'none'}. Select one run with `.isel`, or record "
            "the loss."
        )
    ended = np.isfinite(run["loss"].values)
    error = run["error"] if "error" in run else 1 - run["accuracy"] if "accuracy" in run else None
    known = run.get(margins)
    look = [None if each is None else each.values[ended] for each in (run["loss"], error, known)]
    if not ended.any():
        raise InputError("`run` must have a finite `loss`, got none. Continue the run first.")
    fold = Events(np.asarray(spike_factor, float))
    described = fold.describe(events_of_series(fold, Look(*look)), int(ended.sum()) - 1)
    clock = run[along].values[ended].__getitem__
    values = {name: (axes, at_times(name, x, clock)) for name, (axes, x) in described.items()}
    events = xr.Dataset(values, attrs={"events_loss": "the recorded loss"})
    if known is not None and known.dims[1] in run.coords:
        events = events.assign_coords(token=("token", run[known.dims[1]].values))
    return events
