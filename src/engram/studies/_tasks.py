"""What the study of tasks computes: what a second task erases, what replay saves, and other systems."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from engram.diagnosis import forgetting
from engram.dynamics import Curriculum, Descent, GradientFlow, Plain
from engram.problem import Problem, on_sphere, orthonormal, two_tokens
from engram.registry import entry_of, make
from engram.simulation import simulate
from engram.systems import FactoredSystem

Report = Callable[[int, int], None]
MEASURES = (
    "perfect_from", "num_spikes", "highest_rise", "last_rise",
    "forgotten", "least_margin", "norm", "max_loss",
)  # fmt: skip


def pair_threshold(durations: list[float], progress: Report) -> xr.Dataset:
    """The correlation from which the second of two tokens makes the first be forgotten, for descent."""
    one, other = [[1.0, 0.0], [0.0, 1.0]]
    bracket = np.zeros((len(durations), 2, 2))
    for i, duration in enumerate(durations):
        for j, steps in enumerate((500, 1000)):
            descent = Descent(
                Plain(duration / steps), Curriculum([one, other], [steps, steps]), steps=2 * steps
            )
            low, high = 0.0, 1.0
            while high - low > 1e-4:
                middle = (low + high) / 2
                run = simulate(
                    two_tokens(middle, 0.5), descent, record="margins", at=[2 * steps], events=False
                )
                low, high = (middle, high) if run.margins[-1, 0] > 0 else (low, middle)
            bracket[i, j] = low, high
            progress(2 * i + j + 1, 2 * len(durations))
    coarse, fine = bracket.mean(2).T
    # The error is of first order in the rate, so that twice as many steps tell how large it is.
    return xr.Dataset(
        {
            "correlation": ("duration", 2 * fine - coarse),
            "off": ("duration", np.abs(fine - coarse) + 1e-4),
        },
        {"duration": list(durations)},
    )


def two_tasks(
    tokens: int, classes: int, dims: list[int], shares: list[float], rate: float, steps: int, seeds: int,
    progress: Report,
) -> xr.Dataset:  # fmt: skip
    """How much of task A is recalled after it, and forgotten after task B with a share of A replayed."""
    sizes = (len(dims), len(shares), seeds)
    recalled, lost, learnt = (np.full(sizes, np.nan) for _ in range(3))
    for i, d in enumerate(dims):
        for k in range(seeds):
            problem = on_sphere(k, 2 * tokens, classes, d, probs="uniform", targets="random")
            for j, share in enumerate(shares):
                recalled[i, j, k], lost[i, j, k], learnt[i, j, k] = _one_pair(
                    problem, share, rate, steps
                )
            progress(i * seeds + k + 1, len(dims) * seeds)
    axes = ("dim", "share", "seed")
    data = {"recalled": (axes, recalled), "forgotten": (axes, lost), "learnt": (axes, learnt)}
    return xr.Dataset(data, {"dim": list(dims), "share": list(shares)})


def _one_pair(problem: Problem, share: float, rate: float, steps: int) -> tuple[float, ...]:
    """Of A: recalled after it, and forgotten of those after B; of B: recalled at the end."""
    n = problem.num_tokens // 2
    run = simulate(
        problem, _in_turn(n, share, rate, steps), record="margins", at=[steps, 2 * steps], events=False
    )  # fmt: skip
    after_a, after_b = run.margins.values > 0
    kept = after_b[:n] & after_a[:n]
    first = after_a[:n].mean()
    return (
        first,
        1 - kept.sum() / after_a[:n].sum() if first > 0 else np.nan,
        after_b[n:].mean(),
    )


def _in_turn(n: int, share: float, rate: float, steps: int) -> Descent:
    """Descent on n tokens, and then on n others with a share of the first."""
    one, other = np.repeat([1 / n, 0.0], n), np.repeat([0.0, 1 / n], n)
    laws = [one, share * one + (1 - share) * other]
    return Descent(Plain(rate), Curriculum(laws, [steps, steps]), steps=2 * steps)


def blame(
    tokens: int, classes: int, dim: int, rate: float, steps: int, seeds: int, progress: Report
) -> xr.Dataset:
    """The ledger of A's tokens that are forgotten during B: how many, and whose push it was."""
    counts = np.zeros((seeds, 2))
    for k in range(seeds):
        problem = on_sphere(k, 2 * tokens, classes, dim, probs="uniform", targets="random")
        run = simulate(
            problem, _in_turn(tokens, 0.0, rate, steps), record="margins", at=[2 * steps]
        )
        ledger = forgetting(run)
        is_lost = (ledger.what == "forgotten") & (ledger.of < tokens) & (ledger.step > steps)
        counts[k] = is_lost.sum(), (is_lost & (ledger.by >= tokens)).sum()
        progress(k + 1, seeds)
    same = orthonormal(2 * tokens, classes, targets="random", key=0)
    apart = _one_pair(same, 0.0, rate, steps)[1]
    return xr.Dataset(
        {"lost": ("seed", counts[:, 0]), "by_other": ("seed", counts[:, 1]), "orthonormal": apart}
    )


def with_noise(problem: Problem, share: float) -> Problem:
    """The same problem, a share of whose labels is drawn uniformly; clean labels judge."""
    M, labels = problem.num_classes, np.asarray(problem.labels)
    table = (1 - share) * np.eye(M)[labels] + share / M
    return Problem(
        problem.inputs,
        problem.outputs,
        problem.probs,
        table,
        clean_labels=labels,
        names=problem.names,
    )


def measured(
    row: Mapping[str, Any], problem: Mapping[str, Any], rates: list[float], steps: int, seeds: int
) -> xr.Dataset:
    """What a system, an optimizer or a kind of data makes of a problem, at some rates and seeds."""
    values = np.full((len(MEASURES), len(rates), seeds), np.nan)
    diverged = np.zeros((len(rates), seeds), bool)
    system = dict(row.get("system", {"kind": "memory"}))
    fields = entry_of("system", system["kind"]).fields
    for k in range(seeds):
        data = make("problem", dict(problem) | {"seed": k})
        data = with_noise(data, row["label_noise"]) if row.get("label_noise") else data
        seeded = {"start_seed": k} if "start_seed" in fields else {}
        given: dict[str, Any] = {"system": seeded | system}
        if row.get("start_scale"):
            given["start"] = make("system", seeded | system, problem=data).draw_start(
                float(row["start_scale"]), k
            )
        for j, rate in enumerate(rates):
            dynamics = {"kind": "gd"} | dict(row.get("dynamics", {}))
            dynamics |= {"learning_rate": rate * row.get("rate_factor", 1.0), "steps": steps}
            run = simulate(data, dynamics, record="margins", at=[steps], **given)
            diverged[j, k] = run.attrs["status"] != "completed"
            values[:, j, k] = np.nan if diverged[j, k] else _numbers(run)
    return xr.Dataset(
        {name: (("rate", "seed"), values[i]) for i, name in enumerate(MEASURES)}
        | {"diverged": (("rate", "seed"), diverged)},
        {"rate": list(rates)},
        {"label": str(row.get("label", system["kind"])), "is_plain": int(row.keys() <= {"label"})},
    )


def _numbers(run: xr.Dataset) -> list[float]:
    """`MEASURES` of one run."""
    parts = [run[name].values for name in run.data_vars if str(name).startswith("final_")]
    norm = np.sqrt(sum(np.square(part).sum() for part in parts))
    known = (run.perfect_from, run.num_spikes, run.highest_rise, run.last_rise)
    forgotten, margin = (run.num_forgotten > 0).sum(), run.margins[-1].min()
    return [*map(float, (*known, forgotten, margin, norm, run.max_loss))]


def conserved(imbalances: list[float], rank: int, end: float) -> xr.Dataset:
    """How far A^T A - B^T B drifts under the flow of factors, and how far it is from zero."""
    drift, size = [], []
    problem = on_sphere(0, 6, 4, 5)
    for c in imbalances:
        system = FactoredSystem(problem, rank, start_size=0.3, imbalance=c)
        run = simulate(system, GradientFlow([0.0, end]), record="loss", events=False)
        A, B = run.final_A.values, run.final_B.values
        before = np.eye(rank) * 0.3**2 * (c**2 - 1 / c**2)
        drift.append(np.abs(A.T @ A - B.T @ B - before).max())
        size.append(np.square(A).sum())
    axes = {"drift": ("imbalance", drift), "size": ("imbalance", size)}
    return xr.Dataset(axes, {"imbalance": list(imbalances)})
