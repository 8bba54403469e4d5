"""explain: which matrices made each spike of a training, which triggers carried it; when memories form."""

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from engram._checks import InputError, check_count
from engram.diagnosis import as_html, as_text
from engram.observables import Events, events_of_series
from engram.registry import make
from engram.system import Look
from engram.transformer._config import Config
from engram.transformer._contributions import contributions
from engram.transformer._folder import open_log
from engram.transformer._initial import fingerprint, prepare
from engram.transformer._task import Sequences, bigram_task, law_of
from engram.transformer._train import Training, replay

MEMORIES = {"wo2": "wo2", "wk2": "wk2", "wk1": "wk1_causal"}  # and whose margins say when it forms
_MOST_STATES = 20  # of a spike that are looked at
_SHARES = (0.5, 0.9)


@dataclass(frozen=True)
class TrainingSpike:
    """One spike in the loss of a training.

    Args:
        first: The last step before the excursion.
        peak: Where the loss is highest.
        end: Where it has returned; NaN if it has not.
        height: The loss at the peak over the running minimum.
        loss_before: The loss at `first`, as recorded.
        loss_peak: The loss at the peak, as recorded.
        parts: What `contributions` says of the way from `first` to the peak.
    """

    first: float
    peak: float
    end: float
    height: float
    loss_before: float
    loss_peak: float
    parts: xr.Dataset


@dataclass(frozen=True)
class TrainingExplanation:
    """What happened at the spikes of a training, and when its memories formed; printed, it says so in words.

    Args:
        spikes: Those explained, in the order of steps.
        num_spikes: How many there were.
        formed: What `formation` says.
        log: The log of the run.
        names: What the tokens are called.
        batch: Sequences in each step's batch; None if all of them.
        deviation: How far losses came out from those recorded when the training was repeated.
        sample: Over how many sequences the parts are; None if over all.
    """

    spikes: tuple[TrainingSpike, ...]
    num_spikes: int
    formed: xr.Dataset
    log: xr.Dataset
    names: list[str]
    batch: int | None
    deviation: float
    sample: int | None = None

    def __str__(self) -> str:
        from engram.transformer._explained import paragraphs

        return as_text(paragraphs(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from engram.transformer._explained import paragraphs

        return as_html(paragraphs(self), self.plot(self.highest))

    @property
    def highest(self) -> int:
        """The place of the highest spike among those explained."""
        return int(np.argmax([spike.height for spike in self.spikes])) if self.spikes else 0

    def plot(self, spike: int = 0) -> Figure:
        """The loss, which matrices moved it, who carried it, and when memories form, as a Figure."""
        from engram.transformer._explained import draw

        return draw(self, spike)

    def write_page(self, path: str | Path, title: str) -> None:
        """Write all of it to a file, FILE.html, with nothing outside it."""
        from engram.transformer._explained import write

        write(self, path, title)


def explain(
    training: Training | str | Path,
    *,
    run: int | None = None,
    most: int = 3,
    sample: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TrainingExplanation:
    """Say of each spike in the loss of a training what each matrix did, and which triggers carried it.

    The training is repeated up to the last spike explained, since no folder holds the weights of each step.
    From the last step before the loss left its running minimum to the peak, its change is divided among the
    trained matrices and among the triggers and outputs at which it is measured.

    Args:
        training: What `train` returned, or its folder.
        run: Which one, of several side by side; by default the one with the highest spike.
        most: Explain so many of the highest spikes.
        sample: Divide the change of the loss over so many of the sequences, evenly spread, which takes less
            time; by default over all.
        progress: Called with the number of steps repeated, and of all.
    """
    most = check_count("most", most)
    log, start = (training.log, None) if isinstance(training, Training) else _opened(training)
    config, about, known = _settings_of(log)
    model, sequences = _begin(config, start, known)
    which = _which(log, run)
    log = log.isel(run=which) if "run" in log.dims else log
    spikes, total = _spikes(log.loss.values, most)
    ways = [_states_between(int(s["first"]), int(s["step"])) for s in spikes]
    parts, deviation = [], 0.0
    if spikes:
        wanted = {step for way in ways for step in way}
        dynamics = _dynamics(about, which)
        states, losses = replay(config, dynamics, wanted, start=start, progress=progress)
        deviation = float(np.nanmax(np.abs(losses - log.loss.values[: len(losses)])))
        some = _some_of(sequences, sample)
        parts = [contributions(model, some, [states[step] for step in way]) for way in ways]
    told = [
        TrainingSpike(
            first=spike["first"],
            peak=spike["step"],
            end=spike["end"],
            height=spike["height"],
            loss_before=float(log.loss[int(spike["first"])]),
            loss_peak=float(log.loss[int(spike["step"])]),
            parts=part,
        )
        for spike, part in zip(spikes, parts, strict=True)
    ]
    batch = about.get("batch_size")
    names = _names(config, sequences)
    formed = formation(log)
    return TrainingExplanation(tuple(told), total, formed, log, names, batch, deviation, sample)


def formation(log: xr.Dataset) -> xr.Dataset:
    """When each memory forms: the first step from which its margin stays positive; NaN where it does not.

    Args:
        log: The log of one training.

    Returns:
        `wo2`, `wk2` and `wk1` by memory (W_K^1 among the positions that attention sees), and `from_50` and
        `from_90`: from which step on that share of the memories of each matrix is recalled.
    """
    variables: dict[str, Any] = {}
    lasting = {name: [] for name in _SHARES}
    for name, margins in MEMORIES.items():
        values = log[f"margins_{margins}"]
        is_right = values.values[np.isfinite(log.loss.values)] > 0
        steps = log.step.values[: len(is_right)]
        about = {"long_name": f"step from which the margin of {name} stays positive"}
        variables[name] = (values.dims[-1], _from_when(steps, is_right), about)
        for share, found in lasting.items():
            found.append(float(_from_when(steps, is_right.mean(axis=1, keepdims=True) >= share)[0]))
    for share, found in lasting.items():
        about = {"long_name": f"step from which {share:.0%} of the memories are recalled"}
        variables[f"from_{share * 100:.0f}"] = ("matrix", found, about)
    coords = {axis: log[axis] for axis in ("token", "trigger", "position")}
    return xr.Dataset(variables, coords | {"matrix": list(MEMORIES)}, {"kind": "formation"})


def _from_when(steps: np.ndarray, holds: np.ndarray) -> np.ndarray:
    """The step from which on each column holds; NaN if it does not at the end."""
    begins = len(holds) - np.logical_and.accumulate(holds[::-1]).sum(axis=0)
    found = np.append(steps, np.nan)[begins]
    return found.astype(float)


def _settings_of(log: xr.Dataset) -> tuple[Config, dict[str, Any], str]:
    """The config, the table of the dynamics, and the fingerprint of the start, as a log says them."""
    try:
        tables = tomllib.loads(log.attrs["config"])
        about, known = dict(tables["dynamics"]), str(tables["start"]["sha256"])
        return Config(**tables["transformer"]), about, known
    except (KeyError, TypeError, ValueError) as error:  # InputError among them
        said = " ".join(str(error).split())[:100]
        raise InputError(
            f"`training` must have a log that says how it was made, and its `config` is not one ({said}). "
            "Train again."
        ) from None


def _opened(folder: str | Path) -> tuple[xr.Dataset, Path]:
    folder = Path(folder)
    log = open_log(folder)
    if not (folder / "start.npz").is_file():
        raise InputError(
            f"{folder} lacks start.npz, from which its training is repeated. Restore it, or train again."
        )
    return log, folder / "start.npz"


def _begin(config: Config, start: Path | None, known: str) -> Any:
    model, sequences = prepare(config, start)
    if fingerprint(model, sequences) != known:
        raise InputError(
            "`training` must say where it began, and this one began from a file. Train into a folder, and "
            "give the folder."
            if start is None
            else f"{start} does not hold the weights and sequences that the training began from. Restore it."
        )
    return model, sequences


def _dynamics(about: dict[str, Any], run: int) -> Any:
    """The dynamics of one run, from the table of all."""
    rate = about.get("learning_rate")
    about = about if not isinstance(rate, list) else about | {"learning_rate": rate[run]}
    try:
        return make("dynamics", about)
    except (InputError, TypeError, KeyError):
        raise InputError(
            f"`training` must have dynamics that can be named, got {json.dumps(about)}. Register an "
            "optimizer of your own, and train again."
        ) from None


def _which(log: xr.Dataset, run: int | None) -> int:
    if "run" not in log.dims:
        return 0
    count = log.sizes["run"]
    if run is not None and not 0 <= run < count:
        raise InputError(f"`run` must be one of the {count} runs, from 0, got {run}.")
    if run is not None:
        return run
    heights = [max((s["height"] for s in _spikes(x.values, 1)[0]), default=0.0) for x in log.loss.T]
    return int(np.argmax(heights))


def _spikes(loss: np.ndarray, most: int) -> tuple[list[dict[str, float]], int]:
    """The highest spikes of a loss in the order of steps, and how many there are in all."""
    finite = np.isfinite(loss)
    loss = np.asarray(loss[: len(loss) if finite.all() else int(np.argmin(finite))], float)
    if not len(loss):
        return [], 0
    events = Events(parts=("losses",))
    known = events.describe(events_of_series(events, Look(loss)), len(loss) - 1)
    table = {name: known[f"spike_{name}"][1] for name in ("start", "step", "end", "height")}
    chosen = np.sort(np.argsort(-table["height"], kind="stable")[:most])
    rows = [{name: float(column[k]) for name, column in table.items()} for k in chosen]
    return [row | {"first": row["start"] - 1} for row in rows], len(table["start"])


def _states_between(first: int, last: int) -> list[int]:
    """All steps from one to another, or, of many, some."""
    count = min(last - first, _MOST_STATES) + 1
    return np.unique(np.linspace(first, last, count).round().astype(int)).tolist()


def _some_of(sequences: Sequences, count: int | None) -> Sequences:
    """As many of the sequences as are wanted in which the loss looks somewhere, evenly spread."""
    if count is None:
        return sequences
    asked = np.flatnonzero(sequences.in_loss.any(axis=1))
    places = np.linspace(0, len(asked) - 1, min(check_count("sample", count), len(asked)))
    rows = asked[places.round().astype(int)]
    return Sequences(
        sequences.tokens[rows],
        sequences.occurrences[rows],
        sequences.triggers[rows],
        sequences.num_tokens,
    )


def _names(config: Config, sequences: Sequences) -> list[str]:
    """The characters of the corpus, if the sequences were drawn from it; otherwise numbers."""
    try:
        if np.array_equal(bigram_task(config).tokens, sequences.tokens):
            return [repr(token) for token in law_of(config).tokens]
    except (InputError, OSError):  # the corpus has moved
        pass
    return [str(k) for k in range(sequences.num_tokens)]
