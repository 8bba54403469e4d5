"""Figure 7: a transformer learns an induction head, one to three memories at a time."""

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram import plotting
from engram.dynamics import GradientDescent, PracticalDescent, adam
from engram.figures._comparison import Comparison, compared
from engram.figures._labels import labelled
from engram.figures._training import draw_losses, draw_margins, five_of, num_spikes, taken_back
from engram.transformer import (
    Config,
    Model,
    Passes,
    Sequences,
    Training,
    attention_patterns,
    bigram_task,
    evaluate,
    induction_scores,
    make_model,
    plain_loss,
    shakespeare,
    train,
)

TITLE = "A transformer's memories: an induction head"
LABEL = "fig:transformer"  # in the paper
CAPTION = (
    "Full-batch descent on the bigram task (Shakespeare's characters, 5 triggers; sequences of 256 in the paper, of 64 unless `--scale` says otherwise). Top: W_O^2 alone, losses by learning "
    "rate, and the margins of five tokens at the smallest and the largest rate. Middle: all three matrices, for two widths d: losses, then margins of W_O^2 (five "
    "tokens), and of W_K^2 (five triggers, lines) and W_K^1 (five positions, dotted; among the positions that attention sees), at the rate that ends lowest. A token is recalled above the grey line. Bottom, beyond the paper: attention over the first "
    "positions of a sequence that was never trained on, before and after training by Adam on batches of 32 sequences: the first layer comes to look at "
    "the position before, the second, at a trigger that comes again, at what followed it before (circles): an induction head. "
    "What to look for: faster learning at larger rates and width, spikes, margins that oscillate; the findings say which of these are shown."
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


def _config(settings: Settings, dim: int, **options: Any) -> Config:
    common: Any = {
        "sequences": settings.sequences,
        "length": settings.length,
        "seed": settings.seed,
    }
    return Config(dim=dim, **(common | options))


def _jobs(settings: Settings) -> dict[str, tuple[Config, Any]]:
    """Every training that the figure needs."""
    descents = lambda rates: [GradientDescent(rate, settings.alone_steps) for rate in rates]
    size = {"sequences": settings.alone_sequences, "length": settings.alone_length}
    jobs: dict[str, tuple[Config, Any]] = {
        "alone": (
            _config(settings, settings.alone_dim, matrices=("wo2",), **size),
            descents(settings.alone_rates),
        ),
        # The same data and rates as for all three, to set their margins side by side.
        "same": (
            _config(settings, min(settings.dims), matrices=("wo2",)),
            descents(settings.rates),
        ),
    }
    for dim in settings.dims:
        for rate in settings.rates:
            descent = GradientDescent(rate, settings.steps)
            jobs[f"d{dim}-rate{rate:g}"] = (_config(settings, dim), descent)
    largest = max(settings.dims)
    jobs["imbalanced"] = (
        _config(settings, largest, outputs="bigram"),
        GradientDescent(settings.imbalanced_rate, settings.steps),
    )
    jobs["adam"] = (
        _config(settings, largest, sequences=settings.adam_sequences),
        PracticalDescent(adam(settings.adam_rate), settings.adam_steps, settings.adam_batch),
    )
    return jobs


def _cost(config: Config, dynamics: Any) -> int:
    """About proportional to the time of a training, for the progress bar."""
    if config.matrices == ("wo2",):
        return config.sequences * config.dim // 8
    batch = getattr(dynamics, "batch_size", None) or config.sequences
    return batch * (config.dim + 20) * int(dynamics.num_steps) // 100


def compute(
    settings: Settings,
    tell: Callable[[int, int], None] | None = None,
    folder: Path | None = None,
) -> xr.Dataset:
    """Train everything; with a folder, go on with what is in it."""
    jobs = _jobs(settings)
    costs = {name: max(_cost(*job), 1) for name, job in jobs.items()}
    total, done, made = sum(costs.values()), 0, {}
    for name, (config, dynamics) in jobs.items():

        def progress(step: int, steps: int, name: str = name, done: int = done) -> None:
            if tell is not None:
                tell(done + costs[name] * step // max(steps, 1), total)

        out = None if folder is None else folder / name
        made[name] = train(config, dynamics, out=out, progress=progress)
        done += costs[name]
    found = xr.merge(
        [
            _alone(made["alone"], settings.alone_rates).rename(learning_rate="alone_learning_rate"),
            _alone(made["same"], settings.rates)[["alone_margins_wo2"]].rename(
                alone_margins_wo2="same_margins_wo2"
            ),
            _all_three(made, settings),
            _imbalanced(made["imbalanced"]),
            _induction(made["adam"], jobs["adam"][0], settings),
            _checks(made, settings),
        ]
    )
    if tell is not None:
        tell(total, total)
    return labelled(found, "fig7", TITLE, LABEL, settings)


def _alone(made: Training, rates: tuple[float, ...]) -> xr.Dataset:
    log = made.log if "run" in made.log.dims else made.log.expand_dims("run", axis=1)
    kept = log[["loss", "accuracy", "margins_wo2"]].drop_vars(
        ["trigger", "position", "learning_rate"], errors="ignore"
    )
    kept = kept.rename(step="alone_step", run="learning_rate").assign_coords(
        learning_rate=list(rates)
    )
    return kept.rename({name: f"alone_{name}" for name in kept.data_vars}).drop_attrs()


def _all_three(made: dict[str, Training], settings: Settings) -> xr.Dataset:
    names = [
        "loss",
        "accuracy",
        "margins_wo2",
        "margins_wk2",
        "margins_wk2_all",
        "margins_wk1",
        "margins_wk1_causal",
    ]
    rows = []
    for dim in settings.dims:
        runs = [made[f"d{dim}-rate{rate:g}"].log[names] for rate in settings.rates]
        rows.append(xr.concat(runs, xr.Variable("learning_rate", list(settings.rates))))
    return xr.concat(rows, xr.Variable("dim", list(settings.dims))).drop_attrs()


def _imbalanced(made: Training) -> xr.Dataset:
    """The run whose outputs follow the bigram law, and how often each token is an output."""
    log = made.log[["loss", "accuracy", "margins_wo2"]]
    asked = made.sequences.targets[made.sequences.in_loss]
    share = np.bincount(asked, minlength=made.sequences.num_tokens) / len(asked)
    kept = log.rename({name: f"imbalanced_{name}" for name in log.data_vars})
    return kept.assign(imbalanced_output_share=("token", share)).drop_attrs()


def _induction(made: Training, config: Config, settings: Settings) -> xr.Dataset:
    """Attention before and after Adam, on sequences that were never trained on."""
    fresh = bigram_task(dataclasses.replace(config, sequences=256), seed=settings.seed + 1_000_003)
    before = make_model(config, made.sequences.num_tokens)
    shown = min(settings.shown, fresh.length)
    row = int(np.argsort(fresh.in_loss.sum(axis=1))[len(fresh.tokens) // 2])  # a typical one
    variables: dict[str, Any] = {
        "sequence": ("query", fresh.inputs[row][:shown].astype(int)),
        "is_in_loss": ("query", fresh.in_loss[row][:shown].astype(int)),
    }
    for when, model in (("before", before), ("after", made.model)):
        for layer, pattern in zip(
            ("first", "second"), attention_patterns(model, fresh.inputs[row]), strict=True
        ):
            variables[f"{layer}_{when}"] = (("query", "key"), pattern[:shown, :shown])
        scores = induction_scores(model, fresh)
        found = evaluate(model, fresh)
        variables |= {f"attention_{name}_{when}": value for name, value in scores.items()}
        variables |= {f"held_out_{name}_{when}": value for name, value in found.items()}
    log = made.log
    for name in ("loss", "accuracy"):
        variables[f"adam_{name}"] = ("adam_step", log[name].values)
    for name, axis in (
        ("wo2", "token"),
        ("wk2", "trigger"),
        ("wk2_all", "trigger"),
        ("wk1", "position"),
        ("wk1_causal", "position"),
    ):
        variables[f"adam_margins_{name}"] = (axis, log[f"margins_{name}"].values[-1])
    coords = {"query": np.arange(shown), "key": np.arange(shown), "adam_step": log.step.values}
    return xr.Dataset(variables, coords)


def _checks(made: dict[str, Training], settings: Settings) -> xr.Dataset:
    """Losses at the end by the plain model, written out as in the paper, in float64."""
    values = []
    for dim in settings.dims:
        for rate in settings.rates:
            training = made[f"d{dim}-rate{rate:g}"]
            values.append(_plain(training.model, training.sequences))
    shape = (len(settings.dims), len(settings.rates))
    return xr.Dataset({"plain_final_loss": (("dim", "learning_rate"), np.reshape(values, shape))})


def _plain(model: Model, sequences: Sequences, num: int = 32) -> float:
    """In float64, from the readable model, on all sequences."""
    cast = jax.tree.map(lambda array: np.asarray(array, np.float64), model)
    weights = sequences.in_loss.sum(axis=1)
    if not np.isfinite(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(cast)])).all():
        return np.nan
    total = 0.0
    with jax.enable_x64(True):
        for k in range(0, len(sequences.tokens), num):
            tokens, occurrences, triggers = (array[k : k + num] for array in sequences[:3])
            part = Sequences(tokens, occurrences, triggers, sequences.num_tokens)
            total += float(_plain_loss(cast, part)) * weights[k : k + num].sum()
    return float(total / weights.sum())


@jax.jit
def _plain_jit(model: Model, tokens: Any, occurrences: Any) -> Any:
    return plain_loss(model, Sequences(tokens, occurrences, tokens[:, :1], len(model.W_E)))


def _plain_loss(model: Model, part: Sequences) -> Any:
    if not part.in_loss.any():
        return 0.0
    return _plain_jit(model, part.tokens, part.occurrences)


def compare(data: xr.Dataset) -> list[Comparison]:
    """The losses at the end, beside those of the plain model: two accounts of one number.

    There are no public values of this figure: neither the authors' code nor their data are known.
    """
    rows = []
    for dim in data.dim.values:
        for rate in data.learning_rate.values:
            here = data.sel(dim=dim, learning_rate=rate)
            ours = here.loss.values[-1]
            if np.isfinite(ours):
                # Sums over some 1e5 positions in float32.
                rows.append(
                    compared(
                        f"last loss, d = {dim}, η = {rate:g}, against the plain model in float64",
                        ours,
                        here.plain_final_loss,
                        rtol=3e-6,
                    )
                )
    return rows


def _said(*shown: Any) -> str:
    """The verdict on one observation, from all the places where it could be seen."""
    if not shown:
        return "Not tested"
    if all(shown):
        return "Shown"
    return "Shown in part" if any(shown) else "Not shown at this scale"


def findings(data: xr.Dataset) -> list[str]:
    """Each thing that the paper reads off this figure: shown or not shown here, with its numbers."""
    return [
        _alone_learns(data),
        _alone_spikes(data),
        _alone_ends_lower(data),
        _spikes(data),
        *_ends_lower(data),
        _oscillates_more(data),
        *_grow_together(data),
        _wider_is_faster(data),
        *_head(data),
        *_not_finite(data),
        *_larger_scales(data),
    ]


def _larger_scales(data: xr.Dataset) -> list[str]:
    """Where to look for what comes later in training."""
    size = lambda of: f"{of['sequences']:,} sequences of {of['length']}, {of['steps']} steps"
    here, larger = _settings(data), {name: dataclasses.asdict(SCALES[name]) for name in KEPT}
    told = [
        f"`--scale {name}` has {size(of)}"
        for name, of in larger.items()
        if of["steps"] > here["steps"]
    ]
    return [f"Here all three matrices train on {size(here)}; {', '.join(told)}."] if told else []


def _not_finite(data: xr.Dataset) -> list[str]:
    """Runs that did not reach their end; they have no last loss to compare."""
    return [
        f"Not finite: training all three matrices at d = {int(dim)}, η = {rate:g} stopped after step {int(np.isfinite(loss).sum()) - 1}."
        for dim in data.dim.values
        for rate in data.learning_rate.values
        if not np.isfinite(loss := data.loss.sel(dim=dim, learning_rate=rate).values).all()
    ]


def _lowest(values: Any) -> int:
    """Where it is lowest; what is not finite counts as highest."""
    return int(np.argmin(np.nan_to_num(np.asarray(values, float), nan=np.inf)))


def _alone_learns(data: xr.Dataset) -> str:
    loss, margins = data.alone_loss, data.alone_margins_wo2
    best = _lowest(loss.isel(alone_step=-1))
    rate = float(data.alone_learning_rate[best])
    first, last = (
        float((margins.isel(alone_step=k, alone_learning_rate=best) > 0).mean()) for k in (0, -1)
    )
    began, ended = (float(loss.isel(alone_step=k, alone_learning_rate=best)) for k in (0, -1))
    accuracy = float(data.alone_accuracy.isel(alone_step=-1, alone_learning_rate=best))
    ends = ", ".join(
        f"{float(v):.4g} (η = {r:g})"
        for v, r in zip(loss.isel(alone_step=-1), data.alone_learning_rate.values, strict=True)
    )
    shown = ended < began and last > max(first, 0.5)
    return (
        f"{_said(shown)}: W_O^2 alone learns an associative memory. Losses {began:.4g} at the start, after {data.sizes['alone_step'] - 1} steps {ends}; at η = {rate:g} {last:.0%} of its margins are positive "
        f"({first:.0%} at the start), and {accuracy:.0%} of the predictions are right."
    )


def _alone_spikes(data: xr.Dataset) -> str:
    rates = data.alone_learning_rate.values
    spikes = [num_spikes(data.alone_loss.isel(alone_learning_rate=k)) for k in range(len(rates))]
    back = [
        taken_back(data.alone_margins_wo2.isel(alone_learning_rate=k)) for k in range(len(rates))
    ]
    told = ", ".join(
        f"{n} and {b:.0%} (η = {r:g})" for n, b, r in zip(spikes, back, rates, strict=True)
    )
    shown = spikes[0] == 0 and spikes[-1] > 0 and back[-1] > back[0]
    return f"{_said(shown)}: with W_O^2 alone, spikes of the loss and oscillating margins come with large rates. Spikes, and the share of all movement of margins that is taken back: {told}."


def _alone_ends_lower(data: xr.Dataset) -> str:
    last = data.alone_loss.isel(alone_step=-1).values
    rates = data.alone_learning_rate.values
    order = ", ".join(f"{rate:g}" for rate in rates[np.argsort(last)])
    return f"{_said(*_falls(last))}: with W_O^2 alone, the larger the rate, the lower the loss at the end. From lowest to highest: η = {order}."


def _falls(values: Any) -> list[bool]:
    """From each to the next; what is not finite does not count as lower."""
    return [bool(step < 0) for step in np.diff(np.asarray(values, float))]


def _spikes(data: xr.Dataset) -> str:
    parts, found = [], []
    for dim in data.dim.values:
        counts = [
            num_spikes(data.loss.sel(dim=dim, learning_rate=r)) for r in data.learning_rate.values
        ]
        highest = [
            float(data.loss.sel(dim=dim, learning_rate=r).max()) for r in data.learning_rate.values
        ]
        half = len(counts) // 2
        found.append(sum(counts[-half:]) > sum(counts[:half]))
        parts.append(
            f"d = {dim}: "
            + ", ".join(
                f"{n} (η = {r:g}, highest loss {h:.3g})"
                for n, r, h in zip(counts, data.learning_rate.values, highest, strict=True)
            )
        )
    return f"{_said(*found)}: training all three matrices, spikes come more often at large rates (the larger half of them against the smaller). Spikes in {data.sizes['step'] - 1} steps: {'; '.join(parts)}."


def _ends_lower(data: xr.Dataset) -> list[str]:
    said = []
    for dim in data.dim.values:
        last = data.loss.sel(dim=dim).isel(step=-1).values
        accuracy = data.accuracy.sel(dim=dim).isel(step=-1).values
        told = ", ".join(
            f"{v:.4g} (η = {r:g}, accuracy {a:.3f})"
            for v, r, a in zip(last, data.learning_rate.values, accuracy, strict=True)
        )
        said.append(
            f"{_said(*_falls(last))} at d = {dim}: training all three matrices, the larger the rate, the lower the loss at the end. After {data.sizes['step'] - 1} steps {told}."
        )
    return said


def _oscillates_more(data: xr.Dataset) -> str:
    dim, rates = data.dim.values.min(), data.learning_rate.values
    steps = min(data.sizes["step"], data.sizes["alone_step"])
    three = [
        taken_back(data.margins_wo2.sel(dim=dim, learning_rate=rate).isel(step=slice(steps)))
        for rate in rates
    ]
    alone = [
        taken_back(data.same_margins_wo2.sel(learning_rate=rate).isel(alone_step=slice(steps)))
        for rate in rates
    ]
    shares = ", ".join(
        f"{a:.0%} and {b:.0%} (η = {rate:g})"
        for a, b, rate in zip(three, alone, rates, strict=True)
    )
    more = [a > b for a, b in zip(three, alone, strict=True)]
    return (
        f"{_said(*more)}: the margins of W_O^2 oscillate more when all three matrices train. At d = {dim}, in the first {steps - 1} steps, "
        f"the share of all movement that is taken back, and that with W_O^2 alone on the same sequences: {shares}."
    )


def _is_together(first: np.ndarray, last: np.ndarray) -> bool:
    """Grown, nearly all positive, and alike: the deviation among tokens below half of the mean."""
    return bool(
        last.mean() > first.mean() and np.mean(last > 0) >= 0.9 and last.std() < last.mean() / 2
    )


def _grow_together(data: xr.Dataset) -> list[str]:
    dim, rate = int(data.dim.max()), _settings(data)["imbalanced_rate"]
    if rate not in data.learning_rate:
        return []
    start, even = (
        data.margins_wo2.sel(dim=dim, learning_rate=rate).isel(step=k).values for k in (0, -1)
    )
    began, uneven = (data.imbalanced_margins_wo2.isel(step=k).values for k in (0, -1))
    practical = data.adam_margins_wo2.values
    share = data.imbalanced_output_share.values
    common, rare = share >= np.quantile(share, 0.75), share <= np.quantile(share, 0.25)
    together = _is_together(start, even)
    cause = _said(not _is_together(began, uneven)) if together else "Not tested, as they do not"
    told = lambda m: (
        f"{np.mean(m > 0):.0%} are positive, mean {m.mean():.3g}, standard deviation {m.std():.3g}"
    )
    return [
        f"{_said(together)}: the margins of W_O^2 grow together (nine tenths positive, their deviation below half of their mean). At d = {dim}, η = {rate:g}, after {data.sizes['step'] - 1} steps {told(even)}. In the Adam run below, where the head is in place, {told(practical)}.",
        f"{cause}: that comes from outputs that are drawn uniformly. With outputs from the bigram law, at the same rate, {told(uneven)}: "
        f"{uneven[common].mean():.3g} on average for the quarter of tokens most often asked for ({share[common].sum():.0%} of all), {uneven[rare].mean():.3g} for the quarter least often ({share[rare].sum():.1%}). "
        f"The loss ends at {float(data.imbalanced_loss[-1]):.3g}, accuracy {float(data.imbalanced_accuracy[-1]):.3f}.",
    ]


def _wider_is_faster(data: xr.Dataset) -> str:
    narrow, wide = (
        data.loss.sel(dim=d).isel(step=-1).values for d in (data.dim.min(), data.dim.max())
    )
    told = ", ".join(
        f"{a:.3g} and {b:.3g} (η = {r:g})"
        for a, b, r in zip(narrow, wide, data.learning_rate.values, strict=True)
    )
    return f"{_said(*(wide < narrow))}: a larger width is faster, at every rate. Losses at the end at d = {int(data.dim.min())} and {int(data.dim.max())}: {told}."


def _head(data: xr.Dataset) -> list[str]:
    number = lambda name: float(data[name])
    wo2, wk2, wk1 = (
        float((data[f"adam_margins_{name}"] > 0).mean()) for name in ("wo2", "wk2", "wk1_causal")
    )
    descent = data.accuracy.isel(step=-1)
    where = np.unravel_index(_lowest(-descent.values), descent.shape)
    best = descent[where]
    return [
        f"The induction head, by Adam on batches ({data.sizes['adam_step'] - 1} steps): accuracy {number('held_out_accuracy_before'):.3f} before and {number('held_out_accuracy_after'):.3f} after, on sequences never trained on; attention to the position before "
        f"{number('attention_previous_before'):.1%} and {number('attention_previous_after'):.1%}, to what followed the same trigger {number('attention_induction_before'):.1%} and {number('attention_induction_after'):.1%}; positive margins "
        f"at the end: W_O^2 {wo2:.0%}, W_K^2 {wk2:.0%}, W_K^1 (causal) {wk1:.0%}.",
        f"By plain descent the best accuracy after {data.sizes['step'] - 1} steps is {float(best):.3f}, at d = {int(best.dim)}, η = {float(best.learning_rate):g}.",
    ]


def draw(data: xr.Dataset) -> Figure:
    """W_O^2 alone; all three by width; attention before and after."""
    dims = data.dim.values
    with plotting.style():
        figure = plotting.new_figure(plotting.WIDE, 1.75 * (1 + len(dims)) + 2.1)
        parts: Any = figure.subfigures(2, 1, height_ratios=[1.75 * (1 + len(dims)), 2.0])
        grid = parts[0].subplots(1 + len(dims), 3)
        _draw_alone(grid[0], data)
        for row, dim in zip(grid[1:], dims, strict=True):
            _draw_three(row, data.sel(dim=dim))
        for axes in grid[-1]:
            axes.set_xlabel("step $t$")
        _draw_patterns(parts[1].subplots(1, 4), data)
        return figure


def _draw_alone(row: Any, data: xr.Dataset) -> None:
    rates, steps = data.alone_learning_rate.values, data.alone_step
    draw_losses(
        row[0], steps, {r: data.alone_loss.sel(alone_learning_rate=r).values for r in rates}
    )
    row[0].margins(y=0.25)
    row[0].legend(handlelength=0.8, fontsize=6, ncols=2, loc="upper center", columnspacing=0.8)
    row[0].set_ylabel("$W_O^2$ alone\nloss")
    row[0].set_title(f"loss, $d = {_settings(data)['alone_dim']}$")
    tokens = five_of(data.token)
    for axes, rate in zip(row[1:], (rates.min(), rates.max()), strict=True):
        margins = data.alone_margins_wo2.sel(alone_learning_rate=rate, token=tokens).transpose(
            "alone_step", "token"
        )
        draw_margins(axes, steps, margins, _characters(tokens))
        axes.set_title(
            rf"margins of $W_O^2$, $\eta = {rate:g}$", color=plotting.rate_style(rate)["color"]
        )
    row[1].margins(y=0.22)
    row[1].legend(
        loc="upper center",
        fontsize=6,
        ncols=5,
        handlelength=0.8,
        columnspacing=0.8,
        handletextpad=0.3,
    )


def _characters(tokens: Any) -> list[str]:
    return [repr(shakespeare().tokens[int(token)]) for token in tokens]


def _draw_three(row: Any, here: xr.Dataset) -> None:
    rates = here.learning_rate.values
    draw_losses(row[0], here.step, {r: here.loss.sel(learning_rate=r).values for r in rates})
    row[0].set_ylabel(f"all three, $d = {int(here.dim)}$\nloss")
    row[0].legend(handlelength=0.8, fontsize=6, ncols=2, loc="upper right", columnspacing=0.8)
    best = rates[_lowest(here.loss.isel(step=-1))]
    run = here.sel(learning_rate=best)
    colour = plotting.rate_style(best)["color"]
    tokens, places = five_of(here.token), five_of(here.position)
    draw_margins(
        row[1], here.step, run.margins_wo2.sel(token=tokens).transpose("step", "token"), tokens
    )
    row[1].set_title(rf"margins of $W_O^2$, $\eta = {best:g}$", color=colour)
    triggers = here.trigger.values[:5]
    draw_margins(
        row[2],
        here.step,
        run.margins_wk2.sel(trigger=triggers).transpose("step", "trigger"),
        triggers,
    )
    draw_margins(
        row[2],
        here.step,
        run.margins_wk1_causal.sel(position=places).transpose("step", "position"),
        places,
        ":",
    )
    row[2].set_title(rf"$W_K^2$ (lines), $W_K^1$ (dots), $\eta = {best:g}$", color=colour)


def _draw_patterns(panels: Any, data: xr.Dataset) -> None:
    names = ("first_before", "first_after", "second_before", "second_after")
    titles = ("layer 1, before", "layer 1, after", "layer 2, before", "layer 2, after")
    image = None
    for axes, name, title in zip(panels, names, titles, strict=True):
        image = axes.imshow(
            data[name], cmap="magma_r", vmin=0, vmax=1, interpolation="nearest", aspect="equal"
        )
        axes.set_title(title)
        axes.set_xlabel("key position", labelpad=1)
        for side in ("top", "right"):
            axes.spines[side].set_visible(True)
        if name.startswith("second"):
            rows, columns = _sought(data)
            axes.plot(columns, rows, "o", mfc="none", mec=plotting.COLOURS[0], ms=2.6, mew=0.5)
    panels[0].set_ylabel("query position")
    bar = panels[-1].figure.colorbar(image, ax=list(panels), fraction=0.02, pad=0.01)
    bar.set_label("attention")


def _sought(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Where an induction head looks: from a trigger that comes again to what followed it before."""
    tokens = data.sequence.values
    found = [
        (query, key)
        for query in np.flatnonzero(data.is_in_loss.values)
        for key in range(1, query + 1)
        if tokens[key - 1] == tokens[query]
    ]
    rows, columns = np.array(found, int).reshape(-1, 2).T
    return rows, columns


def estimate(settings: Settings) -> float:
    """About how many seconds all trainings take on this machine, from passes over a few sequences."""
    seconds = {dim: _per_sequence(_config(settings, dim, sequences=64)) for dim in settings.dims}
    total = 0.0
    for config, dynamics in _jobs(settings).values():
        if config.matrices == ("wo2",):
            continue  # small beside the others
        batch = getattr(dynamics, "batch_size", None) or config.sequences
        total += int(dynamics.num_steps) * batch * seconds[config.dim]
    return total


def _per_sequence(config: Config) -> float:
    sequences = bigram_task(config)
    model = make_model(config, sequences.num_tokens)
    passes = Passes(model, sequences, config.matrices)
    state = {name: model[name] for name in config.matrices}
    passes.measure(state)
    began = time.perf_counter()
    passes.measure(state)
    return (time.perf_counter() - began) / config.sequences


def _settings(data: xr.Dataset) -> dict[str, Any]:
    return json.loads(data.attrs["settings"])
