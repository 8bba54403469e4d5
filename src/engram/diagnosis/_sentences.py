"""An explanation in words: as text, and as HTML for notebooks and pages."""

import html
import math
from typing import Any

import numpy as np

_FEW = 4  # tokens named in a sentence
_LARGE = 1e-6  # a deviation of margins beyond this is worth a word


def in_words(explanation: Any) -> str:
    """All of it, a paragraph per spike."""
    return "\n\n".join(" ".join(paragraph) for paragraph in _paragraphs(explanation))


def as_html(explanation: Any) -> str:
    """The same as HTML."""
    head, *rest = _paragraphs(explanation)
    items = ("".join(f"<li>{html.escape(s)}</li>" for s in sentences[1:]) for sentences in rest)
    blocks = (
        f"<h4>{html.escape(sentences[0])}</h4><ul>{item}</ul>"
        for sentences, item in zip(rest, items, strict=True)
    )
    return f"<div><p>{html.escape(' '.join(head))}</p>{''.join(blocks)}</div>"


def _paragraphs(explanation: Any) -> list[list[str]]:
    count, shown = explanation.num_spikes, len(explanation.spikes)
    if not count:
        return [["The loss never spiked."]]
    head = f"The loss spiked {'once' if count == 1 else f'{count} times'}."
    if shown < count:
        head += f" The {shown} highest are explained here."
    return [[head], *(_of_spike(explanation, spike) for spike in explanation.spikes)]


def _of_spike(explanation: Any, spike: Any) -> list[str]:
    name = lambda x: f"token {explanation.names[x]}"
    sentences = [_what(spike), _who_rose(explanation, spike, name)]
    sentences += _who_pushed(spike, name)
    if spike.rates is not None:
        before, after = spike.rates
        sentences.append(f"The learning rate had gone up from {before:.4g} to {after:.4g}.")
    if spike.stability is not None:
        sentences += _why_unstable(spike, name)
    sentences += spike.foreseen
    if "fit" in spike.pushes.attrs:
        sentences.append(
            f"Pushes between records are read off {spike.pushes.attrs['method'].split(':')[0]}, which "
            f"accounts for {spike.pushes.attrs['fit']:.0%} of what W did."
        )
    deviation = spike.pushes.attrs.get("deviation", math.nan)
    if deviation > _LARGE:
        sentences.append(
            f"The run was repeated for this, and its margins differ from those recorded by up to "
            f"{deviation:.2g}: it is chaotic here, and the pushes are those of a path nearby."
        )
    return sentences


def _number(value: float) -> str:
    return f"{value:.4g}"


def _what(spike: Any) -> str:
    back = "had not come down" if math.isnan(spike.end) else f"was back at {spike.end:g}"
    return (
        f"From {spike.first:g} to {spike.peak:g} the loss rose from {_number(spike.loss_before)} to "
        f"{_number(spike.loss_peak)}, {spike.height:.3g} times its minimum, and {back}."
    )


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _who_rose(explanation: Any, spike: Any, name: Any) -> str:
    top = [
        f"{name(x)} ({share:.0%} of the rise, p = {explanation.probs[x]:.3g})"
        for x, share in spike.risen.top(_FEW)
        if share > 0.01
    ]
    if not top:
        return "No token's loss rose."
    verb = "is the loss" if len(top) == 1 else "are the losses"
    rest = len(spike.risen.tokens) - len(top)
    more = f"; {rest} others rose a little" if rest > 0 else ""
    return f"What rose {verb} of {_listed(top)}{more}."


def _who_pushed(spike: Any, name: Any) -> list[str]:
    def of(side: Any, what: str) -> list[str]:
        least = 0.05 * np.abs(side.values).sum()
        parts = [
            f"{name(x)} by {abs(v):.3g}{_why(spike, x)}"
            for x, v in side.top(_FEW)
            if abs(v) > least
        ]
        return [f"{what} {_listed(parts)}."] if parts else []

    its = "its margin" if len([v for v in spike.risen.values if v > 0.01]) == 1 else "their margins"
    return of(spike.against, f"What lowered {its}:") + of(spike.helping, f"What raised {its}:")


def _why(spike: Any, source: int) -> str:
    """The overlap of inputs of a source with the token that rose most, where that is known."""
    if "input_overlap" not in spike.pushes or not len(spike.risen.tokens):
        return ""
    most = int(spike.risen.tokens[0])
    if most == source:
        return " (itself)"
    overlap = float(spike.pushes["input_overlap"][most, source])
    return f" (inputs overlap by {overlap:.2g})"


def _why_unstable(spike: Any, name: Any) -> list[str]:
    known = spike.stability
    if math.isnan(known.threshold):
        return [f"The sharpness at {spike.first:g} was {_number(known.sharpness)}."]
    side = "above" if known.is_crossed else "below"
    sentence = (
        f"The sharpness at {spike.first:g} was {_number(known.sharpness)}, {side} the method's limit of "
        f"{_number(known.threshold)}"
    )
    if known.direction is None or not known.is_crossed:
        return [sentence + "."]
    order = np.argsort(-np.abs(known.direction))
    up = [name(int(x)) for x in order if known.direction[x] > 0.1][:_FEW]
    down = [name(int(x)) for x in order if known.direction[x] < -0.1][:_FEW]
    against = f" against {_listed(down)}" if down else ""
    return [f"{sentence}; the sharpest direction moves {_listed(up)}{against}."]
