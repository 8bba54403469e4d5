"""An explanation of a training shown: in words, as a picture, and as a page."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from engram.diagnosis import Section, how_many, listed, what_happened, write_page
from engram.plotting import COLOURS, WIDE, new_figure, style

WORDS = {"wo2": "W_O^2", "wk2": "W_K^2", "wk1": "W_K^1"}
_SYMBOLS = {"wo2": "$W_O^2$", "wk2": "$W_K^2$", "wk1": "$W_K^1$"}
_AXES = {"wo2": "token", "wk2": "trigger", "wk1": "position"}
_FEW = 4  # triggers or outputs named in a sentence
_SHOWN = 6  # in a picture
_LARGE = 1e-6  # a deviation of losses beyond this share of them is worth a word


def paragraphs(explanation: Any) -> list[list[str]]:
    """How many spikes there were; the sentences on each; when memories form."""
    head = [how_many(explanation.num_spikes, len(explanation.spikes))]
    if explanation.batch is not None:
        head.append(
            f"Losses are those of each step's batch of {explanation.batch} sequences; what matrices and "
            "triggers did is said of the loss over all sequences."
        )
    if explanation.sample is not None:
        head.append(f"What matrices did is measured on {explanation.sample} of the sequences.")
    if explanation.deviation > _LARGE * float(np.nanmax(explanation.log.loss)):
        head.append(
            f"The training was repeated for this, and its losses differ from those recorded by up to "
            f"{explanation.deviation:.2g}."
        )
    spikes = [spike_sentences(spike, explanation.names) for spike in explanation.spikes]
    return [head, *spikes, formation_sentences(explanation.formed)]


def spike_sentences(spike: Any, names: list[str]) -> list[str]:
    """Which matrices moved the loss, which triggers and outputs carried it."""
    parts = spike.parts
    change, rise = float(parts.change.sum()), parts.change.clip(0).sum()
    return [
        what_happened(spike),
        _of_matrices(parts, change),
        *([_carried(parts, names, float(rise))] if rise > 0 else []),
    ]


def _of_matrices(parts: xr.Dataset, change: float) -> str:
    amounts = parts.contribution.sum(("trigger", "output"))
    by_size = sorted(amounts, key=lambda amount: -abs(float(amount)))
    said = [f"{WORDS[str(x.matrix.item())]} {float(x):+.3g}" for x in by_size]
    rest = float(parts.remainder.sum())
    return (
        f"Of its change by {change:+.3g}, the matrices made {listed(said)}; "
        f"{rest:+.1g} is not accounted for."
    )


def _carried(parts: xr.Dataset, names: list[str], rise: float) -> str:
    def top(axis: str, other: str) -> str:
        share = parts.change.sum(other).clip(0)
        share = share / share.sum()
        best = np.argsort(-share.values, kind="stable")[:_FEW]
        often = parts.frequency.sum(other).values
        said = [
            f"{names[int(parts[axis][k])]} ({share.values[k]:.0%} of the rise at {often[k]:.0%} of the "
            "positions)"
            for k in best
            if share.values[k] > 0.01
        ]
        return listed(said) if said else "none"

    net = float(parts.change.sum()) / rise
    triggers, outputs = top("trigger", "output"), top("output", "trigger")
    sentence = f"The triggers whose losses rose most are {triggers}; the outputs, {outputs}."
    return (
        sentence
        if net > 0.995
        else f"{sentence} Losses that fell took back {1 - net:.0%} of the rise."
    )


def formation_sentences(formed: xr.Dataset) -> list[str]:
    """When the memories of each matrix form."""

    def when(half: float, most: float) -> str:
        known = [
            f"{share} from step {step:g} on"
            for share, step in (("half of them", half), ("nine tenths", most))
            if math.isfinite(step)
        ]
        return ", ".join(known) or "never half of them for good"

    sentences = []
    for name, words in WORDS.items():
        steps = formed[name].values
        lasting = np.isfinite(steps)
        half, most = (float(formed[share].sel(matrix=name)) for share in ("from_50", "from_90"))
        last = f" (the last of them from step {steps[lasting].max():g} on)" if lasting.any() else ""
        sentences.append(
            f"{words} recalls {lasting.sum()} of {len(steps)} memories at the end{last}: "
            f"{when(half, most)}."
        )
    return sentences


def draw(explanation: Any, index: int = 0) -> Figure:
    """The loss around a spike, what matrices did, who carried it, and when memories form."""
    if not explanation.spikes:
        with style():
            figure = new_figure(0.5 * WIDE, 2.4)
            _draw_formation(figure.subplots(), explanation.log)
        return figure
    spike = explanation.spikes[index]
    with style():
        figure = new_figure(WIDE, 4.6)
        (loss, matrices), (carried, formed) = figure.subplots(2, 2)
        _draw_loss(loss, explanation.log, spike)
        _draw_matrices(matrices, spike.parts)
        _draw_carriers(carried, spike.parts, explanation.names)
        _draw_formation(formed, explanation.log)
        for axes in (loss, formed):
            axes.axvspan(spike.first, spike.peak, color=COLOURS[4], alpha=0.3, lw=0)
    return figure


def _draw_loss(axes: Axes, log: xr.Dataset, spike: Any) -> None:
    end = spike.end if math.isfinite(spike.end) else spike.peak
    around = max(end - spike.first, 8)
    shown = log.sel(step=slice(spike.first - around, end + around))
    axes.plot(shown.step, shown.loss, color="black", marker=".", ms=3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="step", ylabel="loss", title=f"The spike at step {spike.peak:g}")


def _draw_matrices(axes: Axes, parts: xr.Dataset) -> None:
    amounts = parts.contribution.sum(("trigger", "output")).values
    labels = [_SYMBOLS[str(name)] for name in parts.matrix.values]
    values = [*amounts, float(parts.remainder.sum())]
    colours = [*COLOURS[: len(labels)], "0.6"]
    bars = axes.barh([*labels, "remainder"], values, color=colours)
    axes.bar_label(bars, fmt="%.2g", padding=3)
    axes.margins(x=0.2)
    axes.axvline(0, color="0.4", lw=0.6)
    axes.invert_yaxis()
    axes.set(xlabel="change of the loss", title="Which matrices moved the loss")


def _draw_carriers(axes: Axes, parts: xr.Dataset, names: list[str]) -> None:
    """The triggers, then the outputs, whose losses changed most."""
    rows: list[tuple[str, float, str]] = []
    for axis, other, colour in (
        ("trigger", "output", COLOURS[3]),
        ("output", "trigger", COLOURS[5]),
    ):
        change = parts.change.sum(other)
        for k in np.argsort(-np.abs(change.values), kind="stable")[:_SHOWN]:
            name = f"{axis} {names[int(parts[axis][k])]}"
            rows.append((name.replace("$", r"\$"), float(change[k]), colour))
    axes.barh(range(len(rows)), [x[1] for x in rows], color=[x[2] for x in rows])
    axes.set_yticks(range(len(rows)), [x[0] for x in rows], fontsize=6)
    axes.axvline(0, color="0.4", lw=0.6)
    axes.invert_yaxis()
    axes.set(xlabel="change of the loss", title="Who carried it")


def _draw_formation(axes: Axes, log: xr.Dataset) -> None:
    from engram.transformer._explain import MEMORIES

    for (name, margins), colour in zip(MEMORIES.items(), COLOURS, strict=False):
        share = (log[f"margins_{margins}"] > 0).mean(_AXES[name]).where(np.isfinite(log.loss))
        axes.plot(log.step, share, color=colour, label=_SYMBOLS[name])
    axes.legend()
    axes.set(xlabel="step", ylabel="share recalled", ylim=(-0.03, 1.03), title="When memories form")


def write(explanation: Any, path: str | Path, title: str) -> None:
    """The page: sentences and a picture of each spike, a table of contributions, when memories form."""
    head, *spikes, formed = paragraphs(explanation)
    sections = [
        Section(
            f"The spike at step {spike.peak:g}", sentences, explanation.plot(k),
            ("change of the loss", *_words(spike.parts), "remainder", "in all"),
            _rows(spike.parts, explanation.names),
        )
        for k, (spike, sentences) in enumerate(zip(explanation.spikes, spikes, strict=True))
    ]  # fmt: skip
    last = Section("When memories form", formed, None if spikes else explanation.plot())
    write_page(path, title, " ".join(head), [*sections, last])


def _words(parts: xr.Dataset) -> list[str]:
    return [WORDS[str(name)] for name in parts.matrix.values]


def _rows(parts: xr.Dataset, names: list[str]) -> list[tuple[str, ...]]:
    """What each matrix did to the loss, in all and by trigger."""

    def row(label: str, part: xr.Dataset) -> tuple[str, ...]:
        values = [*part.contribution.values, part.remainder, part.change]
        return (label, *(f"{float(value):+.3g}" for value in values))

    by_trigger = parts.sum("output")
    order = np.argsort(-np.abs(by_trigger.change.values), kind="stable")[: 2 * _SHOWN]
    return [
        row("over all triggers", by_trigger.sum("trigger")),
        *(row(f"after {names[int(parts.trigger[k])]}", by_trigger.isel(trigger=k)) for k in order),
    ]
