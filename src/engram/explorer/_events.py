"""Events of a run in words: spikes, tokens forgotten and re-learnt, all recalled; with the tokens behind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engram.diagnosis import Explanation
from engram.dynamics import AbstractFold

LISTED = 8  # spikes, or numbers of an array, at most; the page says how many there are
_NAMED = 4  # tokens whose losses rose in a spike, at most
_MOST = 0.01  # of a rise that is worth a name

Values = Mapping[str, np.ndarray]
Step = Callable[[Any], float | None]  # of a value that is a step or a time; None if it never came
Event = dict[str, Any]


def events_of(
    values: Values,
    clock: np.ndarray,
    step: Step,
    names: Sequence[str],
) -> list[Event]:
    """Spikes, tokens forgotten and re-learnt, and perfect accuracy, in the order of their steps.

    Args:
        values: All that was recorded and found.
        clock: The step of each record.
        step: The step that an entry stands for.
        names: Of the tokens.
    """
    events = [*_spikes(values, step), *_forgotten(values, step, names)]
    first, stays = step(values["first_perfect"]), step(values["perfect_from"])
    for when in dict.fromkeys((first, stays)):
        if when is None:
            continue
        later = (
            "" if first == stays else ", from here on" if when == stays else ", not yet for good"
        )
        text = f"all tokens recalled{later}{_tie(values, clock, when)}"
        events.append({"kind": "perfect", "step": when, "tokens": [], "text": text})
    return sorted(events, key=lambda event: event["step"])


def _tie(values: Values, clock: np.ndarray, when: float) -> str:
    """A tie goes to the lowest class, and so counts as recalled for tokens of that class."""
    if when not in clock or "margins" not in values:
        return ""
    margins = values["margins"][np.searchsorted(clock, when)][values["probs"] > 0]
    return " (some by a tie)" if (margins <= 0).any() else ""


# --- spikes ---------------------------------------------------------------------------------------------


def _spikes(values: Values, step: Step) -> list[Event]:
    events, heights = [], values["spike_height"]
    for k in np.sort(np.argsort(-heights, kind="stable")[:LISTED]):
        top, height = values["spike_step"][k], heights[k]
        text = f"loss spike, {height:.3g} times the lowest loss before it"
        if not np.isfinite(height):
            text = "loss spike, from a loss that had fallen to zero"
        events.append({"kind": "spike", "step": step(top), "tokens": [], "text": text})
    return events


def causes_of(
    explanation: Explanation, step: Callable[[float], float], names: Sequence[str]
) -> list[Event]:
    """The spikes of an explanation: whose losses rose, and all of it in words, with the page's names."""
    _, *paragraphs = str(replace(explanation, names=names)).split("\n\n")
    return [
        {
            "step": step(spike.peak),
            "tokens": [token for token, share in spike.risen.top(_NAMED) if share > _MOST],
            "text": text,
        }
        for spike, text in zip(explanation.spikes, paragraphs, strict=True)
    ]


# --- tokens ---------------------------------------------------------------------------------------------


def _forgotten(values: Values, step: Step, names: Sequence[str]) -> list[Event]:
    counts = values.get("num_forgotten", np.zeros(0))
    grouped: dict[tuple[str, str, float], list[int]] = {}

    def put(kind: str, words: str, when: float | None, token: int) -> None:
        if when is not None:
            grouped.setdefault((kind, words, when), []).append(token)

    for token in map(int, np.flatnonzero(counts)):
        first, last = step(values["first_forgotten"][token]), step(values["last_forgotten"][token])
        back = step(values["last_relearnt"][token])
        times = f" ({counts[token]} times in all)" if counts[token] > 1 else ""
        put("forgotten", f"forgotten{times}", first, token)
        if last != first:
            put("forgotten", "forgotten again, for the last time", last, token)
        if back is not None and last is not None and back > last:
            put("relearnt", "re-learnt", back, token)
    return [
        {"kind": kind, "step": when, "tokens": tokens, "text": f"{_listed(tokens, names)} {words}"}
        for (kind, words, when), tokens in grouped.items()
    ]


def _listed(tokens: list[int], names: Sequence[str]) -> str:
    shown = ", ".join(names[token] for token in tokens[:6])
    more = f" and {len(tokens) - 6} more" if len(tokens) > 6 else ""
    return f"token{'s' if len(tokens) > 1 else ''} {shown}{more}"


# --- events of one's own --------------------------------------------------------------------------------


class Named(AbstractFold):
    """A fold whose variables bear its name, so that none is taken for another's."""

    name: str
    fold: AbstractFold

    def init(self, system: Any, state: Any) -> Any:
        return self.fold.init(system, state)

    def update(self, folded: Any, index: Any, moment: Any) -> Any:
        return self.fold.update(folded, index, moment)

    def describe(self, folded: Any, last: int) -> dict[str, Any]:
        described = self.fold.describe(folded, last)
        return {f"{self.name}: {name}": value for name, value in described.items()}


def own_findings(values: Values) -> list[str]:
    """What events of one's own have found, in words."""
    return [f"{name} = {_number(values[name])}" for name in values if ": " in name]


def _number(value: np.ndarray) -> str:
    numbers = [f"{item:.5g}" for item in np.ravel(np.asarray(value, float))]
    more = f", ... ({len(numbers)} in all)" if len(numbers) > LISTED else ""
    return ", ".join(numbers[:LISTED]) + more
