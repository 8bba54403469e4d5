"""One step from zero on Gaussian associations: what it recalls, counted and expected."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from engram import memory
from engram._precision import in_double
from engram.problem import Problem, gaussian, zipf
from engram.registry import make
from engram.studies._optimizers import needs_rate, optimizer_tables
from engram.theory import multiclass, recovery

_WINDOW = 4  # tokens that are looked at, as a multiple of those that Muon is expected to recall


def count_recalled(
    dim: int,
    exponents: list[float],
    optimizers: list[Any],
    seeds: int,
    progress: Callable[[int, int], None],
) -> xr.Dataset:
    """How many of the frequent tokens each optimizer's first step recalls, and theory expects of Muon's."""
    tables, N = optimizer_tables(optimizers), dim**2
    recalled = np.zeros((seeds, len(exponents), len(tables)))
    windows = [int(min(N, np.ceil(_WINDOW * recovery.muon_recall(a, dim, N)))) for a in exponents]
    for seed in range(seeds):
        drawn = gaussian(seed, N, N, dim, targets="identity")
        for i, (a, window) in enumerate(zip(exponents, windows, strict=True)):
            problem = Problem(drawn.inputs, drawn.outputs, zipf(N, a), drawn.targets)
            for j, table in enumerate(tables.values()):
                recalled[seed, i, j] = num_recalled(problem, first_step(problem, table), window)
            progress(seed * len(exponents) + i + 1, seeds * len(exponents))
    expected = [recovery.muon_recall(a, dim, N, w) for a, w in zip(exponents, windows, strict=True)]
    return xr.Dataset(
        {
            "recalled": (("seed", "exponent", "optimizer"), recalled),
            "expected": ("exponent", expected),
        },
        {"seed": np.arange(seeds), "exponent": exponents, "optimizer": list(tables), "dim": dim},
    )


@in_double
def first_step(problem: Problem, table: Mapping[str, Any]) -> Any:
    """W after one step from zero, at the rate 1 if the table has none: recall does not depend on it."""
    optimizer = make(
        "optimizer", {**table, **({"learning_rate": 1.0} if needs_rate(table) else {})}
    )
    W, system = problem.zero_weights, memory.MemorySystem(problem)
    gradient = -multiclass.early_weights(1.0, problem)
    return optimizer.over(1).update(gradient, optimizer.init(W), W, np.asarray(0), system)[0]


def num_recalled(problem: Problem, W: Any, window: int) -> int:
    """How many of the first tokens are recalled among all classes."""
    first = Problem(
        problem.inputs[:window], problem.outputs, np.full(window, 1 / window), np.arange(window)
    )
    return int((np.asarray(memory.margins(first, W)) > 0).sum())


def expected(dims: list[int], exponents: list[float]) -> xr.Dataset:
    """How many tokens exact Muon's first step recalls by theory, at any d."""
    counts = [[recovery.muon_recall(a, d, d**2) for d in dims] for a in exponents]
    return xr.Dataset(
        {"recalled": (("exponent", "dim"), counts)},
        {"exponent": exponents, "dim": np.array(dims, float)},
    )
