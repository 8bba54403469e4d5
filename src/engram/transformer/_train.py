"""train: move the chosen matrices, record everything at each step, resume after a kill."""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import engram
from engram._checks import InputError
from engram._precision import make_key, nan_is_a_result
from engram.dynamics import AbstractDynamics, AbstractStepwise
from engram.registry import table
from engram.simulation import drive
from engram.transformer._config import Config
from engram.transformer._devices import check_alike, lost_processes_reported
from engram.transformer._folder import Folder, to_toml
from engram.transformer._gradients import Sums
from engram.transformer._initial import fingerprint, prepare, sized
from engram.transformer._log import Probes, empty_log, hash_of
from engram.transformer._model import Model
from engram.transformer._passes import Passes
from engram.transformer._regression import Regression
from engram.transformer._system import MeasuredSystem
from engram.transformer._task import Sequences

_PATIENCE = 30.0  # seconds between checkpoints
_LONG = 2e10  # pairs of positions times width: with fewer, compiling the kernel takes longer than it saves
_STILL_FINITE = -1  # of a run whose numbers are finite


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

    def __repr__(self) -> str:
        steps = self.log.sizes["step"] - 1
        return f"Training(runs={len(self.models)}, steps={steps}, sequences={self.sequences!r})"


def train(
    config: Config,
    dynamics: AbstractDynamics | Sequence[AbstractDynamics],
    *,
    start: str | Path | None = None,
    data: str | Path | None = None,
    out: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    patience: float = _PATIENCE,
) -> Training:
    """Train a transformer on the bigram task, and record loss, accuracy and margins at each step.

    Works on all devices that JAX has, in this process or, after `jax.distributed.initialize`, in all
    processes, which then share `out`. If one of them ends, the others raise `ConnectionError`.

    Args:
        config: The model and the task.
        dynamics: Any stepwise dynamics, such as `GradientDescent(10, 100)`; or a list of them that
            differ in the learning rate, to be run side by side. An optax transformation of one's own has
            no name: when a folder is resumed, that it is the same is not checked.
        start: A .npz with weights (and perhaps sequences) to begin with, instead of drawing them.
        data: A .npz with sequences, instead of those of `start` or of the config.
        out: Folder to write to. If it holds this very training, that is resumed, also to more steps.
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
        stack.enter_context(_settings(config))
        stack.enter_context(lost_processes_reported())
        if folder is not None and jax.process_index() == 0:
            stack.enter_context(folder.locked())
        loop = _TrainingLoop(config, runs, start, data, folder, progress)
        if not loop.is_over:
            loop.warm_up()
            drive(loop, progress, patience=patience)
        return loop.result()


def replay(
    config: Config,
    dynamics: AbstractDynamics,
    steps: Collection[int],
    *,
    start: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[int, dict[str, np.ndarray]], np.ndarray]:
    """Train again as far as the last of some steps: the matrices at these, and the losses so far."""
    last = max(steps)
    with _settings(config):
        tell = None if progress is None else lambda done, _: progress(min(done, last), last)
        loop, states = _TrainingLoop(config, [dynamics], start, None, None, tell), {}
        loop.warm_up()
        while True:
            step = loop.place.step
            if step in steps:
                state = dynamics.state_of(loop.place.inners[0])
                states[step] = jax.tree.map(np.asarray, state)
            loop.move()
            if step == last or loop.is_over:
                return states, loop.entries["loss"][: step + 1, 0, 0]


@contextlib.contextmanager
def _settings(config: Config) -> Iterator[None]:
    """How a training computes: in its own precision, and overflow is found in the results."""
    with (
        jax.enable_x64(config.dtype == "float64"),
        nan_is_a_result(),
        np.errstate(over="ignore", invalid="ignore"),
    ):
        yield


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


def _work(config: Config, runs: list[Any]) -> float:
    """About how much a training computes: pairs of positions, of all steps, times the width."""
    looked_at = [getattr(run, "batch_size", None) or config.sequences for run in runs]
    sequences = sum(int(run.num_steps) * num for run, num in zip(runs, looked_at, strict=True))
    return float(sequences) * config.length**2 * config.dim


def _side_by_side(runs: list[Any]) -> dict[str, Any]:
    """One table for dynamics that differ in the learning rate alone, which is then a list."""
    first, *others = tables = [table(dynamics) for dynamics in runs]
    for other in others:
        unlike = [key for key in first.keys() | other if first.get(key) != other.get(key)]
        if set(unlike) - {"learning_rate"}:
            raise InputError(
                f"`dynamics` side by side must differ in the learning rate alone, got unlike "
                f"{', '.join(sorted(unlike))}. Train them one by one."
            )
    rates = [each.get("learning_rate") for each in tables]
    return first if len(runs) == 1 else first | {"learning_rate": rates}


class _Place(NamedTuple):
    """Where a training is; replaced as a whole, so that no signal can fall in between."""

    step: int  # updates made
    inners: Any  # what each run's dynamics carries
    ended: np.ndarray  # the last step of a run that is not finite any more, or _STILL_FINITE
    is_whole: bool = False  # whether the last step is recorded

    @property
    def recorded(self) -> int:
        """How many steps the log has entries of."""
        return self.step + self.is_whole


class _TrainingLoop:
    """One training: what it is made of, where it is, and how it moves."""

    def __init__(
        self,
        config: Config,
        runs: list[Any],
        start: str | Path | None,
        data: str | Path | None,
        folder: Folder | None,
        progress: Callable[[int, int], None] | None,
    ):
        self.runs, self.folder, self.progress = runs, folder, progress
        self.steps = int(runs[0].num_steps)
        self.key = make_key(config.seed)
        is_resumed = folder is not None and folder.is_begun
        is_from_file = start is not None or data is not None
        if folder is not None and is_resumed and not is_from_file:
            start = folder.start_path
        self.model, self.sequences = prepare(config, start, data)
        if is_from_file:
            config = sized(config, self.model, self.sequences)
        self.start = fingerprint(self.model, self.sequences)
        self.tables = {
            "transformer": dataclasses.asdict(config),
            "dynamics": _side_by_side(runs),
            "start": {"sha256": self.start},
        }
        if folder is not None and is_resumed:
            folder.check(self.tables)
        try:
            self.log = empty_log(self.model, self.sequences, config.matrices, runs)
        except MemoryError:
            raise InputError(
                f"`steps` must leave room for the log in memory, got {self.steps}. Choose fewer."
            ) from None
        # The same arrays, with an axis for runs also where there is one alone.
        shape = (self.steps + 1, len(runs), -1)
        self.entries = {name: each.values.reshape(shape) for name, each in self.log.items()}
        self.probes = Probes(self.model, self.sequences)
        is_whole_batch = not runs[0].needs_key
        self.is_regression = is_whole_batch and config.matrices == ("wo2",)
        self.regression: Regression | None = None
        self.passes = Passes(
            self.model,
            self.sequences,
            config.matrices,
            whole=is_whole_batch and not self.is_regression,
            compiled=_work(config, runs) > _LONG,
        )
        self.systems = [MeasuredSystem(self.passes, self._report) for _ in runs]
        state = {name: jnp.asarray(self.model[name]) for name in config.matrices}
        inners = [run.init_with(system, state, self.key) for run, system in self._pairs()]
        self.place = _Place(0, inners, np.full(len(runs), _STILL_FINITE))
        self.saved = 0  # the step of the last checkpoint
        if folder is not None:
            self._open(folder, is_resumed and self._resume(folder))

    def _pairs(self) -> Any:
        return zip(self.runs, self.systems, strict=True)

    def _open(self, folder: Folder, is_resumed: bool) -> None:
        """Make the folder, or room in it for all steps."""
        check_alike(f"{folder.path} is not the same for all processes", self.place.step)
        if jax.process_index() != 0:
            return
        if is_resumed:
            folder.lengthen(self.tables, self._labelled())
            self._write_log(folder)  # again, in case the last chunk was damaged
        else:
            folder.begin(self.tables, self.model, self.sequences, self._labelled())

    def _resume(self, folder: Folder) -> bool:
        """Go to the newest checkpoint that fits this training; say whether there is one."""
        for arrays in folder.checkpoints():
            place = self._place_in(arrays)
            if place is not None:
                break
        else:
            if folder.has_checkpoints:
                raise InputError(
                    f"{folder.path} has no checkpoint that can be used: they are damaged, or were written "
                    "by another optimizer or version. Use the earlier version, or name another folder."
                )
            return False
        first = folder.chunk_start(place.step)
        stored = folder.read(first)
        if hash_of(stored) != arrays["log"]:
            raise InputError(
                f"{folder.log_path} does not hold what was recorded: entries before step {first} are lost "
                f"or changed. Move {folder.path} away and train again."
            )
        for name, array in self.log.data_vars.items():
            tail = arrays[f"tail_{name}"]
            array.values[:first] = stored[name].values
            array.values[first : first + len(tail)] = tail
        self.place, self.saved = place, place.step
        return True

    def _arrays(self, place: _Place) -> dict[str, np.ndarray]:
        """What a checkpoint holds: what each dynamics carries, and the log's last chunk."""
        first = Folder.chunk_start(place.step)
        whole, tail = (
            self.log.isel(step=part) for part in (slice(first), slice(first, place.recorded))
        )
        arrays = {"start": self.start, "step": place.step, "log": hash_of(whole)}
        leaves = jax.tree.leaves((place.inners, place.ended))
        arrays |= {f"leaf_{k}": leaf for k, leaf in enumerate(leaves)}
        arrays |= {f"tail_{name}": array for name, array in tail.data_vars.items()}
        return {name: np.asarray(array) for name, array in arrays.items()}

    def _place_in(self, arrays: dict[str, np.ndarray]) -> _Place | None:
        """Where a checkpoint is, if it has the form of one of this training, and finite weights."""
        step = int(arrays["step"])
        if not 0 <= step <= self.steps or arrays.get("start") != self.start:
            return None
        form = lambda arrays: {name: (each.shape, each.dtype) for name, each in arrays.items()}
        for is_whole in (False, True):
            place = self.place._replace(step=step, is_whole=is_whole)
            if form(arrays) == form(self._arrays(place)):
                break
        else:
            return None
        leaves, structure = jax.tree.flatten((place.inners, place.ended))
        *leaves, ended = [arrays[f"leaf_{k}"] for k in range(len(leaves))]
        inners, _ = jax.tree.unflatten(structure, [*map(jnp.asarray, leaves), ended])
        states = [run.state_of(inner) for run, inner in zip(self.runs, inners, strict=True)]
        going = [state for state, end in zip(states, ended, strict=True) if end == _STILL_FINITE]
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(going)):
            return None
        return _Place(step, inners, ended, is_whole=is_whole and step == self.steps)

    @property
    def is_over(self) -> bool:
        return self.place.is_whole or bool((self.place.ended != _STILL_FINITE).all())

    @property
    def so_far(self) -> tuple[int, int]:
        return self.place.step, self.steps

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(*self.so_far)

    def warm_up(self) -> None:
        """Compute what all steps share."""
        if self.is_regression:
            self.regression = Regression(self.passes, self._report)
        self._report()

    def move(self) -> None:
        """Record the state of each run, and move it, unless this was the last step."""
        index, inners, ended, _ = self.place
        inners, ended, is_last = list(inners), ended.copy(), index == self.steps
        states = [run.state_of(inner) for run, inner in zip(self.runs, inners, strict=True)]
        if self.regression is not None:  # all runs at once
            stack = {"wo2": np.stack([np.asarray(state["wo2"]) for state in states])}
            all_sums = self.regression.measure_all(stack)
            for k, (system, state) in enumerate(zip(self.systems, states, strict=True)):
                system.remember(state, jax.tree.map(lambda part, k=k: part[k], all_sums))
        for k, (run, system) in enumerate(self._pairs()):
            if ended[k] != _STILL_FINITE:
                continue
            moved = run.step(system, inners[k], jnp.asarray(index), self.key)
            entry = self.probes.entry(system.sums, jax.tree.map(np.asarray, states[k]))
            for name, value in entry.items():
                self.entries[name][index, k] = value
            if not _is_finite(system.sums, {} if is_last else run.state_of(moved)):
                ended[k] = index
            elif not is_last:
                inners[k] = moved
        self.place = _Place(index + (not is_last), inners, ended, is_whole=is_last)

    def save(self) -> None:
        """Write all entries so far, then what it takes to resume."""
        place = self.place
        if self.folder is None or jax.process_index() != 0 or place.recorded == 0:
            return
        self._write_log(self.folder)
        self.folder.write_checkpoint(place.step, self._arrays(place))
        self.saved = place.step

    def _write_log(self, folder: Folder) -> None:
        if self.place.recorded > 0:
            folder.append(self._labelled(), self.saved, self.place.recorded)

    def _labelled(self) -> xr.Dataset:
        """The log, with how the training is going."""
        index, _, ended, is_whole = self.place
        gone = ended != _STILL_FINITE
        status = "not finite" if gone.all() else "completed" if is_whole else "unfinished"
        attrs: dict[str, Any] = {
            "kind": "training",
            "engram": engram.__version__,
            "status": status,
            "stopped_at": index,
        }
        if gone.any():
            attrs["not_finite_at"] = [int(step) for step in ended]
        attrs |= {"devices": jax.device_count(), "config": to_toml(self.tables)}
        recorded = self.place.recorded
        attrs |= {"recorded": recorded, "sha256": hash_of(self.log.isel(step=slice(recorded)))}
        return self.log.assign_attrs(attrs)

    def result(self) -> Training:
        pairs = zip(self.runs, self.place.inners, strict=True)
        states = [jax.tree.map(np.asarray, run.state_of(inner)) for run, inner in pairs]
        models = [self.model.replace(state) for state in states]
        return Training(self._labelled(), models, self.sequences)


def _is_finite(sums: Sums, state: dict[str, Any]) -> bool:
    parts = [sums.loss, *sums.grads.values(), *state.values()]
    return all(bool(np.isfinite(np.asarray(part)).all()) for part in parts)
