"""train: move the chosen matrices, note everything at each step, go on after a kill."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from engram._checks import InputError
from engram._precision import nan_is_a_result
from engram.dynamics import AbstractStepwise
from engram.registry import table
from engram.simulation import drive
from engram.transformer._config import Config
from engram.transformer._devices import check_alike
from engram.transformer._folder import Checkpoint, Folder, to_toml
from engram.transformer._log import Log, Probes, entry_of
from engram.transformer._measured import Measured
from engram.transformer._model import Model
from engram.transformer._passes import Passes
from engram.transformer._prepare import fingerprint, prepare, sized
from engram.transformer._regression import Regression
from engram.transformer._sums import Sums
from engram.transformer._task import Sequences

_PATIENCE = 30.0  # seconds between checkpoints
_GOES_ON = -1  # of a run whose numbers are finite


class Training(NamedTuple):
    """What came out.

    Args:
        log: Loss, accuracy, gradient norms and margins by step; its attributes say how it ended.
        models: At the end, one for each run.
        sequences: The data.
    """

    log: xr.Dataset
    models: list[Model]
    sequences: Sequences

    @property
    def model(self) -> Model:
        """The model at the end; of several runs, the first."""
        return self.models[0]


def train(
    config: Config,
    dynamics: Any,
    *,
    start: str | Path | None = None,
    data: str | Path | None = None,
    out: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    patience: float = _PATIENCE,
) -> Training:
    """Train a transformer on the bigram task, and note loss, accuracy and margins at each step.

    Works on all devices that JAX has, in this process or, after `jax.distributed.initialize`, in all
    processes, which then share `out`.

    Args:
        config: The model and the task.
        dynamics: Any stepwise dynamics, such as `GradientDescent(10, 100)`; or a list of them that
            differ in the learning rate, to be run side by side. An optax transformation of one's own has
            no name: when a folder is gone on with, that it is the same is not checked.
        start: A .npz with weights (and perhaps sequences) to begin with, instead of drawing them.
        data: A .npz with sequences, instead of those of `start` or of the config.
        out: Folder to write to. If it holds this very training, that is continued, also to more steps.
        progress: Called with the number of steps done, and of all.
        patience: Seconds between checkpoints.

    Returns:
        The log (entry 0 is the start; with mini-batches loss, accuracy and gradients are of each
        step's batch), the models at the end, and the sequences.

    Paper: sub:transformer, sub:appx_transformer, fig:transformer.
    """
    runs = list(dynamics) if isinstance(dynamics, Sequence) else [dynamics]
    _check(runs)
    folder = None if out is None else Folder(Path(out))
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(config.dtype == "float64"))
        stack.enter_context(nan_is_a_result())
        if folder is not None and jax.process_index() == 0:
            stack.enter_context(folder.locked())
        # Overflow is found in the results, and told.
        stack.enter_context(np.errstate(over="ignore", invalid="ignore"))
        job = _Job(config, runs, start, data, folder)
        job.begin()
        return job.run(progress, patience)


def _tables(config: Config, runs: list[Any]) -> dict[str, Any]:
    return {"transformer": dataclasses.asdict(config), "dynamics": _side_by_side(runs)}


def _side_by_side(runs: list[Any]) -> dict[str, Any]:
    """One table for dynamics that differ in the learning rate alone, which is then a list."""
    tables = [table(dynamics) for dynamics in runs]
    first = tables[0]
    for other in tables[1:]:
        unlike = [key for key in first.keys() | other if first.get(key) != other.get(key)]
        if set(unlike) - {"learning_rate"}:
            raise InputError(
                f"`dynamics` side by side must differ in the learning rate alone, got unlike "
                f"{', '.join(sorted(unlike))}. Train them one by one."
            )
    rates = [each.get("learning_rate") for each in tables]
    return first if len(runs) == 1 else first | {"learning_rate": rates}


def _check(runs: list[Any]) -> None:
    if not runs:
        raise InputError("`dynamics` must not be empty. Give at least one.")
    for dynamics in runs:
        if not isinstance(dynamics, AbstractStepwise) or dynamics.counts_time:
            raise InputError(
                f"`dynamics` must go in steps, got {type(dynamics).__name__}. Use GradientDescent, "
                "StochasticGradientDescent or PracticalDescent; for a flow, `engram.dynamics.run` on "
                "`engram.transformer.TransformerSystem`."
            )


class _Place(NamedTuple):
    """Where a training is; replaced as a whole, so that no signal can fall in between."""

    step: int  # updates made
    inners: Any  # what each run's dynamics carries
    ended: np.ndarray  # the last step of a run that is not finite any more, or _GOES_ON
    is_whole: bool = False  # whether the last step is noted


class _Job:
    """One training: where it is, and how it goes on."""

    def __init__(
        self, config: Config, runs: list[Any], start: Any, data: Any, folder: Folder | None
    ):
        self.runs, self.folder = runs, folder
        self.steps = int(runs[0].num_steps)
        self.saved = 0  # the step of the last checkpoint
        self.progress: Callable[[int, int], None] | None = None
        self.regression: Regression | None = None
        self.key = jax.random.key(config.seed)
        self.resumed = folder is not None and folder.is_begun
        is_from_file = start is not None or data is not None
        if folder is not None and self.resumed and not is_from_file:
            folder.check(_tables(config, runs))
            start = folder.path / "start.npz"
            if not start.exists():
                raise InputError(f"{start} is gone. Move {folder.path} away and train again.")
        self.model, self.sequences = prepare(config, start, data)
        self.config = sized(config, self.model, self.sequences) if is_from_file else config
        self.start = fingerprint(self.model, self.sequences)
        self.tables = _tables(self.config, runs) | {"start": {"sha256": self.start}}
        if folder is not None and self.resumed:
            folder.check(self.tables)
        rates = [table(run).get("learning_rate") for run in runs]
        rates = [rate if isinstance(rate, float) else np.nan for rate in rates]
        batch = getattr(runs[0], "batch_size", None)
        try:
            self.log = Log(config, self.model, self.sequences, rates, self.steps, batch_size=batch)
        except MemoryError:
            raise InputError(
                f"`steps` must leave room for the log in memory, got {self.steps}. Choose fewer."
            ) from None
        self.probes = Probes(self.model, self.sequences)

    def begin(self) -> None:
        """Take up what the folder holds, or make it."""
        state = {name: jnp.asarray(self.model[name]) for name in self.config.matrices}
        is_whole_batch = not self.runs[0].needs_key
        self.is_regression = is_whole_batch and self.config.matrices == ("wo2",)
        self.passes = Passes(
            self.model,
            self.sequences,
            self.config.matrices,
            whole=is_whole_batch and not self.is_regression,
        )
        self.systems = [Measured(self.passes, self._hear) for _ in self.runs]
        pairs = zip(self.runs, self.systems, strict=True)
        key = jax.random.key(self.config.seed)
        inners = [run.init_with(system, state, key) for run, system in pairs]
        self.place = _Place(0, inners, np.full(len(self.runs), _GOES_ON))
        if self.folder is None:
            return
        taken_up = self.resumed and self._take_up(self.folder)
        check_alike(f"{self.folder.path} is not the same for all processes", self.place.step)
        if jax.process_index() == 0:
            if taken_up:
                self.folder.lengthen(self.tables, self._dataset())
            else:
                self.folder.begin(self.tables, self.model, self.sequences, self._dataset())

    def _take_up(self, folder: Folder) -> bool:
        """Go to the newest checkpoint that fits this training; say whether there is one."""
        found = next(filter(self._fits, folder.checkpoints(self.start)), None)
        if found is None:
            if folder.has_checkpoints:
                raise InputError(
                    f"{folder.path} has no checkpoint that can be used: they are damaged, or were written "
                    "by another optimizer. Take the old one, or name another folder."
                )
            return False
        index, leaves, ended, tail = found
        self.place = _Place(index, self._inners(leaves), ended)
        entries = folder.entries(index)
        first = folder.chunk_start(index)
        if not _alike(entries, self.log.cut(0, first)):
            raise InputError(
                f"{folder.log_path} does not hold what is noted of this training. Move {folder.path} away "
                "and train again."
            )
        self.log.put(0, entries)
        self.log.put(first, tail)
        goes_on = ended == _GOES_ON
        if np.isnan(self.log.values["loss"][:index, goes_on]).any():
            raise InputError(
                f"{folder.log_path} has lost entries before step {index}. Move {folder.path} away and "
                "train again."
            )
        last = self.log.values["loss"][index, goes_on]
        is_whole = index == self.steps and not np.isnan(last).any()
        self.place, self.saved = self.place._replace(is_whole=is_whole), index
        return True

    def _inners(self, leaves: list[np.ndarray]) -> Any:
        """What each run's dynamics carries, from its leaves."""
        structure = jax.tree.structure(self.place.inners)
        return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])

    def _fits(self, found: Checkpoint) -> bool:
        """Whether a checkpoint has the form and the place of one of this training, and finite weights."""
        if not 0 <= found.step <= self.steps:
            return False
        first, old = Folder.chunk_start(found.step), jax.tree.leaves(self.place.inners)
        tails = [self.log.cut(first, end) for end in (found.step, found.step + 1)]
        are_alike = (
            _alike(dict(enumerate(found.leaves)), dict(enumerate(old)))
            and _alike({"ended": found.ended}, {"ended": self.place.ended})
            and any(_alike(found.tail, tail) for tail in tails)
        )
        if not are_alike:
            return False
        pairs = zip(self.runs, self._inners(found.leaves), found.ended, strict=True)
        states = [run.state_of(inner) for run, inner, end in pairs if end == _GOES_ON]
        return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(states))

    @property
    def is_over(self) -> bool:
        return self.place.is_whole or bool((self.place.ended != _GOES_ON).all())

    @property
    def so_far(self) -> tuple[int, int]:
        return self.place.step, self.steps

    def _hear(self) -> None:
        if self.progress is not None:
            self.progress(*self.so_far)

    def run(self, progress: Any, patience: float) -> Training:
        """Go on to the last step; whatever comes in between, what is done is kept."""
        self.progress = progress
        if self.is_over:
            return self._result()
        if self.is_regression:
            self.regression = Regression(self.passes, self._hear)
        self._hear()
        drive(self, progress, patience=patience)
        return self._result()

    def move(self) -> None:
        """One step of each run."""
        if self.regression is not None:
            self._measure_all(self.regression)
        self.place = self._step(self.place)

    def _measure_all(self, regression: Regression) -> None:
        """Losses and gradients of all runs at once."""
        states = [
            run.state_of(inner) for run, inner in zip(self.runs, self.place.inners, strict=True)
        ]
        stack = {"wo2": np.stack([np.asarray(state["wo2"]) for state in states])}
        found = regression.measure_all(stack)
        for k, (system, state) in enumerate(zip(self.systems, states, strict=True)):
            system.know(state, jax.tree.map(lambda part, k=k: part[k], found))

    def _step(self, place: _Place) -> _Place:
        """Note the state of each run, and move it, unless this was the last step."""
        index, inners, ended = place.step, list(place.inners), place.ended.copy()
        for k, (run, system) in enumerate(zip(self.runs, self.systems, strict=True)):
            if ended[k] != _GOES_ON:
                continue
            state = jax.tree.map(np.asarray, run.state_of(inners[k]))
            moved = run.step(system, inners[k], jnp.asarray(index), self.key)
            self.log.note(index, k, entry_of(system.sums, self.probes, state))
            is_last = index == self.steps
            if not _is_finite(system.sums, {} if is_last else run.state_of(moved)):
                ended[k] = index
            elif not is_last:
                inners[k] = moved
        if index == self.steps:
            return _Place(index, place.inners, ended, is_whole=True)
        return _Place(index + 1, inners, ended)

    def save(self) -> None:
        """Write all entries so far, then what it takes to go on."""
        if self.folder is None or jax.process_index() != 0:
            return
        place, first = self.place, self.folder.chunk_start(self.saved)
        end = place.step + place.is_whole
        if end == 0:
            return
        self.folder.append(first, self.log.cut(first, end), self._attrs())
        tail = self.log.cut(self.folder.chunk_start(place.step), end)
        leaves = [*jax.tree.leaves(place.inners), place.ended]
        self.folder.write_checkpoint(place.step, self.start, leaves, tail)
        self.saved = place.step

    def _attrs(self) -> dict[str, Any]:
        index, _, ended, is_whole = self.place
        gone = ended != _GOES_ON
        status = "not finite" if gone.all() else "completed" if is_whole else "unfinished"
        attrs: dict[str, Any] = {"status": status, "stopped_at": index}
        if gone.any():
            attrs["not_finite_at"] = [int(step) for step in ended]
        return attrs | {"devices": jax.device_count()}

    def _dataset(self) -> xr.Dataset:
        return self.log.dataset(self._attrs() | {"config": to_toml(self.tables)})

    def _result(self) -> Training:
        pairs = zip(self.runs, self.place.inners, strict=True)
        states = [jax.tree.map(np.asarray, run.state_of(inner)) for run, inner in pairs]
        models = [self.model.replace(state) for state in states]
        return Training(self._dataset(), models, self.sequences)


def _is_finite(sums: Sums, state: dict[str, Any]) -> bool:
    parts = [sums.loss, *sums.grads.values(), *state.values()]
    return all(bool(np.isfinite(np.asarray(part)).all()) for part in parts)


def _alike(found: dict[Any, Any], wanted: dict[Any, Any]) -> bool:
    """Whether two dictionaries hold arrays of the same names, shapes and types."""
    form = lambda arrays: {
        name: (np.shape(each), np.asarray(each).dtype) for name, each in arrays.items()
    }
    return form(found) == form(wanted)
