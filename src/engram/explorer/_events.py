"""Events of a run in words: spikes, tokens forgotten and re-learnt, all recalled; with the tokens behind."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from engram.dynamics import AbstractFold

_NAMED = 3  # tokens named as the cause of a spike, at most
_LISTED = 8  # spikes, or numbers of an array, at most; the page says how many there are

Values = Mapping[str, np.ndarray]
Step = Callable[[Any], float | None]


def losses_at_spikes(
    found: Values, clock: np.ndarray, again: Callable[[np.ndarray], Values]
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted token losses with their steps, among them those before and at the top of each spike.

    A long run is not recorded at every step: then it is run again, to be recorded there too.
    """
    if "token_losses" not in found:
        return clock, np.zeros((len(clock), 0))
    if "step" in found:
        listed = slice(_LISTED)
        needed = np.concatenate([found["spike_start"][listed] - 1, found["spike_step"][listed]])
        if not np.isin(needed, found["step"]).all():
            found = again(needed.astype(int))
            clock = found["step"].astype(float)
    return clock, found["probs"] * found["token_losses"]


def events_of(
    found: Values,
    clock: np.ndarray,
    step: Step,
    losses: tuple[np.ndarray, np.ndarray],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """Spikes, tokens forgotten and re-learnt, and perfect accuracy, in the order of their steps."""
    events = [*_spikes(found, step, losses, names), *_forgotten(found, step, names)]
    first, stays = step(found["first_perfect"]), step(found["perfect_from"])
    for when in dict.fromkeys((first, stays)):
        if when is None:
            continue
        later = (
            "" if first == stays else ", from here on" if when == stays else ", not yet for good"
        )
        text = f"all tokens recalled{later}{_tie(found, clock, when)}"
        events.append({"kind": "perfect", "step": when, "tokens": [], "text": text})
    return sorted(events, key=lambda event: event["step"])


def _tie(found: Values, clock: np.ndarray, when: float) -> str:
    """A tie goes to the lowest class, and so counts as recalled for tokens of that class."""
    at = int(np.searchsorted(clock, when))
    if at == len(clock) or clock[at] != when:
        return ""
    if "margins" not in found:
        return ""
    margins = found["margins"][at][found["probs"] > 0]
    return " (some by a tie)" if (margins <= 0).any() else ""


def _spikes(
    found: Values, step: Step, losses: tuple[np.ndarray, np.ndarray], names: Sequence[str]
) -> list[Any]:
    events = []
    for k in range(min(len(found["spike_step"]), _LISTED)):
        begin, peak = step(found["spike_start"][k]), step(found["spike_step"][k])
        assert begin is not None
        assert peak is not None
        causes = spike_causes(*losses, begin, peak)
        height = float(found["spike_height"][k])
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


def _forgotten(found: Values, step: Step, names: Sequence[str]) -> list[Any]:
    counts = found.get("num_forgotten", np.zeros(0))
    grouped: dict[tuple[str, str, float], list[int]] = {}

    def put(kind: str, words: str, when: float | None, token: int) -> None:
        if when is not None:
            grouped.setdefault((kind, words, when), []).append(token)

    for token in map(int, np.flatnonzero(counts)):
        first, last = step(found["first_forgotten"][token]), step(found["last_forgotten"][token])
        back = step(found["last_relearnt"][token])
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


class _Named(AbstractFold):
    """A fold whose variables bear its name, so that none is taken for another's."""

    name: str
    fold: AbstractFold

    def init(self, system: Any, state: Any) -> Any:
        return self.fold.init(system, state)

    def update(self, folded: Any, index: Any, moment: Any) -> Any:
        return self.fold.update(folded, index, moment)

    def describe(self, folded: Any, last: int) -> dict[str, Any]:
        found = self.fold.describe(folded, last)
        return {f"{self.name}: {name}": value for name, value in found.items()}


def named_events(events: Any, items: Sequence[Mapping[str, Any]]) -> Any:
    """The events of a run, those of one's own with their names before their variables."""
    if events is True:
        return True
    pairs = zip(items, events[1:], strict=True)
    return [True, *(_Named(item["kind"], fold) for item, fold in pairs)]


def found_by_own(values: Values) -> list[str]:
    """What events of one's own have found, in words."""
    names = [name for name in values if ": " in name]
    return [f"{name} = {_number(values[name])}" for name in names]


def _number(value: np.ndarray) -> str:
    numbers = [f"{item:.5g}" for item in np.ravel(np.asarray(value, float))]
    if value.ndim == 0:
        return numbers[0]
    more = f", ... ({len(numbers)} in all)" if len(numbers) > _LISTED else ""
    return ", ".join(numbers[:_LISTED]) + more
