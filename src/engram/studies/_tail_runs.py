"""Runs on Zipf data: token losses and spectra of an optimizer, and theory in the canonical basis."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from engram.dynamics import GradientFlow, PracticalDescent, exact_muon, sign
from engram.problem import Problem, one_hot, orthonormal, zipf
from engram.simulation import log_spaced, simulate
from engram.theory import multiclass, muon

LEARNT = np.log(2)  # a loss below it is a probability above 1/2
_POINTS = 120  # recorded steps of a run
_SIGN_RATE, _SIGN_STEPS = 0.125, 40  # powers of two, so that margins are exact
_TURNED_STEPS = 8


def race(
    problem: dict[str, Any], table: dict[str, Any], rate: float | None, steps: int, seeds: int,
    progress: Callable[[int, int], None],
) -> xr.Dataset:  # fmt: skip
    """Token losses along the runs of an optimizer, and the spectra of W and of the updates from there."""
    points = log_spaced(steps, _POINTS)
    at = np.union1d(points, points[:-1] + 1)
    dynamics = {"kind": "descent", "steps": steps, **table}
    if rate is not None:
        dynamics["learning_rate"] = rate
    runs: list[xr.Dataset] = []
    for seed in range(seeds):
        run = simulate(
            {**problem, "seed": seed}, dynamics, record=("token_losses", "weights"), at=at,
            space="weights", events=False,
        )  # fmt: skip
        W = run["weights"].sel(step=points).values
        after = run["weights"].sel(step=points[:-1] + 1).values
        updates = np.concatenate(
            [after - W[:-1], np.full_like(W[:1], np.nan)]
        )  # none after the last
        parts = {"token_losses": (("step", "token"), run["token_losses"].sel(step=points).values)}
        for name, matrices in (("singular_values", W), ("update_singular_values", updates)):
            parts[name] = (("step", "rank"), singular_values(matrices))
        runs.append(xr.Dataset(parts, {"step": points}))
        progress(seed + 1, seeds)
    data = xr.concat(runs, "seed")
    known = table.get("learning_rate", rate)
    data["learning_rate"] = float(known) if isinstance(known, int | float) else np.nan
    data["probs"] = ("token", zipf(problem["num_tokens"], problem["exponent"]))
    return data


def singular_values(matrices: np.ndarray) -> np.ndarray:
    """Of each matrix; NaN of one that is not finite, as of a run that diverged."""
    fine = np.asarray(np.isfinite(matrices).all(axis=(1, 2), keepdims=True))
    values = np.linalg.svd(np.where(fine, matrices, 0.0), compute_uv=False)
    return np.where(fine[..., 0], values, np.nan)


def effective_ranks(values: xr.DataArray) -> xr.DataArray:
    """The exponential of the entropy of singular values that are divided by their sum; NaN for zero."""
    total = values.sum("rank", skipna=False)
    q = values / total.where(total > 0)
    entropy = -(q * xr.ufuncs.log(q.where(q > 0, 1.0))).sum("rank", skipna=False)
    return xr.ufuncs.exp(entropy)


def tenths(probs: np.ndarray, by: str = "number") -> np.ndarray:
    """The group 0 to 9 of each token, the most frequent first: tenths of the tokens, or of their mass."""
    order = np.argsort(-probs, kind="stable")
    share = np.full(len(probs), 1 / len(probs)) if by == "number" else probs[order]
    middle = np.cumsum(share) - share / 2
    groups = np.empty(len(probs), int)
    groups[order] = np.minimum((10 * middle).astype(int), 9)
    return groups


def group_losses(data: xr.Dataset, by: str = "number") -> xr.DataArray:
    """The mean loss of each tenth; weighed by frequency if tenths are of mass, NaN for one without tokens."""
    probs = data["probs"].values.reshape(-1, data.sizes["token"])[0]
    weights = probs if by == "mass" else np.ones(len(probs))
    table = weights * (tenths(probs, by) == np.arange(10)[:, None])
    total = table.sum(1, keepdims=True)
    means = np.divide(table, total, out=np.full_like(table, np.nan), where=total > 0)
    losses = data["token_losses"]
    group = xr.DataArray(np.nan_to_num(means), dims=("group", "token"))
    return (losses @ group).where(xr.DataArray(total[:, 0] > 0, dims="group"))


def learning_steps(data: xr.Dataset) -> xr.DataArray:
    """When the mean loss of each tenth of the tokens falls below log 2, interpolated; NaN if never."""
    losses = group_losses(data).transpose(..., "step")
    below, step = losses.values <= LEARNT, data["step"].values.astype(float)
    first = below.argmax(-1)
    before = np.maximum(first - 1, 0)
    pick = lambda k: np.take_along_axis(losses.values, k[..., None], -1)[..., 0]
    high, low = pick(before), pick(first)
    share = np.where(first > 0, (high - LEARNT) / np.where(high > low, high - low, 1.0), 0.0)
    reached = step[before] + share * (step[first] - step[before])
    return losses.isel(step=0, drop=True).copy(data=np.where(below.any(-1), reached, np.nan))


def in_canonical_basis(num_tokens: int, exponent: float) -> xr.Dataset:
    """Flow, sign descent and Muon's first step on one-hot tokens, each its own class, beside theory."""
    N = num_tokens
    problem = one_hot(N, N, exponent=exponent, targets="identity")
    p, wrong = problem.probs, N - 1
    flow = simulate(problem, GradientFlow([0.0, *np.logspace(0, 6, 13) / p.min()]), events=False,
                    record=("token_losses", "margins"))  # fmt: skip
    t = flow["time"].values[1:]
    margins = multiclass.flow_margin(t[:, None], p, N)
    limit = t[:, None] * p * flow["token_losses"].values[1:] * N / wrong
    turned = orthonormal(N, N, exponent=exponent, targets="identity", key=0)
    steep = _descent(problem, sign(_SIGN_RATE), _SIGN_STEPS)
    last = _descent(turned, sign(_SIGN_RATE / 4), _TURNED_STEPS)["token_losses"].values[-1]
    losses = steep["token_losses"].values
    first = [_descent(each, exact_muon(1.0), 1)["margins"].values[1] for each in (problem, turned)]
    expected = muon.first_step_margins(1.0, p)
    gains = steep["margins"].values[1:] / (_SIGN_RATE * np.arange(1, _SIGN_STEPS + 1)[:, None])
    return xr.Dataset(
        {
            "time": ("time", t),
            "limit": (("time", "token"), limit),
            # e^m + (M-1) m = 1 + M k t, and l is (M-1) e^-m but for its square.
            "limit_error": (
                ("time", "token"),
                (wrong * np.maximum(margins, 1.0)) * np.exp(-margins),
            ),
            "flow_error": np.abs(flow["margins"].values[1:] - margins).max(),
            "sign_spread": (np.ptp(losses, axis=1) / losses.max(1)).max(),
            "sign_gain_low": gains.min(),
            "sign_gain_high": gains.max(),
            "turned_ratio": last.max() / last.min(),
            "turned_steps": _TURNED_STEPS,
            "muon_ratio": first[0].min() / first[0].max(),
            "muon_turned_ratio": first[1].min() / first[1].max(),
            "muon_expected": expected.min() / expected.max(),
        }
    )


def _descent(problem: Problem, optimizer: Any, steps: int) -> xr.Dataset:
    record = ("token_losses", "margins")
    return simulate(problem, PracticalDescent(optimizer, steps), record=record, events=False)
