"""From records to a dataset: what `simulate` would have recorded of the same weights."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

import engram
from engram._checks import InputError
from engram._precision import in_double
from engram.diagnosis._records import Records, damage_reported
from engram.memory import MemorySystem
from engram.observables import SPIKE_FACTOR, Events, events_of_series
from engram.problem import Problem
from engram.registry import find
from engram.simulation import FORMAT, about_events_in, label_events, label_problem
from engram.system import Look

_AT_ONCE = 64  # records that one program looks at
_NUMBERS = 2**22  # in the arrays of those, about
_MEANINGS = {
    "recorded_loss": "loss that the loop reported",
    "learning_rate": "learning rate that the loop reported",
    "gradient_cosine": "cosine of the gradient that the loop reported with that of the memory's own loss",
    "weight_norm": "Frobenius norm of W",
    "weights": "W",
    "gradients": "gradient in W that the loop reported",
    "inputs": "input embeddings",
    "outputs": "output embeddings",
}


@in_double
def dataset_of(records: Records) -> xr.Dataset:
    """The dataset of a recording."""
    if not records.count:
        raise InputError(f"{records.path} holds no records yet. Call `record` first.")
    problem, numbers = records.problem, records.numbers()
    steps = numbers["step"].astype(int)
    shown, cosine, norm = _looks(records)
    by_record = {"loss": shown.loss, "error": shown.error, "margins": shown.margins}
    by_record["token_losses"] = shown.token_losses
    variables: dict[str, Any] = {}
    for name, value in by_record.items():
        entry = find("observable", name)
        attrs = {"long_name": entry.help, "symbol": entry.about.get("symbol", "")}
        variables[name] = (("step", *entry.about["axes"]), value, attrs)
    further = {
        "recorded_loss": numbers["loss"],
        "learning_rate": numbers["learning_rate"],
        "gradient_cosine": cosine,
        "weight_norm": norm,
    }
    for name, value in further.items():
        if value is not None and np.isfinite(value).any():
            variables[name] = ("step", value, {"long_name": _MEANINGS[name]})
    axes = problem.axes() | {"weights": ("row", "col"), "gradients": ("row", "col")}
    for name in records.arrays:
        if name != "numbers":
            lazy = indexing.LazilyIndexedArray(_Stored(records, name))
            attrs = {"long_name": _MEANINGS[name]}
            variables[name] = xr.Variable(("step", *axes[name]), lazy, attrs)
    events, status = _events(shown, steps)
    variables |= events | label_problem(problem)
    for when, record in (("start", 0), ("final", records.count - 1)):
        W, word = _read(records, "weights", record, record + 1)[0], "end" if record else "start"
        variables[f"{when}_weights"] = (("row", "col"), W, {"long_name": f"W at the {word}"})
    coords = problem.coords()
    coords["step"] = ("step", steps, {"long_name": "updates made", "symbol": "t"})
    attrs = {
        "kind": "recording",
        "format": FORMAT,
        "status": status,
        "status_text": "the weights are not finite from some record on"
        if status == "diverged"
        else status,
        "stopped_at": int(steps[-1]),
        "num_steps": int(steps[-1]),
        "num_records": records.count,
        "dynamics": "a recorded loop",
        "space": "weights",
        **about_events_in(events),
        "events_loss": "loss of the recorded weights under the problem's own law, at the records",
        "engram": engram.__version__,
    }
    return xr.Dataset(variables, coords, attrs)


class _Stored(BackendArray):
    """An array of a store that is read when it is used."""

    def __init__(self, records: Records, name: str):
        self._records, self._name = records, name
        array = records.arrays[name]
        self.shape, self.dtype = (records.count, *array.shape), array.dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

    def _read(self, key: Any) -> np.ndarray:
        if isinstance(key[0], slice):  # the store has room for more
            key = (slice(*key[0].indices(self.shape[0])), *key[1:])
        with damage_reported(self._records.path, self._name):
            return np.asarray(self._records.read(self._name).oindex[key])


def problem_at(problem: Problem, inputs: Any, outputs: Any) -> Problem:
    """A problem with other embeddings, if there are any."""
    E = problem.inputs if inputs is None else inputs
    U = problem.outputs if outputs is None else outputs
    return eqx.tree_at(lambda p: (p.inputs, p.outputs), problem, (E, U))


@eqx.filter_jit
def _look_at(problem: Problem, blocks: dict[str, Any]) -> Any:
    """Looks at some records, one after another, and the cosines of their gradients."""

    def look(record: dict[str, Any]) -> Any:
        system = MemorySystem(problem_at(problem, record.get("inputs"), record.get("outputs")))
        W, G = record["weights"], record.get("gradients")
        if G is None:
            return system.look(W), jnp.asarray(jnp.nan)
        own = system.grad(W)
        cosine = (own * G).sum() / (jnp.linalg.norm(own) * jnp.linalg.norm(G))
        return system.look(W), cosine

    return jax.lax.map(look, blocks)


def _looks(records: Records) -> tuple[Look, np.ndarray | None, np.ndarray]:
    """Looks at all records, with a leading axis; cosines of the gradients; norms of the weights."""
    looks, cosines, norms = [], [], []
    for block, size in _blocks(records):
        shown, cosine = jax.device_get(_look_at(records.problem, block))
        looks.append(jax.tree.map(lambda values, size=size: values[:size], shown))
        cosines.append(cosine[:size])
        with np.errstate(over="ignore"):  # weights may have left all bounds
            norms.append(np.linalg.norm(block["weights"][:size], axis=(1, 2)))
    whole = jax.tree.map(lambda *parts: np.concatenate(parts), *looks)
    has_gradients = "gradients" in records.arrays
    return whole, np.concatenate(cosines) if has_gradients else None, np.concatenate(norms)


def _blocks(records: Records) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """The arrays of some records at a time, and how many these are; the last is repeated to fill a block."""
    names = [name for name in records.arrays if name != "numbers"]
    numbers = sum(int(np.prod(records.arrays[name].shape)) for name in names)
    most = int(np.clip(_NUMBERS // numbers, 1, _AT_ONCE))
    for first in range(0, records.count, most):
        last = min(first + most, records.count)
        rows = {name: _read(records, name, first, last) for name in names}
        fill = [(0, most - (last - first))]
        yield (
            {
                name: np.pad(x, fill + [(0, 0)] * (x.ndim - 1), mode="edge")
                for name, x in rows.items()
            },
            last - first,
        )


def _read(records: Records, name: str, first: int, last: int) -> np.ndarray:
    with damage_reported(records.path, name):
        return np.asarray(records.read(name)[first:last], np.float64)


def _events(shown: Look, steps: np.ndarray) -> tuple[dict[str, Any], str]:
    """Events among the records, up to the first that is not finite; and how the recording ends."""
    finite = np.isfinite(shown.loss)
    end = len(finite) if finite.all() else int(np.argmin(finite))
    status = "recorded" if finite.all() else "diverged"
    if not end:
        return {}, status
    seen = Look(shown.loss[:end], shown.error[:end], shown.margins[:end])
    fold = Events(np.asarray(SPIKE_FACTOR, float))
    described = fold.describe(jax.device_get(events_of_series(fold, seen)), end - 1)
    return label_events(described, lambda record: steps[record]), status
