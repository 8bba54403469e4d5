"""What the page draws of the runs: series, paths in the plane, and events with the tokens behind them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from engram.dynamics import GradientFlow
from engram.explorer._objects import (
    RECORD,
    has_plane,
    make_dynamics,
    make_start,
    make_when,
)
from engram.explorer._state import Run, State
from engram.planes import memory_plane, sharpness_along, span_size
from engram.problem import Problem
from engram.simulation import simulate_arrays

_CURVATURE_WORK = 3e7  # cubes of the Hessian's size, in all, that are worth a request's time
_NAMED = 3  # tokens named as the cause of a spike, at most


def runs_part(
    state: State, problem: Problem, check: Callable[[], None]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Each run of a state: words and small numbers, and arrays whose names begin with its number."""
    start = make_start(state.start, problem).value
    about, arrays = [], {}
    for number, run in enumerate(state.runs):
        check()
        words, series = run_series(problem, run, state.steps, start, check)
        about.append(words)
        arrays |= {f"{number}.{name}": values for name, values in series.items()}
    return about, arrays


def run_series(
    problem: Problem, run: Run, steps: int, start: Any, check: Callable[[], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run, as `engram.simulate` computes it."""
    dynamics = make_dynamics(run, steps).value
    found = simulate_arrays(
        problem, dynamics, start=start, record=RECORD, key=run.seed if run.method == "sgd" else None,
        progress=lambda done, total: check(), **make_when(run.method, steps).value,
    )  # fmt: skip
    is_flow = isinstance(dynamics, GradientFlow)
    values = found.arrays()
    clock = values["time"] / run.rate if is_flow else values["step"].astype(float)
    step = lambda value: _step(value, run, is_flow)
    series = {"step": clock} | {name: values[name] for name in ("time", "loss", "error", "margins")}
    weights = values["weights"]
    if has_plane(problem):
        series["path"] = memory_plane(problem).coordinates(problem, weights)[0]
    at = _where_curved(span_size(problem), len(clock))
    finite = at[np.isfinite(weights[at]).all((1, 2))]
    series["sharpness_step"] = clock[finite]
    check()
    series["sharpness"] = sharpness_along(problem, weights[finite]) if len(finite) else np.zeros(0)
    words = {
        "status": found.attrs["status"],
        "status_text": found.attrs["status_text"],
        "ended_at": float(clock[-1]) if len(clock) else None,
        "num_spikes": int(values["num_spikes"]),
        "first_perfect": step(values["first_perfect"]),
        "perfect_from": step(values["perfect_from"]),
        "last_rise": step(values["last_rise"]),
        "thresholds": _thresholds(run, dynamics),
        "events": events_of(values, clock, step),
    }
    return words, series


def _where_curved(size: int, count: int) -> np.ndarray:
    """The records at which the sharpness is computed: all of them where the Hessian is small."""
    most = max(8, int(_CURVATURE_WORK / max(size, 1) ** 3))
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _thresholds(run: Run, dynamics: Any) -> list[list[float]]:
    """The sharpness beyond which the method is unstable on a quadratic, as [from step, value] pairs.

    Empty where it is not the sharpness of the loss itself that counts.
    """
    if run.method in ("gd", "sgd"):
        changes = [(0, run.rate), *((change.step, change.rate) for change in run.changes)]
        return [[float(step), 2 / rate] for step, rate in changes]
    if run.method in ("momentum", "nesterov"):
        return [[0.0, float(dynamics.optimizer.threshold(dynamics.optimizer.numbers))]]
    return []


def _step(value: Any, run: Run, is_flow: bool) -> float | None:
    value = float(value) / run.rate if is_flow else float(value)
    return value if np.isfinite(value) else None


Values = Mapping[str, np.ndarray]
Step = Callable[[Any], float | None]


def events_of(found: Values, clock: np.ndarray, step: Step) -> list[dict[str, Any]]:
    """Spikes, tokens forgotten and re-learnt, and perfect accuracy, in the order of their steps."""
    events = [*_spikes(found, clock, step), *_forgotten(found, step)]
    first, stays = step(found["first_perfect"]), step(found["perfect_from"])
    if first is not None:
        again = "" if stays == first else ", not yet for good"
        events.append(
            {"kind": "perfect", "step": first, "tokens": [], "text": f"all tokens recalled{again}"}
        )
    if stays is not None and stays != first:
        text = "all tokens recalled, from here on"
        events.append({"kind": "perfect", "step": stays, "tokens": [], "text": text})
    return sorted(events, key=lambda event: event["step"])


def _spikes(found: Values, clock: np.ndarray, step: Step) -> list[Any]:
    events = []
    for k in range(len(found["spike_step"])):
        begin, peak = step(found["spike_start"][k]), step(found["spike_step"][k])
        assert begin is not None
        assert peak is not None
        causes = spike_causes(found, clock, begin, peak)
        height = float(found["spike_height"][k])
        text = f"loss spike, {height:.3g} times the lowest loss before it"
        text += f"; {_names(causes)} behind it" if causes else ""
        events.append({"kind": "spike", "step": peak, "tokens": causes, "text": text})
    return events


def spike_causes(found: Values, clock: np.ndarray, begin: float, peak: float) -> list[int]:
    """The tokens that make up four fifths of a spike's rise, at most three; those that rise most first."""
    before = max(int(np.searchsorted(clock, begin)) - 1, 0)
    top = min(int(np.searchsorted(clock, peak)), len(clock) - 1)
    losses = found["probs"] * found["token_losses"]
    rise = np.maximum(losses[top] - losses[before], 0.0)
    if not np.isfinite(rise).all() or rise.sum() == 0:
        return []
    order = np.argsort(-rise, kind="stable")
    enough = int(np.searchsorted(np.cumsum(rise[order]), 0.8 * rise.sum())) + 1
    return order[: min(enough, _NAMED)].tolist()


def _forgotten(found: Values, step: Step) -> list[Any]:
    counts = found["num_forgotten"]
    grouped: dict[tuple[str, float], list[int]] = {}
    for token in np.flatnonzero(counts):
        first, last = step(found["first_forgotten"][token]), step(found["last_forgotten"][token])
        back = step(found["last_relearnt"][token])
        assert first is not None
        assert last is not None
        grouped.setdefault(("forgotten", first), []).append(int(token))
        if last != first:
            grouped.setdefault(("forgotten again, for the last time", last), []).append(int(token))
        if back is not None and back > last:
            grouped.setdefault(("re-learnt", back), []).append(int(token))
    events = []
    for (what, when), tokens in grouped.items():
        times = (
            f" ({counts[tokens].max()} times in all)"
            if what == "forgotten" and counts[tokens].max() > 1
            else ""
        )
        kind = "relearnt" if what == "re-learnt" else "forgotten"
        events.append(
            {
                "kind": kind,
                "step": when,
                "tokens": tokens,
                "text": f"{_names(tokens)} {what}{times}",
            }
        )
    return events


def _names(tokens: list[int]) -> str:
    shown = ", ".join(str(token + 1) for token in tokens[:6])
    more = f" and {len(tokens) - 6} more" if len(tokens) > 6 else ""
    return f"token{'s' if len(tokens) > 1 else ''} {shown}{more}"
