"""An explanation in words: as text, and as HTML for notebooks and pages."""

import html
import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from engram._pages import png_text
from engram.problem import show_name

_FEW = 4  # tokens named in a sentence
_LITTLE = 0.005  # of a rise, below which nothing is said of the rest
_OFTEN = 2.0  # times its frequency, beyond which a token came remarkably often
_MET = 0.5  # of the change of W, below which pushes between records are hardly known
_UNCERTAIN = " That is too little to say who pushed: record more often."
_LARGE = 1e-6  # a deviation of margins beyond this is worth a word


def as_text(told: list[list[str]]) -> str:
    """Paragraphs of sentences as text."""
    return "\n\n".join(" ".join(sentences) for sentences in told)


def as_html(told: list[list[str]], picture: Figure | None = None) -> str:
    """The same as HTML, with a picture in it."""
    head, *rest = told
    items = ("".join(f"<li>{html.escape(s)}</li>" for s in sentences[1:]) for sentences in rest)
    blocks = (
        f"<h4>{html.escape(sentences[0])}</h4><ul>{item}</ul>"
        for sentences, item in zip(rest, items, strict=True)
    )
    image = (
        f'<img alt="" style="max-width:100%" src="data:image/png;base64,{png_text(picture, 150)}">'
        if picture
        else ""
    )
    return f"<div><p>{html.escape(' '.join(head))}</p>{''.join(blocks)}{image}</div>"


def paragraphs(explanation: Any) -> list[list[str]]:
    """How many spikes there were; then the sentences on each."""
    head = how_many(explanation.num_spikes, len(explanation.spikes))
    return [[head], *(_of_spike(explanation, spike) for spike in explanation.spikes)]


def how_many(count: int, shown: int) -> str:
    """How many spikes there were, and how many of them are explained."""
    if not count:
        return "The loss never spiked."
    head = f"The loss spiked {'once' if count == 1 else f'{count} times'}."
    if shown == count:
        return head
    some = "The highest one is" if shown == 1 else f"The {shown} highest are"
    return f"{head} {some} explained here."


def _of_spike(explanation: Any, spike: Any) -> list[str]:
    name = lambda x: f"token {explanation.names[x]}"
    sentences = [what_happened(spike), _who_rose(explanation, spike, name)]
    sentences += _who_is_surer(spike, name)
    sentences += _who_pushed(explanation, spike, name)
    if spike.rates is not None:
        before, after = spike.rates
        sentences.append(f"The learning rate had gone up from {before:.4g} to {after:.4g}.")
    if spike.stages:
        stages = [f"stage {number} (until step {end})" for number, end in spike.stages]
        sentences.append(f"Samples came from {listed(stages)} of the curriculum.")
    if spike.stability is not None:
        sentences += _why_unstable(spike, name)
    sentences += spike.foreseen
    if "fit" in spike.pushes.attrs:
        sentences.append(
            f"Pushes between records are read off {spike.pushes.attrs['method'].split(':')[0]}, which "
            f"accounts for {spike.pushes.attrs['fit']:.0%} of what W did."
            + (_UNCERTAIN if spike.pushes.attrs["fit"] < _MET else "")
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


def what_happened(spike: Any) -> str:
    """When the loss rose, and by how much."""
    back = "had not come down" if math.isnan(spike.end) else f"was back at {spike.end:g}"
    return (
        f"From {spike.first:g} to {spike.peak:g} the loss rose from {_number(spike.loss_before)} to "
        f"{_number(spike.loss_peak)}, {spike.height:.3g} times its minimum, and {back}."
    )


def listed(parts: list[str]) -> str:
    """Things one after another: a, b and c."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _who_rose(explanation: Any, spike: Any, name: Any) -> str:
    top = [
        f"{name(x)} ({share:.0%} of the rise, p = {explanation.probs[x]:.3g}{_taken_for(spike, x)})"
        for x, share in spike.risen.top(_FEW)
        if share > 0.01
    ]
    if not top:
        return "No token's loss rose."
    verb = "is the loss" if len(top) == 1 else "are the losses"
    rest = len(spike.risen.tokens) - len(top)
    share = 1 - sum(share for _, share in spike.risen.top(_FEW) if share > 0.01)
    others = "1 other rose" if rest == 1 else f"{rest} others rose"
    more = f"; {others}, too ({share:.0%})" if rest > 0 and share >= _LITTLE else ""
    return f"What rose {verb} of {listed(top)}{more}."


def _taken_for(spike: Any, x: int) -> str:
    """The class that a token is taken for at the peak, if that is not its own."""
    if not spike.pushes["margin_after"][x] < 0:
        return ""
    rival = spike.pushes["class"].values[int(spike.pushes["rival_after"][x])]
    return f", then recalled as class {show_name(str(rival))}"


def _named(spike: Any) -> list[int]:
    """The tokens that rose, as far as they are named."""
    return [x for x, share in spike.risen.top(_FEW) if share > 0.01]


def _who_is_surer(spike: Any, name: Any) -> list[str]:
    """Tokens whose margins rose with their losses."""
    rose = (spike.pushes["change"] - spike.pushes["rival"]).values
    those = [f"{name(x)} by {rose[x]:.3g}" for x in _named(spike) if x in spike.surer]
    if not those:
        return []
    verb = "The margin rose, too, of" if len(those) == 1 else "Margins rose, too, of"
    return [f"{verb} {listed(those)}: surer than the noisy targets are, which raises the loss."]


def _who_pushed(explanation: Any, spike: Any, name: Any) -> list[str]:
    further = _further(spike)
    elsewhere = max(map(abs, further.values()))

    def of(side: Any, what: str) -> list[str]:
        least = 0.05 * max(np.abs(side.values).sum(), elsewhere)
        parts = [
            f"{name(x)} by {abs(v):.3g}{_why(explanation, spike, x)}"
            for x, v in side.top(_FEW)
            if abs(v) > least
        ]
        return [f"What {what}: {listed(parts)}."] if parts else []

    its = "its margin" if len([v for v in spike.risen.values if v > 0.01]) == 1 else "their margins"
    down, up = f"lowered {its}", f"raised {its}"
    if spike.surer & set(_named(spike)):
        down, up = f"moved {its} the wrong way", f"moved {its} the right way"
    sides = of(spike.against, down) + of(spike.helping, up)
    whole = sum(np.abs(side.values).sum() for side in (spike.against, spike.helping))
    least = 0.05 * (whole + sum(map(abs, further.values())))
    return sides + [
        f"{what} {down if value < 0 else up} by {abs(value):.3g}."
        for what, value in further.items()
        if abs(value) > least
    ]


def _further(spike: Any) -> dict[str, float]:
    """What other than tokens moved the margins of those who rose, weighted as pushes are."""
    pushes, share = spike.pushes, np.zeros(spike.pushes.sizes["token"])
    share[spike.risen.tokens] = spike.risen.values
    share[list(spike.surer)] *= -1
    is_recorded = "fit" in pushes.attrs
    words = {
        "decay": "Weight decay",
        "noise": "What the loop's gradients have beyond the tokens' parts"
        if is_recorded
        else "Noise on W",
        "embeddings": "Moving embeddings",
        "remainder": "A remainder, which no push accounts for,",
    }
    return {
        what: float(share @ pushes[name].values) for name, what in words.items() if name in pushes
    }


def _why(explanation: Any, spike: Any, source: int) -> str:
    """What the push of a source on the token that it moved most is a product of, where that is known."""
    share = np.zeros(len(explanation.probs))
    share[spike.risen.tokens] = spike.risen.values
    moved = int(np.argmax(share * np.abs(spike.pushes["push"].values[:, source])))
    if moved == source:
        return " (itself)"
    if "input_overlap" not in spike.pushes:
        return ""
    why = _factors(spike.pushes, moved, source)
    outputs = "" if why is None else f", outputs by {why[1]:.2g}"
    p, here = explanation.probs[source], float(spike.pushes["frequency"][source])
    often = f", but {here:.0%} of the samples in these steps" if here > _OFTEN * p else ""
    whose = "" if moved == spike.risen.tokens[0] else f"token {explanation.names[moved]}'s: "
    overlap = float(spike.pushes["input_overlap"][moved, source])
    return f" ({whose}inputs overlap by {overlap:.3g}{outputs}; p = {p:.3g}{often})"


PUSHES = (
    "token", "pushed by", "change of margin", "= overlap of inputs", "x overlap of outputs", "x frequency",
    "x rate and residual, summed",
)  # fmt: skip


def push_rows(explanation: Any, spike: Any) -> list[tuple[str, ...]]:
    """The strongest pushes on those who rose, and what they are products of, in the order of `PUSHES`."""
    pushes, rows = spike.pushes, []
    for x, share in spike.risen.top(_FEW):
        values = pushes["push"].values[x]
        for source in np.argsort(-np.abs(values), kind="stable")[:_FEW]:
            if share < 0.01 or abs(values[source]) < 0.01 * np.abs(values).max():
                continue
            row = [explanation.names[x], explanation.names[source], f"{values[source]:+.3g}"]
            why = _factors(pushes, x, int(source)) or ()
            rows.append(
                (*row, *(f"{value:.3g}" for value in why), *["not a product"] * (4 - len(why)))
            )
    return rows


def _factors(pushes: Any, token: int, source: int) -> tuple[float, ...] | None:
    """What a push is the product of: overlaps of inputs and outputs, frequency, rates times residuals."""
    if "strength" not in pushes:
        return None
    overlaps = [float(pushes[f"{what}_overlap"][token, source]) for what in ("input", "output")]
    strength, p = float(pushes["strength"][source]), float(pushes["frequency"][source])
    return *overlaps, p, strength / p if p > 0 else math.nan


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
    against = f" against {listed(down)}" if down else ""
    return [f"{sentence}; the sharpest direction moves {listed(up)}{against}."]
