"""Figure 7: a transformer learns an induction head, one to three memories at a time."""

import dataclasses
import itertools
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from engram.dynamics import GradientDescent, PracticalDescent, adam
from engram.figures._comparison import Comparison, compared
from engram.figures._labels import labelled, settings_of
from engram.figures._runs import Progress, silent
from engram.figures._training import highest_spike
from engram.figures.fig7_findings import verdicts
from engram.figures.fig7_picture import draw as draw
from engram.transformer import (
    Config,
    Model,
    Passes,
    Sequences,
    Training,
    attention_patterns,
    bigram_task,
    evaluate,
    explain,
    induction_scores,
    make_model,
    plain_loss,
    train,
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's rates and widths; how many sequences and steps is a matter of time, as is their length.

    Where all three matrices train, many short sequences show more in the same time than few long ones: what
    is to be copied is drawn once per sequence and trigger, and a sequence of 64 takes a fifth of the time of
    one of 256.
    """

    alone_dim: int = 64
    alone_rates: tuple[float, ...] = (20.0, 50.0, 100.0, 200.0)
    alone_steps: int = 50
    alone_sequences: int = 1024
    alone_length: int = 256
    dims: tuple[int, ...] = (64, 128)
    rates: tuple[float, ...] = (2.0, 5.0, 10.0, 20.0)
    steps: int = 50
    sequences: int = 2048
    length: int = 64
    imbalanced_rate: float = 5.0  # of the ablation with outputs from the bigram law
    adam_rate: float = 3e-3
    adam_batch: int = 32
    adam_steps: int = 300
    adam_sequences: int = 4096
    shown: int = 64  # positions in the attention patterns
    seed: int = 0


SCALES = {
    "tiny": Settings(alone_sequences=256, steps=100, sequences=256, length=256, adam_steps=500),
    "quick": Settings(),
    "medium": Settings(steps=500, sequences=1024, length=256, adam_steps=500),
    "paper": Settings(
        alone_sequences=16_384, steps=500, sequences=16_384, length=256, adam_steps=1000, adam_sequences=16_384
    ),
}  # fmt: skip
KEPT = ("medium", "paper")  # scales whose runs are kept, to be resumed
_SAMPLE = 128  # sequences on which a spike is divided among matrices
_MARGINS = {"wo2": "token", "wk2": "trigger", "wk2_all": "trigger", "wk1": "position", "wk1_causal": "position"}  # fmt: skip


def _config(settings: Settings, dim: int, **options: Any) -> Config:
    sizes: Any = {"sequences": settings.sequences, "length": settings.length}
    return Config(dim=dim, seed=settings.seed, **(sizes | options))


def _jobs(settings: Settings) -> dict[str, tuple[Config, Any]]:
    """Every training that the figure needs."""
    descents = lambda rates: [GradientDescent(rate, settings.alone_steps) for rate in rates]
    size = {"sequences": settings.alone_sequences, "length": settings.alone_length}
    narrow, wide = min(settings.dims), max(settings.dims)
    alone = _config(settings, settings.alone_dim, matrices=("wo2",), **size)
    # The same data and rates as for all three, to set their margins side by side.
    same = _config(settings, narrow, matrices=("wo2",))
    jobs: dict[str, tuple[Config, Any]] = {
        "alone": (alone, descents(settings.alone_rates)),
        "same": (same, descents(settings.rates)),
    }
    for dim, rate in itertools.product(settings.dims, settings.rates):
        jobs[_name(dim, rate)] = (_config(settings, dim), GradientDescent(rate, settings.steps))
    jobs["imbalanced"] = (
        _config(settings, wide, outputs="bigram"),
        GradientDescent(settings.imbalanced_rate, settings.steps),
    )
    jobs["adam"] = (
        _config(settings, wide, sequences=settings.adam_sequences),
        PracticalDescent(adam(settings.adam_rate), settings.adam_steps, settings.adam_batch),
    )
    return jobs


def _name(dim: int, rate: float) -> str:
    return f"d{dim}-rate{rate:g}"


def _work(config: Config, dynamics: Any) -> int:
    """How many sequences a training of all three matrices looks at."""
    return int(dynamics.num_steps) * (getattr(dynamics, "batch_size", None) or config.sequences)


def _cost(config: Config, dynamics: Any) -> int:
    """About proportional to the time of a training, for the progress bar."""
    if config.matrices == ("wo2",):
        return max(config.sequences * config.dim // 8, 1)
    return max(_work(config, dynamics) * (config.dim + 20) // 100, 1)


def compute(
    settings: Settings, progress: Progress = silent, folder: Path | None = None
) -> xr.Dataset:
    """Train everything; with a folder, resume what is in it."""
    jobs = _jobs(settings)
    total, done, trained = sum(_cost(*job) for job in jobs.values()), 0, {}
    for name, (config, dynamics) in jobs.items():
        begun, cost = done, _cost(config, dynamics)
        within = lambda step, steps, begun=begun, cost=cost: progress(
            begun + cost * step // max(steps, 1), total
        )
        out = None if folder is None else folder / name
        trained[name] = train(config, dynamics, out=out, progress=within)
        done += cost
    alone = _alone(trained["alone"], settings.alone_rates)
    same = _alone(trained["same"], settings.rates)["alone_margins_wo2"]
    parts = [
        alone.rename(learning_rate="alone_learning_rate"),
        same.rename("same_margins_wo2"),
        _all_three(trained, settings),
        _imbalanced(trained["imbalanced"]),
        _induction(trained["adam"], jobs["adam"][0], settings),
        _highest_spike(trained, settings),
    ]
    progress(total, total)
    return labelled(xr.merge(parts), "fig7", settings)


def _alone(training: Training, rates: tuple[float, ...]) -> xr.Dataset:
    """W_O^2 alone at several rates; their common start and steps."""
    log = training.log if "run" in training.log.dims else training.log.expand_dims("run", axis=1)
    kept = log[["loss", "accuracy", "margins_wo2"]]
    kept = kept.drop_vars(["trigger", "position", "learning_rate"], errors="ignore")
    kept = kept.rename({name: f"alone_{name}" for name in (*kept.data_vars, "step")})
    return kept.rename(run="learning_rate").assign_coords(learning_rate=list(rates)).drop_attrs()


def _all_three(trained: dict[str, Training], settings: Settings) -> xr.Dataset:
    """All three matrices by width and rate; their last losses also by the plain model."""
    names = ["loss", "accuracy", *(f"margins_{name}" for name in _MARGINS)]
    rows = []
    for dim in settings.dims:
        runs = [trained[_name(dim, rate)] for rate in settings.rates]
        logs = [
            run.log[names].assign(plain_final_loss=_plain_loss(run.model, run.sequences))
            for run in runs
        ]
        rows.append(xr.concat(logs, xr.Variable("learning_rate", list(settings.rates))))
    return xr.concat(rows, xr.Variable("dim", list(settings.dims))).drop_attrs()


def _imbalanced(training: Training) -> xr.Dataset:
    """The run whose outputs follow the bigram law, and how often each token is an output."""
    log = training.log[["loss", "accuracy", "margins_wo2"]]
    asked = training.sequences.targets[training.sequences.in_loss]
    share = np.bincount(asked, minlength=training.sequences.num_tokens) / len(asked)
    kept = log.rename({name: f"imbalanced_{name}" for name in log.data_vars})
    return kept.assign(imbalanced_output_share=("token", share)).drop_attrs()


def _induction(training: Training, config: Config, settings: Settings) -> xr.Dataset:
    """Attention before and after Adam, on sequences that were never trained on."""
    fresh = bigram_task(dataclasses.replace(config, sequences=256), seed=settings.seed + 1_000_003)
    before, log = make_model(config, training.sequences.num_tokens), training.log
    shown = min(settings.shown, fresh.length)
    row = int(np.argsort(fresh.in_loss.sum(axis=1))[len(fresh.tokens) // 2])  # a typical one
    variables: dict[str, Any] = {
        "sequence": ("query", fresh.inputs[row][:shown].astype(int)),
        "is_in_loss": ("query", fresh.in_loss[row][:shown].astype(int)),
        "adam_loss": ("adam_step", log.loss.values),
        "adam_accuracy": ("adam_step", log.accuracy.values),
    }
    for when, model in (("before", before), ("after", training.model)):
        first, second = attention_patterns(model, fresh.inputs[row])
        variables[f"first_{when}"] = (("query", "key"), first[:shown, :shown])
        variables[f"second_{when}"] = (("query", "key"), second[:shown, :shown])
        for name, value in induction_scores(model, fresh).items():
            variables[f"attention_{name}_{when}"] = value
        for name, value in evaluate(model, fresh).items():
            variables[f"held_out_{name}_{when}"] = value
    for name, axis in _MARGINS.items():
        variables[f"adam_margins_{name}"] = (axis, log[f"margins_{name}"].values[-1])
    coords = {"query": np.arange(shown), "key": np.arange(shown), "adam_step": log.step.values}
    return xr.Dataset(variables, coords)


def _highest_spike(trained: dict[str, Training], settings: Settings) -> xr.Dataset:
    """Of all runs by descent, the highest spike: what each matrix did to the loss, after which triggers."""
    found = [
        (spike, dim, rate)
        for dim, rate in itertools.product(settings.dims, settings.rates)
        if (spike := highest_spike(trained[_name(dim, rate)].log.loss)) > 0
    ]
    if not found:
        return xr.Dataset()
    _, dim, rate = max(found)
    explanation = explain(trained[_name(dim, rate)], most=1, sample=_SAMPLE)
    spike, parts = explanation.spikes[0], explanation.spikes[0].parts.sum("output")
    return xr.Dataset(
        {
            "spike_dim": dim,
            "spike_learning_rate": rate,
            "spike_step": ("end", [spike.first, spike.peak]),
            "spike_loss": ("end", [spike.loss_before, spike.loss_peak]),
            "spike_contribution": (("matrix", "asked"), parts.contribution.values),
            "spike_remainder": ("asked", parts.remainder.values),
            "spike_asked": ("asked", [explanation.names[k] for k in parts.trigger.values]),
        },
        {"matrix": parts.matrix.values.astype(str)},
    )


def _plain_loss(model: Model, sequences: Sequences, num: int = 32) -> float:
    """The loss on all sequences by the plain model, written out as in the paper, in float64."""
    model = jax.tree.map(lambda array: np.asarray(array, np.float64), model)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model)):
        return np.nan
    weights, total = sequences.in_loss.sum(axis=1), 0.0
    with jax.enable_x64(True):
        for k in range(0, len(weights), num):
            part = weights[k : k + num].sum()
            if part:
                tokens, occurrences = (array[k : k + num] for array in sequences[:2])
                total += float(_plain_jit(model, tokens, occurrences)) * part
    return float(total / weights.sum())


@jax.jit
def _plain_jit(model: Model, tokens: Any, occurrences: Any) -> Any:
    return plain_loss(model, Sequences(tokens, occurrences, tokens[:, :1], len(model.W_E)))


def compare(data: xr.Dataset) -> list[Comparison]:
    """The losses at the end, beside those of the plain model: two accounts of one number.

    There are no public values of this figure: neither the authors' code nor their data are known.
    """
    rows = []
    for dim, rate in itertools.product(data.dim.values, data.learning_rate.values):
        here = data.sel(dim=dim, learning_rate=rate)
        last = here.loss.values[-1]
        if np.isfinite(last):
            what = f"last loss, d = {dim}, η = {rate:g}, against the plain model in float64"
            # Sums over some 1e5 positions in float32.
            rows.append(compared(what, last, here.plain_final_loss, rtol=3e-6))
    return rows


def findings(data: xr.Dataset) -> list[str]:
    """What the paper reads off this figure, shown or not, and where to look for what comes later."""
    size = lambda of: f"{of['sequences']:,} sequences of {of['length']}, {of['steps']} steps"
    here, larger = settings_of(data), {name: dataclasses.asdict(SCALES[name]) for name in KEPT}
    longer = [
        f"the scale `{name}` has {size(of)}"
        for name, of in larger.items()
        if of["steps"] > here["steps"]
    ]
    end = f"Here all three matrices train on {size(here)}" + "".join(f"; {each}" for each in longer)
    where = "docs/figure7.md says what is shown at which scale."
    return [*verdicts(data), f"{end}. {where}"]


def estimate(settings: Settings) -> float:
    """At most about how many seconds it takes on this machine, from passes over a few sequences.

    The explanation of the highest spike repeats a training up to there: its end, at most. W_O^2 alone is
    small beside the others.
    """
    speeds = {dim: _per_sequence(_config(settings, dim, sequences=64)) for dim in settings.dims}
    trainings = {
        name: _work(config, dynamics) * speeds[config.dim][0]
        for name, (config, dynamics) in _jobs(settings).items()
        if config.matrices != ("wo2",)
    }
    plain = settings.sequences * len(settings.rates) * sum(plain for _, plain in speeds.values())
    return sum(trainings.values()) + max(trainings.values()) + plain


def _per_sequence(config: Config) -> tuple[float, float]:
    """Seconds for the gradients of a sequence, and for its loss by the plain model."""
    sequences = bigram_task(config)
    model = make_model(config, sequences.num_tokens)
    passes = Passes(model, sequences, config.matrices, compiled=True)
    state = {name: model[name] for name in config.matrices}
    times = []
    for call in (lambda: passes.measure(state), lambda: _plain_loss(model, sequences)):
        call()  # compiles
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) / config.sequences)
    return times[0], times[1]
