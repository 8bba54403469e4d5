"""A dynamics in words and numbers, as `config.toml` has it."""

import hashlib
import inspect
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from engram import dynamics as D
from engram._checks import InputError


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
    if not _is_own(dynamics):
        return _unknown(dynamics) | {"steps": int(dynamics.num_steps)}
    settings = dynamics.settings()
    name = settings.pop("optimizer", "sgd")
    usual = _usual(name)
    table: dict[str, Any] = {}
    for key, value in settings.items():
        if key == "learning_rate":
            table[key] = _rate(value)
        elif key in ("steps", "batch_size"):
            table |= {} if value is None else {key: int(value)}
        elif key == "weight_decay":
            table |= {key: float(value)} if value != usual.get(key, 0.0) else {}
        elif np.ndim(value):
            table[key] = _fingerprint(value)
        elif key != "layer_norm" and usual.get(key) != value:
            table[key] = float(value)
    # Plain descent has two names in a spec, with batches and without.
    kind = "gd" if name == "sgd" and "batch_size" not in table else name
    return {"kind": kind} | table


def _is_own(dynamics: Any) -> bool:
    """Whether it is engram's with all its parts, and not one of the user's."""
    if not isinstance(dynamics, D.Descent):
        return False
    parts = (dynamics, dynamics.optimizer, dynamics.sampling)
    return all(type(part).__module__.startswith("engram.") for part in parts)


def _unknown(dynamics: Any) -> dict[str, Any]:
    numbers = [np.asarray(leaf) for leaf in jax.tree.leaves(dynamics)]
    return {"kind": type(dynamics).__qualname__, "numbers": _fingerprint(*numbers)}


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
