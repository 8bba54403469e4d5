"""A dynamics in words and numbers, as `config.toml` has it."""

import hashlib
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from engram import dynamics as D
from engram._checks import InputError

_KINDS = {
    D.GradientDescent: "gd",
    D.StochasticGradientDescent: "sgd",
    D.StochasticGradientFlow: "sgf",
}


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
    if isinstance(dynamics, D.PracticalDescent):
        numbers = dynamics.optimizer.numbers
        usual = _usual(dynamics.optimizer.name)
        table = {"kind": dynamics.optimizer.name} | {
            name: float(value) for name, value in numbers.items() if usual.get(name) != value
        }
        if dynamics.weight_decay:
            table["weight_decay"] = float(dynamics.weight_decay)
    else:
        table = {"kind": _KINDS[type(dynamics)], "learning_rate": _rate(dynamics.learning_rate)}
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
    if rate.ndim == 0:
        return float(rate)
    return f"{len(rate)} rates, sha256 {hashlib.sha256(rate.tobytes()).hexdigest()[:16]}"
