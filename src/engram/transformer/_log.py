"""What is recorded at each step: loss, accuracy, gradient norms, and the margins of every memory."""

import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

from engram import memory
from engram.dynamics import AbstractStepwise
from engram.registry import table
from engram.transformer._gradients import Sums
from engram.transformer._memories import causal_margins, distinct, memories
from engram.transformer._model import Model
from engram.transformer._task import Sequences

_MARGINS = {
    "wo2": ("token", "margins of W_O^2: from what is read to the token's output"),
    "wk2": ("trigger", "margins of W_K^2: from a trigger to its own key, among the triggers' keys"),
    "wk2_all": ("trigger", "margins of W_K^2 among the keys of all tokens"),
    "wk1": ("position", "margins of W_K^1: from a position to the one before, among all"),
    "wk1_causal": ("position", "margins of W_K^1 among the positions that attention sees"),
}


class Probes:
    """The margins of the three matrices, computed as for any other memory."""

    def __init__(self, model: Model, sequences: Sequences):
        with jax.enable_x64(True):
            self._memories = jax.device_put(memories(model, sequences.triggers))

    def margins(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Margins of all memories when the matrices of `state` are in place."""
        weights = {}
        for name, known in self._memories.items():
            W = state.get(name.split("_")[0])
            W = known.W if W is None else np.asarray(W, np.float64)
            weights[name] = W.T if name != "wo2" and W is not known.W else W
        with jax.enable_x64(True):
            problems = {name: known.problem for name, known in self._memories.items()}
            return jax.tree.map(np.asarray, _margins(problems, weights))

    def entry(self, sums: Sums, state: dict[str, Any]) -> dict[str, Any]:
        """What is recorded of one step."""
        norms = {
            f"grad_norm_{name}": np.sqrt(np.square(grad, dtype=np.float64).sum())
            for name, grad in sums.grads.items()
        }
        margins = {f"margins_{name}": values for name, values in self.margins(state).items()}
        return {"loss": sums.loss, "accuracy": sums.hits} | norms | margins


@jax.jit
def _margins(problems: dict[str, Any], weights: dict[str, Any]) -> dict[str, Any]:
    margins = {name: memory.margins(problems[name], weights[name]) for name in problems}
    return margins | {"wk1_causal": causal_margins(problems["wk1"], weights["wk1"])}


def empty_log(
    model: Model, sequences: Sequences, matrices: Sequence[str], runs: Sequence[AbstractStepwise]
) -> xr.Dataset:
    """Room for an entry at each step of each run; one run alone has no axis for runs."""
    batch = getattr(runs[0], "batch_size", None)
    over = "" if batch is None else f", of each step's batch of {batch} sequences"
    meanings: dict[str, tuple[tuple[str, ...], str]] = {
        "loss": ((), "mean cross-entropy where a trigger comes again" + over),
        "accuracy": ((), "fraction of these positions predicted right" + over),
    }
    for name in matrices:
        meanings[f"grad_norm_{name}"] = ((), f"norm of the gradient in {name}{over}")
    for name, (axis, meaning) in _MARGINS.items():
        meanings[f"margins_{name}"] = ((axis,), meaning)
    coords: dict[str, Any] = {
        "step": ("step", np.arange(int(runs[0].num_steps) + 1), {"long_name": "updates made"})
    }
    if len(runs) > 1:
        rates = [table(run).get("learning_rate") for run in runs]
        coords["learning_rate"] = (
            "run",
            [rate if isinstance(rate, float) else np.nan for rate in rates],
        )
    coords |= {
        "token": np.arange(len(model.W_E)),
        "trigger": distinct(sequences.triggers),
        "position": np.arange(1, len(model.W_P)),
    }
    log = xr.Dataset(coords=coords)
    for name, (axes, meaning) in meanings.items():
        dims = ("step", *(("run",) if len(runs) > 1 else ()), *axes)
        shape = [log.sizes[dim] for dim in dims]
        log[name] = (dims, np.full(shape, np.nan), {"long_name": meaning})
    return log


def hash_of(log: xr.Dataset) -> str:
    """What reveals entries that were lost, changed or swapped: a hash of all values, by name."""
    digest = hashlib.sha256()
    for name in sorted(map(str, log.variables)):
        values = np.ascontiguousarray(log.variables[name].values, np.float64)
        if np.isnan(values).any():  # of one sort
            values = np.where(np.isnan(values), np.nan, values)
        digest.update(name.encode())
        digest.update(values.data)
    return digest.hexdigest()
