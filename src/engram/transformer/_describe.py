"""A dynamics in words and numbers, as `config.toml` has it."""

import hashlib
import inspect
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from engram import dynamics as D
from engram._checks import InputError

_KINDS = {D.GradientDescent: "gd", D.StochasticGradientDescent: "sgd"}


def describe(runs: Sequence[Any]) -> dict[str, Any]:
    """One table for dynamics that differ in the learning rate alone, which is then a list."""
    tables = [_one(dynamics) for dynamics in runs]
    first, rates = tables[0], [table.get("learning_rate") for table in tables]
    for table in tables:
        unlike = [key for key in first.keys() | table if first.get(key) != table.get(key)]
        if set(unlike) - {"learning_rate"}:
            raise InputError(
                f"`dynamics` side by side must differ in the learning rate alone, got unlike "
                f"{', '.join(sorted(unlike))}. Train them one by one."
            )
    return first if len(runs) == 1 else first | {"learning_rate": rates}


def _one(dynamics: Any) -> dict[str, Any]:
    table: dict[str, Any]
    if type(dynamics) is D.PracticalDescent:
        optimizer = dynamics.optimizer
        usual = _usual(optimizer.name)
        # Plain descent has two names in a spec, with batches and without.
        is_whole = optimizer.name == "sgd" and dynamics.batch_size is None
        table = {"kind": "gd" if is_whole else optimizer.name} | {
            name: float(value)
            for name, value in optimizer.numbers.items()
            if usual.get(name) != value
        }
        if dynamics.weight_decay:
            table["weight_decay"] = float(dynamics.weight_decay)
    elif type(dynamics) in _KINDS:
        table = {"kind": _KINDS[type(dynamics)], "learning_rate": _rate(dynamics.learning_rate)}
        if getattr(dynamics, "batches", None) is not None:
            table["batches"] = _fingerprint(dynamics.batches)
    else:  # one of the user's own
        numbers = [np.asarray(leaf) for leaf in jax.tree.leaves(dynamics)]
        table = {"kind": type(dynamics).__qualname__, "numbers": _fingerprint(*numbers)}
    table["steps"] = int(dynamics.num_steps)
    batch_size: Any = getattr(dynamics, "batch_size", None)
    if batch_size is not None:
        table["batch_size"] = int(batch_size)
    return table


def _usual(name: str) -> dict[str, Any]:
    factory = getattr(D, name, None)
    if factory is None:
        return {}
    return {key: value.default for key, value in inspect.signature(factory).parameters.items()}


def _rate(rate: Any) -> float | str:
    """A number; a table of rates, one per step, by its fingerprint."""
    rate = np.asarray(rate, np.float64)
    return float(rate) if rate.ndim == 0 else f"{len(rate)} rates, {_fingerprint(rate)}"


def _fingerprint(*arrays: np.ndarray) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.asarray(array).tobytes())
    return f"sha256 {found.hexdigest()[:16]}"
