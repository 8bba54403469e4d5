"""What the paper reads off Figure 7: each observation shown or not shown here, with its numbers."""

import itertools
from typing import Any

import numpy as np
import xarray as xr

from engram.figures._labels import settings_of
from engram.figures._training import num_spikes, taken_back
from engram.transformer import formation

_MATRICES = {"wo2": "W_O^2", "wk2": "W_K^2", "wk1": "W_K^1"}


def verdict(*shown: Any) -> str:
    """The verdict on one observation, from all the places where it could be seen."""
    if not shown:
        return "Not tested"
    if all(shown):
        return "Shown"
    return "Shown in part" if any(shown) else "Not shown at this scale"


def falls(values: Any) -> list[bool]:
    """From each to the next; what is not finite does not count as lower."""
    return [bool(step < 0) for step in np.diff(np.asarray(values, float))]


def lowest(values: Any) -> int:
    """Where it is lowest; what is not finite counts as highest."""
    return int(np.argmin(np.nan_to_num(np.asarray(values, float), nan=np.inf)))


def is_together(first: np.ndarray, last: np.ndarray) -> bool:
    """Grown, nearly all positive, and alike: the deviation among tokens below half of the mean."""
    return bool(
        last.mean() > first.mean() and np.mean(last > 0) >= 0.9 and last.std() < last.mean() / 2
    )


def _each(words: str, *columns: Any) -> str:
    """Values side by side in words, one place after another."""
    return ", ".join(words.format(*row) for row in zip(*columns, strict=True))


def verdicts(data: xr.Dataset) -> list[str]:
    """Each thing that the paper reads off this figure: shown or not shown here, with its numbers."""
    return [
        *_alone(data),
        _spikes(data),
        *_ends_lower(data),
        _oscillates_more(data),
        *_grow_together(data),
        _wider_is_faster(data),
        *_head(data),
        *_highest_spike(data),
        _formation(data),
        *_not_finite(data),
    ]


def _alone(data: xr.Dataset) -> list[str]:
    rates, end = data.alone_learning_rate.values, data.isel(alone_step=-1)
    best = lowest(end.alone_loss)
    run = data.isel(alone_learning_rate=best)
    first, last = ((run.alone_margins_wo2.isel(alone_step=k) > 0).mean().item() for k in (0, -1))
    began, ended = (float(run.alone_loss[k]) for k in (0, -1))
    runs = [data.isel(alone_learning_rate=k) for k in range(len(rates))]
    spikes = [num_spikes(run.alone_loss) for run in runs]
    back = [taken_back(run.alone_margins_wo2) for run in runs]
    learns = ended < began and last > max(first, 0.5)
    oscillates = spikes[0] == 0 and spikes[-1] > 0 and back[-1] > back[0]
    ends = end.alone_loss.values
    return [
        f"{verdict(learns)}: W_O^2 alone learns an associative memory. Losses {began:.4g} at the start, after {data.sizes['alone_step'] - 1} steps "
        f"{_each('{:.4g} (η = {:g})', ends.astype(float), rates)}; at η = {rates[best]:g} {last:.0%} of its margins are positive "
        f"({first:.0%} at the start), and {float(run.alone_accuracy[-1]):.0%} of the predictions are right.",
        f"{verdict(oscillates)}: with W_O^2 alone, spikes of the loss and oscillating margins come with large rates. Spikes, and the share of all movement of margins that is taken back: "
        f"{_each('{} and {:.0%} (η = {:g})', spikes, back, rates)}.",
        f"{verdict(*falls(ends))}: with W_O^2 alone, the larger the rate, the lower the loss at the end. From lowest to highest: η = {_each('{:g}', rates[np.argsort(ends)])}.",
    ]


def _spikes(data: xr.Dataset) -> str:
    parts, more, rates = [], [], data.learning_rate.values
    for dim in data.dim.values:
        losses = [data.loss.sel(dim=dim, learning_rate=rate) for rate in rates]
        counts, half = [num_spikes(loss) for loss in losses], len(rates) // 2
        more.append(sum(counts[-half:]) > sum(counts[:half]))
        highest = [float(loss.max()) for loss in losses]
        parts.append(f"d = {dim}: {_each('{} (η = {:g}, highest loss {:.3g})', counts, rates, highest)}")  # fmt: skip
    return f"{verdict(*more)}: training all three matrices, spikes come more often at large rates (the larger half of them against the smaller). Spikes in {data.sizes['step'] - 1} steps: {'; '.join(parts)}."


def _ends_lower(data: xr.Dataset) -> list[str]:
    sentences, end = [], data.isel(step=-1)
    for dim in data.dim.values:
        last, accuracy = end.loss.sel(dim=dim).values, end.accuracy.sel(dim=dim).values
        ends = _each("{:.4g} (η = {:g}, accuracy {:.3f})", last, data.learning_rate.values, accuracy)  # fmt: skip
        sentences.append(
            f"{verdict(*falls(last))} at d = {dim}: training all three matrices, the larger the rate, the lower the loss at the end. After {data.sizes['step'] - 1} steps {ends}."
        )
    return sentences


def _oscillates_more(data: xr.Dataset) -> str:
    dim, rates = data.dim.values.min(), data.learning_rate.values
    steps = min(data.sizes["step"], data.sizes["alone_step"])
    data = data.isel(step=slice(steps), alone_step=slice(steps))
    runs = [data.sel(dim=dim, learning_rate=rate) for rate in rates]
    three = [taken_back(run.margins_wo2) for run in runs]
    alone = [taken_back(run.same_margins_wo2) for run in runs]
    more = [a > b for a, b in zip(three, alone, strict=True)]
    return (
        f"{verdict(*more)}: the margins of W_O^2 oscillate more when all three matrices train. At d = {dim}, in the first {steps - 1} steps, "
        f"the share of all movement that is taken back, and that with W_O^2 alone on the same sequences: {_each('{:.0%} and {:.0%} (η = {:g})', three, alone, rates)}."
    )


def _grow_together(data: xr.Dataset) -> list[str]:
    dim, rate = int(data.dim.max()), settings_of(data)["imbalanced_rate"]
    if rate not in data.learning_rate:
        return []
    run = data.sel(dim=dim, learning_rate=rate)
    start, even = (run.margins_wo2.isel(step=k).values for k in (0, -1))
    began, uneven = (data.imbalanced_margins_wo2.isel(step=k).values for k in (0, -1))
    share = data.imbalanced_output_share.values
    common, rare = share >= np.quantile(share, 0.75), share <= np.quantile(share, 0.25)
    together = is_together(start, even)
    cause = verdict(not is_together(began, uneven)) if together else "Not tested, as they do not"
    words = lambda m: (
        f"{np.mean(m > 0):.0%} are positive, mean {m.mean():.3g}, standard deviation {m.std():.3g}"
    )
    return [
        f"{verdict(together)}: the margins of W_O^2 grow together (nine tenths positive, their deviation below half of their mean). At d = {dim}, η = {rate:g}, after {data.sizes['step'] - 1} steps {words(even)}. In the Adam run below, where the head is in place, {words(data.adam_margins_wo2.values)}.",
        f"{cause}: that comes from outputs that are drawn uniformly. With outputs from the bigram law, at the same rate, {words(uneven)}: "
        f"{uneven[common].mean():.3g} on average for the quarter of tokens most often asked for ({share[common].sum():.0%} of all), {uneven[rare].mean():.3g} for the quarter least often ({share[rare].sum():.1%}). "
        f"The loss ends at {float(data.imbalanced_loss[-1]):.3g}, accuracy {float(data.imbalanced_accuracy[-1]):.3f}.",
    ]


def _wider_is_faster(data: xr.Dataset) -> str:
    dims = int(data.dim.min()), int(data.dim.max())
    narrow, wide = (data.loss.sel(dim=dim).isel(step=-1).values for dim in dims)
    ends = _each("{:.3g} and {:.3g} (η = {:g})", narrow, wide, data.learning_rate.values)
    return f"{verdict(*(wide < narrow))}: a larger width is faster, at every rate. Losses at the end at d = {dims[0]} and {dims[1]}: {ends}."


def _head(data: xr.Dataset) -> list[str]:
    both = lambda name, digits: [f"{float(data[f'{name}_{when}']):{digits}}" for when in ("before", "after")]  # fmt: skip
    accuracy = both("held_out_accuracy", ".3f")
    previous, induction = both("attention_previous", ".1%"), both("attention_induction", ".1%")
    wo2, wk2, wk1 = (float((data[f"adam_margins_{name}"] > 0).mean()) for name in ("wo2", "wk2", "wk1_causal"))  # fmt: skip
    descent = data.accuracy.isel(step=-1)
    best = descent[np.unravel_index(lowest(-descent.values), descent.shape)]
    return [
        f"The induction head, by Adam on batches ({data.sizes['adam_step'] - 1} steps): accuracy {accuracy[0]} before and {accuracy[1]} after, on sequences never trained on; attention to the position before "
        f"{previous[0]} and {previous[1]}, to what followed the same trigger {induction[0]} and {induction[1]}; positive margins "
        f"at the end: W_O^2 {wo2:.0%}, W_K^2 {wk2:.0%}, W_K^1 (causal) {wk1:.0%}.",
        f"By plain descent the best accuracy after {data.sizes['step'] - 1} steps is {float(best):.3f}, at d = {int(best.dim)}, η = {float(best.learning_rate):g}.",
    ]


def _highest_spike(data: xr.Dataset) -> list[str]:
    """Which matrices made the highest spike of all runs by descent."""
    if "spike_contribution" not in data:
        return []
    steps, losses = data.spike_step.values, data.spike_loss.values
    made = data.spike_contribution.sum("asked").values
    rest = float(data.spike_remainder.sum())
    change = (data.spike_contribution.sum("matrix") + data.spike_remainder).values
    top = np.argsort(-change, kind="stable")[:2]
    names = [_MATRICES[name] for name in data.matrix.values]
    return [
        f"The highest spike by descent is at d = {int(data.spike_dim)}, η = {float(data.spike_learning_rate):g}: from step {steps[0]:g} to {steps[1]:g} the loss goes from {losses[0]:.3g} to {losses[1]:.3g}. "
        f"On some of the sequences, where it changes by {change.sum():+.3g}, the matrices made {_each('{} {:+.3g}', names, made)}, and {rest:+.1g} is not accounted for; "
        f"it is carried by the triggers {_each('{} ({:+.3g})', data.spike_asked.values[top], change[top])}."
    ]


def _formation(data: xr.Dataset) -> str:
    """When the memories of the run by descent that ends lowest form."""
    dim, rate = np.unravel_index(lowest(data.loss.isel(step=-1).values), data.loss.shape[:2])
    run = data.isel(dim=dim, learning_rate=rate)
    formed = formation(run)
    when = lambda step: f"from step {step:g} on" if np.isfinite(step) else "not by the end"
    parts = [
        f"{words}: half of them {when(formed.from_50.sel(matrix=name))}, nine tenths {when(formed.from_90.sel(matrix=name))}"
        for name, words in _MATRICES.items()
    ]
    return f"When memories form for good, by descent at d = {int(run.dim)}, η = {float(run.learning_rate):g}: {'; '.join(parts)}."


def _not_finite(data: xr.Dataset) -> list[str]:
    """Runs that did not reach their end; they have no last loss to compare."""
    return [
        f"Not finite: training all three matrices at d = {int(dim)}, η = {rate:g} stopped after step {int(np.isfinite(loss).sum()) - 1}."
        for dim, rate in itertools.product(data.dim.values, data.learning_rate.values)
        if not np.isfinite(loss := data.loss.sel(dim=dim, learning_rate=rate).values).all()
    ]
