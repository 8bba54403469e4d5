"""What the study of facts computes: stages of learning, small starts, and how many facts are held."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from engram import capacity
from engram.problem import Problem, facts
from engram.registry import entry_of
from engram.simulation import simulate
from engram.systems import AttentionSystem

_RATE = 0.25  # of linear attention from small starts
_RECORDS = 400
_ADAM = {"kind": "adam", "learning_rate": 0.03, "steps": 2000}


def learnt(
    model: Mapping[str, Any], seeds: int, subjects: int, relations: int, answers: int
) -> xr.Dataset:
    """Losses of a model on facts, of the relation and in all; when each is learnt; the plateau."""
    dim = max(subjects + relations, relations * answers)
    system, runs = dict(model.get("system", {"kind": "memory"})), []
    fields = entry_of("system", system["kind"]).fields
    for seed in range(seeds):
        problem = facts(seed, subjects, relations, answers, dim, embeddings="orthonormal")
        known = {"num_relations": relations, "start_seed": seed}
        seeded = {name: known[name] for name in known if name in fields} | system
        steps = int(model["dynamics"].get("steps", 0))
        run = simulate(
            problem,
            dict(model["dynamics"]),
            system=seeded,
            record=("loss", "probabilities"),
            every=max(steps // _RECORDS, 1),
            events=False,
        )
        runs.append(stages(run, subjects, relations, answers))
    return xr.concat(runs, "seed").assign_attrs(label=str(model.get("label", system["kind"])))


def stages(run: xr.Dataset, subjects: int, relations: int, answers: int) -> xr.Dataset:
    """The loss of the relation and of the answer within it; when each has halved; the loss at the plateau.

    The plateau is where the loss falls slowest between the two, if it falls twice as fast on both sides.
    """
    p, steps, loss = run.probabilities.values, run.step.values, run.loss.values
    p = p.reshape(len(p), subjects, relations, -1, relations, answers).sum(-1)
    right = np.stack([p[:, :, r, :, r] for r in range(relations)], axis=2)
    relation = -np.log(right).mean((1, 2, 3))
    within = loss - relation
    found = {
        "relation_step": _crossing(steps, relation, relation[0] / 2),
        "fact_step": _crossing(steps, within, within[0] / 2),
        "plateau": np.nan,
        "plateau_within": np.nan,
    }
    between = (steps >= found["relation_step"]) & (steps < found["fact_step"])
    speed = -np.gradient(loss, steps)
    if between.any():
        lowest = np.flatnonzero(between)[np.argmin(speed[between])]
        sides = speed[: lowest + 1].max(), speed[lowest:].max()
        if 2 * speed[lowest] < min(sides):
            found |= {"plateau": loss[lowest], "plateau_within": within[lowest]}
    return xr.Dataset(
        {"loss": ("step", loss), "relation_loss": ("step", relation)} | found, {"step": steps}
    )


def escapes(
    start_sizes: list[float],
    subjects: int,
    relations: int,
    answers: int,
    progress: Callable[[int, int], None],
) -> xr.Dataset:
    """When linear attention learns relation and fact, by the size of its start; and the limit."""
    dim = max(subjects + relations, relations * answers)
    problem = facts(0, subjects, relations, answers, dim, embeddings="orthonormal")
    rates = AttentionSystem(problem, relations, attention="linear").growth_rates()
    needed = 1 / np.log1p(_RATE * rates)  # steps in which a small token grows by a factor e
    steps = int(needed.max() * (6 - np.log(min(start_sizes))))
    runs = []
    for done, size in enumerate(start_sizes):
        table = {"kind": "attention", "attention": "linear", "start_size": size}
        descent = {"kind": "gd", "learning_rate": _RATE, "steps": steps}
        model = {"system": table, "dynamics": descent}
        runs.append(learnt(model, 1, subjects, relations, answers).isel(seed=0, drop=True))
        progress(done + 1, len(start_sizes))
    data = xr.concat(runs, "start_size").assign_coords(start_size=start_sizes)
    known = {"relation_known": needed[subjects:].mean(), "fact_known": needed[:subjects].mean()}
    return data.assign(known)


def matrix_holds(
    dims: list[int], relations: int, answers: int, draws: int, progress: Callable[[int, int], None]
) -> xr.Dataset:
    """How many facts a W of d x d recalls, all at once, by bisection over subjects one after another."""
    held = np.zeros((len(dims), draws))
    for i, d in enumerate(dims):
        for k in range(draws):
            most = 2 * d * d // relations + 10
            p = facts(k, most, relations, answers, d, assign="random")
            held[i, k] = capacity.num_stored(p.inputs, p.outputs, p.targets)
            progress(i * draws + k + 1, held.size)
    parameters = np.square(dims).astype(float)
    return xr.Dataset({"held": (("size", "draw"), held), "parameters": ("size", parameters)})


def network_holds(
    widths: list[int],
    dim: int,
    relations: int,
    answers: int,
    draws: int,
    progress: Callable[[int, int], None],
) -> xr.Dataset:
    """How many facts a network recalls to 99 %, trained by Adam, by bisection over the number of subjects."""
    held = np.zeros((len(widths), draws))
    for i, width in enumerate(widths):
        most = 2 * dim * width // relations
        for k in range(draws):
            problem = facts(k, most, relations, answers, dim, assign="random")
            low, high = 0, most + 1
            while high - low > max(1, low // 20):  # to 5 %
                middle = (low + high) // 2
                is_held = _is_learnt(problem, middle * relations, width, k)
                low, high = (middle, high) if is_held else (low, middle)
            held[i, k] = low * relations
            progress(i * draws + k + 1, held.size)
    parameters = 2.0 * dim * np.asarray(widths)
    return xr.Dataset({"held": (("size", "draw"), held), "parameters": ("size", parameters)})


def _is_learnt(problem: Problem, num: int, width: int, seed: int) -> bool:
    """Whether a network learns the first facts; the others are there with frequency zero, for one program."""
    probs = np.where(np.arange(problem.num_tokens) < num, 1 / num, 0.0)
    run = simulate(
        Problem(problem.inputs, problem.outputs, probs, problem.targets),
        dict(_ADAM),
        system={"kind": "network", "width": width, "start_seed": seed},
        record="error",
        at=[0, _ADAM["steps"]],
        stop={"error": 0.01},
        events=False,
    )
    return bool(run.error[-1] <= 0.01)


def _crossing(steps: np.ndarray, values: np.ndarray, level: float) -> float:
    """When values first fall below a level, between records; NaN if they do not."""
    below = np.flatnonzero(values < level)
    if not len(below) or below[0] == 0:
        return np.nan
    k = below[0]
    share = (values[k - 1] - level) / (values[k - 1] - values[k])
    return float(steps[k - 1] + share * (steps[k] - steps[k - 1]))
