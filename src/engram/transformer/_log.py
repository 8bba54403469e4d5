"""What is noted at each step: loss, accuracy, gradient norms, and the margins of every memory."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

import engram
from engram import memory
from engram.transformer._config import Config
from engram.transformer._memories import causal_margins, each_once, memories
from engram.transformer._model import Model
from engram.transformer._sums import Sums
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


@jax.jit
def _margins(problems: dict[str, Any], weights: dict[str, Any]) -> dict[str, Any]:
    found = {name: memory.margins(problems[name], weights[name]) for name in problems}
    return found | {"wk1_causal": causal_margins(problems["wk1"], weights["wk1"])}


def entry_of(sums: Sums, probes: Probes, state: dict[str, Any]) -> dict[str, Any]:
    """What is noted of one step."""
    norms = {
        f"grad_norm_{name}": np.sqrt(np.square(grad, dtype=np.float64).sum())
        for name, grad in sums.grads.items()
    }
    margins = {f"margins_{name}": values for name, values in probes.margins(state).items()}
    return {"loss": sums.loss, "accuracy": sums.hits} | norms | margins


class Log:
    """Entries by step and run, and the labels that they get."""

    def __init__(
        self,
        config: Config,
        model: Model,
        sequences: Sequences,
        rates: Sequence[float],
        steps: int,
        *,
        batch_size: int | None,
    ):
        self._coords = {
            "token": np.arange(len(model.W_E)),
            "trigger": each_once(sequences.triggers),
            "position": np.arange(1, len(model.W_P)),
        }
        self._rates, self._steps = list(rates), steps
        self._axes: dict[str, tuple[str, ...]] = {"loss": (), "accuracy": ()}
        over = "" if batch_size is None else f", of each step's batch of {batch_size} sequences"
        self._meanings = {
            "loss": "mean cross-entropy where a trigger comes again" + over,
            "accuracy": "fraction of these positions predicted right" + over,
        }
        for name in config.matrices:
            self._axes[f"grad_norm_{name}"] = ()
            self._meanings[f"grad_norm_{name}"] = f"norm of the gradient in {name}{over}"
        for name, (axis, meaning) in _MARGINS.items():
            self._axes[f"margins_{name}"] = (axis,)
            self._meanings[f"margins_{name}"] = meaning
        shape = (steps + 1, len(self._rates))
        self.values = {
            name: np.full((*shape, *(len(self._coords[axis]) for axis in axes)), np.nan)
            for name, axes in self._axes.items()
        }

    def note(self, step: int, run: int, entry: dict[str, Any]) -> None:
        for name, value in entry.items():
            self.values[name][step, run] = value

    def cut(self, first: int, end: int) -> dict[str, np.ndarray]:
        """Entries of the steps from `first` to before `end`."""
        return {name: values[first:end] for name, values in self.values.items()}

    def put(self, first: int, entries: dict[str, np.ndarray]) -> None:
        """Take back entries that were cut."""
        for name, values in entries.items():
            self.values[name][first : first + len(values)] = values

    def dataset(self, attrs: dict[str, Any]) -> xr.Dataset:
        """All entries with their labels; one run alone has no axis for runs."""
        is_one = len(self._rates) == 1
        variables = {}
        for name, axes in self._axes.items():
            values = self.values[name][:, 0] if is_one else self.values[name]
            dims = ("step", *(() if is_one else ("run",)), *axes)
            variables[name] = (dims, values, {"long_name": self._meanings[name]})
        coords: dict[str, Any] = {
            "step": ("step", np.arange(self._steps + 1), {"long_name": "updates made"})
        }
        if not is_one:
            coords["learning_rate"] = ("run", np.asarray(self._rates, float))
        coords |= self._coords
        return xr.Dataset(variables, coords, {"engram": engram.__version__} | attrs)
