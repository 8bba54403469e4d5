"""interference: by how much each token changed the margin of each other one."""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, check_choice
from engram._precision import in_double
from engram._types import ArrayLike, Table
from engram.diagnosis._path_average import RecordFollower
from engram.diagnosis._pushes import Moment, Path, Pushes, follow, strongest_rivals
from engram.diagnosis._replay import path_of
from engram.dynamics import AbstractDynamics, AbstractFlow
from engram.problem import Problem
from engram.system import AbstractSystem

_MEANINGS = {
    "push": "change of the token's margin that the source made",
    "decay": "change that weight decay made",
    "noise": "change that noise on W made; of a recording, what the loop's gradient has beyond the memory's",
    "rival": "change because another class became the strongest rival; never positive, unless pushes are "
    "against the last one",
    "remainder": "change that is not accounted for",
    "embeddings": "change that moving embeddings made",
    "change": "change of the margin",
    "margin_before": "margin at the first moment",
    "margin_after": "margin at the second moment",
    "rival_before": "strongest rival at the first moment",
    "rival_after": "strongest rival at the second moment",
    "input_overlap": "inner product of the inputs of token and source",
    "output_overlap": "how the source's pull on the classes changes the token's margin, per strength",
    "frequency": "how often the source came, on average over the steps",
    "strength": "how much the source pulled in all: frequency times residual, summed over the steps",
    "loss_before": "loss of the token at the first moment",
    "loss_after": "loss of the token at the second moment",
}


@in_double
def interference(
    run: xr.Dataset | Problem | AbstractSystem,
    dynamics: AbstractDynamics | Table | None = None,
    *,
    at: float | None = None,
    between: tuple[float, float] | None = None,
    rival: Moment = "first",
    start: ArrayLike | None = None,
    key: PRNGKeyArray | int | None = None,
) -> xr.Dataset:
    r"""By how much each token changed the margin of each other token.

    Each update is a sum over tokens, so the change of a margin is, too. For a token x with the strongest
    rival $y_0$ at the first moment, `push` has the change of $w_{xf^*(x)} - w_{xy_0}$ that each source made.
    What the rest of the change is has a variable of its own: `rival`, if another class is the strongest
    rival in the end; `decay` of the weights; `noise` on W; and a `remainder`, which is rounding where
    margins are linear in the state and the optimizer is known, and says how much is not accounted for where
    they are not (layer norm, products of factors, an optimizer that is not engram's). They add up:

    `push.sum("source") + decay + noise + rival + remainder = change`.

    Optimizers are followed exactly: momentum gives past gradients their share, and what Adam, sign descent
    or Muon divide by is held at the value that it had. A run is made again for this, from what its
    dataset says; `deviation` in the attributes is how far its losses came out from those recorded.

    Of a recording (`Recorder`, `open_recording`, `analyse`) weights are known at its records and nothing
    else; `method` in the attributes says how pushes were found. Where inputs are linearly independent, the
    change of W has one part per token, whatever path it took: exact for optimizers that add up gradients.
    Otherwise `push` is a path average: the change between one record and the next is fitted by the
    gradients at both, then by each token's part of the first one if that meets most of what is left, as it
    does for batches. `noise` is what recorded gradients have beyond tokens' parts. `fit` is the share of the
    change of W that is met; the `remainder` is not rounding, and says what is left. What
    embeddings that train along did is `embeddings`, one more part of the sum.

    Args:
        run: What `simulate` returned, or a recording. Or a problem or system, with `dynamics`, `start` and
            `key` as for `simulate`.
        dynamics: How the problem or system moves.
        at: One step: what the update from step `at` to `at + 1` did; of a recording, what happened from
            the record of that step to the next.
        between: Two steps (or times, for flows): what happened from the first to the second.
        rival: Pushes are on the margin against the class that is the strongest rival at this moment, "first"
            or "last". Against the last one `rival` is what the margins against the two classes differed by
            at the first, never negative.
        start: Where a problem or system starts.
        key: The random numbers of a problem or system.

    Returns:
        A dataset over `token` and `source`; `frequency` is how often the source came in the steps. For
        updates that are linear in gradients it also says why: `push` is `input_overlap` times
        `output_overlap` times the `strength` of the source.

    Paper: thm:inter, summed over steps.
    """
    check_choice("rival", rival, ("first", "last"))
    path = path_of(run, dynamics, start, key)
    first, last = _read_moments(path, at, between)
    pushes = follow(path).between(first, last, rival)
    dataset = describe(path.system, pushes, (first, last))
    if isinstance(run, xr.Dataset):
        dataset.attrs["deviation"] = deviation(run, dataset)
    return dataset


def _read_moments(path: Path, at: Any, between: Any) -> tuple[float, float]:
    if (at is None) == (between is None):
        raise InputError(
            "`at` or `between` must be given, one of them: a step, or two steps in their order."
        )
    dynamics = path.dynamics
    in_time = isinstance(dynamics, AbstractFlow) or dynamics.counts_time
    name, moments = ("at", (at,)) if between is None else ("between", between)
    for moment in () if in_time else moments:
        if not float(moment).is_integer():
            raise InputError(f"`{name}` counts steps, got {moment}. Give whole numbers.")
    if isinstance(dynamics, RecordFollower):
        return (at, dynamics.after(at)) if between is None else between
    first, last = (at, at + 1) if between is None else between
    if in_time and at is not None:
        raise InputError("`at` counts steps, and a flow has none. Give `between`, two times.")
    end = dynamics.end if in_time else dynamics.num_steps  # pyright: ignore
    if not 0 <= first < last <= end:
        raise InputError(
            f"`{name}` must lie within the run, from 0 to {end:g}, the first before the last, got "
            f"{first:g} and {last:g}."
        )
    return first, last


def describe(system: Any, pushes: Pushes, moments: tuple[float, float]) -> xr.Dataset:
    """Pushes as a dataset, with what else makes up the change."""
    rows, same = np.arange(len(pushes.before)), pushes.rivals
    rivals_before, rivals_after = (
        strongest_rivals(system, margins) for margins in (pushes.before, pushes.after)
    )
    before, after = pushes.before[rows, rivals_before], pushes.after[rows, rivals_after]
    from_same, to_same = pushes.before[rows, same], pushes.after[rows, same]
    known = pushes.push.sum(axis=1) + pushes.decay + pushes.noise
    known = known if pushes.embeddings is None else known + pushes.embeddings
    values: dict[str, Any] = {
        "push": (("token", "source"), pushes.push),
        "decay": ("token", pushes.decay),
        "noise": ("token", pushes.noise),
        "rival": ("token", after - to_same + (from_same - before)),
        "remainder": ("token", to_same - from_same - known),
        "change": ("token", after - before),
        "margin_before": ("token", before),
        "margin_after": ("token", after),
        "rival_before": ("token", rivals_before),
        "rival_after": ("token", rivals_after),
        "frequency": ("source", pushes.frequency),
    }
    if pushes.embeddings is not None:
        values["embeddings"] = ("token", pushes.embeddings)
    if pushes.losses[0] is not None:
        values["loss_before"] = ("token", pushes.losses[0])
        values["loss_after"] = ("token", pushes.losses[1])
    values |= _reasons(system, pushes)
    coords = {name: value for name, value in system.coords().items() if _is_of(value, "token")}
    coords["source"] = np.asarray(coords["token"])
    attrs = {"kind": "interference", "first": moments[0], "last": moments[1]}
    if pushes.method is not None:
        attrs |= {"method": pushes.method, "fit": pushes.fit}
    dataset = xr.Dataset(values, coords, attrs)
    for name in dataset.data_vars:
        dataset[name].attrs["long_name"] = _MEANINGS[str(name)]
    return dataset


def _is_of(value: Any, axis: str) -> bool:
    return value[0] == axis if isinstance(value, tuple) else True


def _reasons(system: Any, pushes: Pushes) -> dict[str, Any]:
    """Why a source pushes a token: how alike their inputs are, which classes it pulls on, how strongly."""
    problem: Problem | None = getattr(system, "problem", None)
    if problem is None:
        return {}
    E, U, labels = (np.asarray(x) for x in (problem.inputs, problem.outputs, problem.labels))
    inputs = {"input_overlap": (("token", "source"), E @ E.T)}
    if pushes.coefficients is None:
        return inputs
    # A pull raises one class by as much as it lowers the others.
    strength = np.abs(pushes.coefficients).sum(axis=1) / 2
    direction = pushes.coefficients / np.where(strength > 0, strength, 1.0)[:, None]
    overlap = (U[labels] - U[pushes.rivals]) @ (direction @ U).T
    return inputs | {
        "output_overlap": (("token", "source"), overlap),
        "strength": ("source", strength),
    }


def deviation(run: xr.Dataset, pushes: xr.Dataset) -> float:
    """The largest difference between recorded margins and those of the run made again; NaN if none were."""
    along = "step" if "step" in run.dims else "time"
    differences = []
    for moment, name in (("first", "margin_before"), ("last", "margin_after")):
        if "margins" in run and pushes.attrs[moment] in run[along].values:
            recorded = run["margins"].sel({along: pushes.attrs[moment]}).values
            differences.append(np.abs(recorded - pushes[name].values).max())
    return float(max(differences, default=np.nan))
