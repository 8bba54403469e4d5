"""What the page draws of the runs: series, paths in the plane, and events with the tokens behind them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from engram.dynamics import GradientFlow
from engram.explorer._desk import Ticket
from engram.explorer._objects import (
    RECORD,
    has_plane,
    make_dynamics,
    make_start,
    make_when,
)
from engram.explorer._programs import is_known, note, programs_of
from engram.explorer._state import Run, State
from engram.planes import memory_plane, sharpness_along, span_size
from engram.problem import Problem
from engram.simulation import simulate_arrays

_CURVATURE_WORK = 3e7  # cubes of the Hessian's size, in all, that are worth a request's time
_STIFF = "the flow is too stiff for the explicit solver; choose a smaller rate or fewer steps"
_NAMED = 3  # tokens named as the cause of a spike, at most


Values = Mapping[str, np.ndarray]
Step = Callable[[Any], float | None]


def runs_part(
    state: State, problem: Problem, ticket: Ticket
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Each run of a state: words and small numbers, and arrays whose names begin with its number."""
    start = make_start(state.start, problem).value
    about, arrays = [], {}
    programs = programs_of(state, (problem.num_inputs, problem.num_outputs, problem.dim))
    for number, (run, program) in enumerate(zip(state.runs, programs, strict=True)):
        ticket.check()
        is_cold = not is_known([program])
        words, series = run_series(problem, run, state.steps, start, ticket, is_cold)
        note(program)
        about.append(words)
        arrays |= {f"{number}.{name}": values for name, values in series.items()}
    return about, arrays


def run_series(
    problem: Problem, run: Run, steps: int, start: Any, ticket: Ticket, is_cold: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run, as `engram.simulate` computes it. What it takes to compile is not counted."""
    dynamics = make_dynamics(run, steps).value
    first = [is_cold]

    def tell(done: int, total: int) -> None:
        if first.pop() if first else False:
            ticket.begin()
        ticket.check()

    options = {"start": start, "record": RECORD, "key": run.seed if run.method == "sgd" else None}
    when = make_when(run.method, steps).value
    found = simulate_arrays(problem, dynamics, progress=tell, **options, **when)
    if is_cold:
        ticket.begin()
    is_flow = isinstance(dynamics, GradientFlow)
    values = found.arrays()

    def again(steps: np.ndarray) -> Values:
        """The same run, recorded at other steps as well."""
        at = np.union1d(values["step"], steps)
        return simulate_arrays(problem, dynamics, progress=tell, **options, at=at).arrays()

    clock = values["time"] / run.rate if is_flow else values["step"].astype(float)
    step = lambda value: _step(value, run, is_flow)
    series = {"step": clock} | {name: values[name] for name in ("time", "loss", "error", "margins")}
    weights = values["weights"]
    if has_plane(problem):
        series["path"] = memory_plane(problem).coordinates(problem, weights)[0]
    at = _where_curved(span_size(problem), len(clock))
    finite = at[np.isfinite(weights[at]).all((1, 2))]
    series["sharpness_step"] = clock[finite]
    ticket.check()
    series["sharpness"] = sharpness_along(problem, weights[finite]) if len(finite) else np.zeros(0)
    words = {
        "status": found.attrs["status"],
        "status_text": _STIFF
        if found.attrs["status"] == "step limit"
        else found.attrs["status_text"],
        "ended_at": float(clock[-1]) if len(clock) else None,
        "num_spikes": int(values["num_spikes"]),
        "first_perfect": step(values["first_perfect"]),
        "perfect_from": step(values["perfect_from"]),
        "last_rise": step(values["last_rise"]),
        "thresholds": _thresholds(run, dynamics, steps),
        "events": events_of(values, clock, step, _at_spikes(values, clock, again)),
    }
    return words, series


def _where_curved(size: int, count: int) -> np.ndarray:
    """The records at which the sharpness is computed: all of them where the Hessian is small."""
    most = max(8, int(_CURVATURE_WORK / max(size, 1) ** 3))
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _thresholds(run: Run, dynamics: Any, steps: int) -> list[list[float]]:
    """The sharpness beyond which the method is unstable on a quadratic, as [from step, value] pairs.

    Empty where it is not the sharpness of the loss itself that counts.
    """
    if run.method in ("gd", "sgd"):
        later = [(change.step, change.rate) for change in run.changes if change.step < steps]
        changes = [(0, run.rate), *later]
        return [[float(step), 2 / rate] for step, rate in changes]
    if run.method in ("momentum", "nesterov"):
        return [[0.0, float(dynamics.optimizer.threshold(dynamics.optimizer.numbers))]]
    return []


def _step(value: Any, run: Run, is_flow: bool) -> float | None:
    value = float(value) / run.rate if is_flow else float(value)
    return value if np.isfinite(value) else None


def _at_spikes(
    found: Values, clock: np.ndarray, again: Callable[[np.ndarray], Values]
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted token losses with their steps, among them those before and at the top of each spike.

    A long run is not recorded at every step: then it is run again, to be recorded there too.
    """
    if "step" in found:
        needed = np.concatenate([found["spike_start"] - 1, found["spike_step"]])
        if not np.isin(needed, found["step"]).all():
            found = again(needed.astype(int))
            clock = found["step"].astype(float)
    return clock, found["probs"] * found["token_losses"]


def events_of(
    found: Values, clock: np.ndarray, step: Step, losses: tuple[np.ndarray, np.ndarray]
) -> list[dict[str, Any]]:
    """Spikes, tokens forgotten and re-learnt, and perfect accuracy, in the order of their steps."""
    events = [*_spikes(found, step, losses), *_forgotten(found, step)]
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
    margins = found["margins"][at][found["probs"] > 0]
    return " (some by a tie)" if (margins <= 0).any() else ""


def _spikes(found: Values, step: Step, losses: tuple[np.ndarray, np.ndarray]) -> list[Any]:
    events = []
    for k in range(len(found["spike_step"])):
        begin, peak = step(found["spike_start"][k]), step(found["spike_step"][k])
        assert begin is not None
        assert peak is not None
        causes = spike_causes(*losses, begin, peak)
        height = float(found["spike_height"][k])
        text = f"loss spike, {height:.3g} times the lowest loss before it"
        if not np.isfinite(height):
            text = "loss spike, from a loss that had fallen to zero"
        text += f"; {_names(causes)} behind it" if causes else ""
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


def _forgotten(found: Values, step: Step) -> list[Any]:
    counts = found["num_forgotten"]
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
        {"kind": kind, "step": when, "tokens": tokens, "text": f"{_names(tokens)} {words}"}
        for (kind, words, when), tokens in grouped.items()
    ]


def _names(tokens: list[int]) -> str:
    shown = ", ".join(str(token + 1) for token in tokens[:6])
    more = f" and {len(tokens) - 6} more" if len(tokens) > 6 else ""
    return f"token{'s' if len(tokens) > 1 else ''} {shown}{more}"
