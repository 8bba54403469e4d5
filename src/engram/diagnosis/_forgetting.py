"""forgetting: for every token when it was learnt, lost and learnt again, and by whom."""

from typing import Any

import numpy as np
import xarray as xr

from engram._checks import check_count
from engram._precision import in_double
from engram.diagnosis._path_average import RecordFollower
from engram.diagnosis._pushes import follow, strongest_rivals
from engram.diagnosis._replay import check_events, check_moments, check_tokens, path_of
from engram.dynamics import Descent
from engram.simulation import events

_CHANGES = ("learnt", "forgotten", "re-learnt")
MOST_STEPS = 2000  # at which causes are looked up


@in_double
def forgetting(run: xr.Dataset, *, most: int = MOST_STEPS) -> xr.Dataset:
    """When each token was learnt, forgotten and learnt again, and who did it.

    The events are those of `engram.events`. Who did it is the source whose push in that one update went
    furthest the way that the margin went; `push` is how much that was, and `own` what the token did itself.

    Args:
        run: What `simulate` returned for a descent, with its events.
        most: Look up who did it at so many different steps, from the first on; later ones have none.

    Returns:
        A dataset with the dimension `event`: `step`, `of` which token, `what`, margins before and after,
        `by` whom, `push` and `own`; and with the dimension `token`: `first_learnt`, `num_forgotten` and
        `is_recalled`, at the end. `by_frequency` sums it up.
    """
    check_count("most", most)
    check_events(run, "event_step")
    check_tokens(run)
    table = events(run)
    table = table.isel(event=np.isin(table["what"].values, _CHANGES))
    labels = run["token"].values
    place = {label: x for x, label in enumerate(labels.tolist())}
    tokens = np.asarray([place[label] for label in table["token"].values.tolist()], int)
    path = path_of(run)
    check_moments(run, path)
    count = len(tokens)
    by, push, own = np.full(count, -1), np.full(count, np.nan), np.full(count, np.nan)
    if isinstance(path.dynamics, Descent | RecordFollower):
        follower = follow(path)
        is_recorded = isinstance(follower, RecordFollower)
        when = table["step"].values
        for step in np.unique(when[when > 0])[:most]:
            before = follower.before(step) if is_recorded else step - 1
            if before == step:  # the first record
                continue
            done = follower.between(before, step)
            rows = np.flatnonzero(when == step)
            after = strongest_rivals(path.system, done.after)
            for row in rows:
                x = tokens[row]
                direction = done.after[x, after[x]] - done.before[x, done.rivals[x]]
                along = np.sign(direction) * done.push[x]
                by[row] = along.argmax()
                push[row], own[row] = done.push[x, by[row]], done.push[x, x]
    columns: dict[str, Any] = {"of": ("event", labels[tokens])}
    for name in ("what", "margin_before", "margin_after"):
        columns[name] = ("event", table[name].values)
    none: Any = np.nan if labels.dtype.kind in "iuf" else ""
    columns["by"] = ("event", np.where(by < 0, none, labels[np.maximum(by, 0)]))
    columns |= {"push": ("event", push), "own": ("event", own)}
    for name in ("first_learnt", "num_forgotten", "last_forgotten"):
        columns[name] = ("token", run[name].values)
    columns["is_recalled"] = ("token", _recalled_at_end(run))
    coords = {"step": ("event", table["step"].values), "token": labels, "probs": run["probs"]}
    about = {"kind": "forgetting", "events_lost": int(run.attrs.get("events_lost", 0))}
    return xr.Dataset(columns, coords, about)


def _recalled_at_end(run: xr.Dataset) -> np.ndarray:
    """Learnt, and not forgotten since."""
    relearnt = run["last_relearnt"].values
    lost = run["last_forgotten"].values
    return np.isfinite(run["first_learnt"].values) & ~(lost > np.nan_to_num(relearnt, nan=-1.0))


def by_frequency(ledger: xr.Dataset, bins: int = 10) -> xr.Dataset:
    """A ledger of forgetting summed up by how often tokens come, most frequent first.

    Args:
        ledger: What `forgetting` returned.
        bins: How many groups of tokens, of about the same size.
    """
    bins = min(check_count("bins", bins), ledger.sizes["token"])
    order = np.argsort(-ledger["probs"].values, kind="stable")
    groups = np.array_split(order, bins)
    mean = lambda name: [float(ledger[name].values[group].mean()) for group in groups]
    learnt = ledger["first_learnt"].values
    middle = [float(np.median(np.nan_to_num(learnt[group], nan=np.inf))) for group in groups]
    return xr.Dataset(
        {
            "tokens": ("group", [len(group) for group in groups]),
            "frequency": ("group", [float(ledger["probs"].values[g].sum()) for g in groups]),
            "recalled": ("group", mean("is_recalled")),
            "times_forgotten": ("group", mean("num_forgotten")),
            "median_first_learnt": ("group", [np.nan if np.isinf(m) else m for m in middle]),
        },
        {"group": np.arange(1, bins + 1)},
    )
