"""Events of a run in words: spikes, tokens forgotten and re-learnt, all recalled; with the tokens behind."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from engram.dynamics import AbstractFold

_NAMED = 3  # tokens named as the cause of a spike, at most
_LISTED = 8  # spikes, or numbers of an array, at most; the page says how many there are

Values = Mapping[str, np.ndarray]
Step = Callable[[Any], float | None]  # of a value that is a step or a time; None if it never came
Event = dict[str, Any]


def events_of(
    values: Values,
    clock: np.ndarray,
    step: Step,
    losses: tuple[np.ndarray, np.ndarray],
    names: Sequence[str],
) -> list[Event]:
    """Spikes, tokens forgotten and re-learnt, and perfect accuracy, in the order of their steps.

    Args:
        values: All that was recorded and found.
        clock: The step of each record.
        step: The step that an entry stands for.
        losses: What `losses_at_spikes` returned.
        names: Of the tokens.
    """
    events = [*_spikes(values, step, losses, names), *_forgotten(values, step, names)]
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


def losses_at_spikes(
    values: Values, clock: np.ndarray, recorded_at: Callable[[np.ndarray], Values]
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted token losses with their steps, among them those before and at the top of each spike.

    A long run is not recorded at every step: then it is run again, to be recorded there too.
    """
    if "token_losses" not in values:
        return clock, np.zeros((len(clock), 0))
    if "step" in values:
        starts, tops = (values[name][:_LISTED] for name in ("spike_start", "spike_step"))
        needed = np.concatenate([starts - 1, tops])
        if not np.isin(needed, values["step"]).all():
            values = recorded_at(np.union1d(values["step"], needed.astype(int)))
            clock = values["step"].astype(float)
    return clock, values["probs"] * values["token_losses"]


def _spikes(
    values: Values, step: Step, losses: tuple[np.ndarray, np.ndarray], names: Sequence[str]
) -> list[Event]:
    events = []
    columns = (values[name][:_LISTED] for name in ("spike_start", "spike_step", "spike_height"))
    for start, top, height in zip(*columns, strict=True):
        begin, peak = step(start), step(top)
        assert begin is not None
        assert peak is not None
        causes = spike_causes(*losses, begin, peak)
        text = f"loss spike, {height:.3g} times the lowest loss before it"
        if not np.isfinite(height):
            text = "loss spike, from a loss that had fallen to zero"
        text += f"; {_listed(causes, names)} behind it" if causes else ""
        events.append({"kind": "spike", "step": peak, "tokens": causes, "text": text})
    return events


def spike_causes(clock: np.ndarray, losses: np.ndarray, begin: float, peak: float) -> list[int]:
    """The tokens that make up four fifths of a spike's rise, at most three; those that rise most first."""
    before = max(int(np.searchsorted(clock, begin)) - 1, 0)
    top = min(int(np.searchsorted(clock, peak)), len(clock) - 1)
    rise = np.maximum(losses[top] - losses[before], 0.0)
    if not np.isfinite(rise).all() or rise.sum() == 0:
        return []
    order = np.argsort(-rise, kind="stable")
    enough = int(np.searchsorted(np.cumsum(rise[order]), 0.8 * rise.sum())) + 1
    return order[: min(enough, _NAMED)].tolist()


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
    more = f", ... ({len(numbers)} in all)" if len(numbers) > _LISTED else ""
    return ", ".join(numbers[:_LISTED]) + more
