"""train: move the chosen matrices, note everything at each step, go on after a kill."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from engram._checks import InputError
from engram.dynamics import AbstractStepwise
from engram.transformer._config import Config
from engram.transformer._describe import describe
from engram.transformer._devices import wait_for_all
from engram.transformer._folder import Folder, to_toml
from engram.transformer._log import Log, Probes, entry_of
from engram.transformer._measured import Measured
from engram.transformer._model import Model
from engram.transformer._passes import Passes
from engram.transformer._prepare import fingerprint, prepare
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
            differ in the learning rate, to be run side by side.
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
    with jax.enable_x64(config.dtype == "float64"):
        job = _Job(config, runs, start, data, None if out is None else Folder(Path(out)))
        job.begin()
        with np.errstate(over="ignore", invalid="ignore"):  # found in the results, and told
            return job.run(progress, patience)


def _check(runs: list[Any]) -> None:
    if not runs:
        raise InputError("`dynamics` must not be empty. Give at least one.")
    for dynamics in runs:
        if not isinstance(dynamics, AbstractStepwise):
            raise InputError(
                f"`dynamics` must go in steps, got {type(dynamics).__name__}. Use GradientDescent, "
                "StochasticGradientDescent or PracticalDescent; for a flow, `engram.dynamics.run` on "
                "`engram.transformer.TransformerSystem`."
            )
        if getattr(dynamics, "layer_norm", False):
            raise InputError("`layer_norm` is not part of this transformer. Leave it out.")


class _Job:
    """One training: where it is, and how it goes on."""

    def __init__(
        self, config: Config, runs: list[Any], start: Any, data: Any, folder: Folder | None
    ):
        self.config, self.runs, self.folder = config, runs, folder
        self.steps = int(runs[0].num_steps)
        self.index = 0
        self.ended = np.full(len(runs), _GOES_ON)  # the last step of a run that is not finite
        self.saved = 0  # the step of the last checkpoint
        self.is_whole = False  # whether the last step is noted
        self.progress: Callable[[int, int], None] | None = None
        self.resumed = folder is not None and folder.is_begun
        tables = {"transformer": dataclasses.asdict(config), "dynamics": describe(runs)}
        if folder is not None and self.resumed:
            folder.check(tables)
            if start is None and data is None:
                start = folder.path / "start.npz"
        self.model, self.sequences = prepare(config, start, data)
        self.tables = tables | {"start": {"sha256": fingerprint(self.model, self.sequences)}}
        if folder is not None and self.resumed:
            folder.check(self.tables)
        rates = [describe([run]).get("learning_rate") for run in runs]
        rates = [rate if isinstance(rate, float) else np.nan for rate in rates]
        batch = getattr(runs[0], "batch_size", None)
        self.log = Log(config, self.model, self.sequences, rates, self.steps, batch_size=batch)

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
        self.inners = [run.init(system, state) for run, system in pairs]
        if self.folder is None:
            return
        if self.resumed:
            self._take_up(self.folder)
        wait_for_all("read")
        if jax.process_index() == 0:
            if self.resumed:
                self.folder.lengthen(self.tables, self._dataset())
            else:
                self.folder.begin(self.tables, self.model, self.sequences, self._dataset())

    def _take_up(self, folder: Folder) -> None:
        found = folder.newest()
        if found is None:
            return
        self.index, leaves, tail = found
        structure = jax.tree.structure(self.inners)
        *leaves, self.ended = leaves
        self.inners = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])
        self.log.put(0, folder.entries(self.index))
        self.log.put(folder.chunk_start(self.index), tail)
        known = self.log.values["loss"][min(self.index, self.steps)]
        self.is_whole = (
            self.index == self.steps and not np.isnan(known[self.ended == _GOES_ON]).any()
        )
        self.saved = self.index

    def _hear(self) -> None:
        if self.progress is not None:
            self.progress(self.index, self.steps)

    def run(self, progress: Any, patience: float) -> Training:
        """Go on to the last step; whatever comes in between, what is done is kept."""
        self.progress = progress
        if self.is_whole or (self.ended != _GOES_ON).all():
            return self._result()
        regression = None
        if self.is_regression:
            regression = Regression(self.passes, self._hear)
        probes = Probes(self.model, self.sequences)
        key, last = jax.random.key(self.config.seed), time.monotonic()
        try:
            while True:
                if regression is not None:
                    self._measure_all(regression)
                self._step(probes, key)
                if self.is_whole or (self.ended != _GOES_ON).all():
                    break
                self._hear()
                if time.monotonic() - last > patience:
                    self._save()
                    last = time.monotonic()
        finally:
            self._save()
        self._hear()
        return self._result()

    def _measure_all(self, regression: Regression) -> None:
        """Losses and gradients of all runs at once."""
        states = [run.state_of(inner) for run, inner in zip(self.runs, self.inners, strict=True)]
        stack = {"wo2": np.stack([np.asarray(state["wo2"]) for state in states])}
        found = regression.measure_all(stack)
        for k, (system, state) in enumerate(zip(self.systems, states, strict=True)):
            system.know(state, jax.tree.map(lambda part, k=k: part[k], found))

    def _step(self, probes: Probes, key: Any) -> None:
        """Note the state of each run, and move it, unless this was the last step."""
        moved, ended = list(self.inners), self.ended.copy()
        for k, (run, system) in enumerate(zip(self.runs, self.systems, strict=True)):
            if ended[k] != _GOES_ON:
                continue
            state = jax.tree.map(np.asarray, run.state_of(self.inners[k]))
            moved[k] = run.step(system, self.inners[k], jnp.asarray(self.index), key)
            self.log.note(self.index, k, entry_of(system.sums, probes, state))
            next_state = {} if self.index == self.steps else run.state_of(moved[k])
            if not _is_finite(system.sums, next_state):
                ended[k] = self.index
        self.ended = ended
        if self.index == self.steps:
            self.is_whole = True
            return
        self.inners = [
            new if end == _GOES_ON else old
            for new, old, end in zip(moved, self.inners, ended, strict=True)
        ]
        self.index += 1

    def _save(self) -> None:
        """Write all entries so far, then what it takes to go on."""
        if self.folder is None or jax.process_index() != 0:
            return
        first = self.folder.chunk_start(self.saved)
        end = self.index + self.is_whole
        if end == 0:
            return
        self.folder.append(first, self.log.cut(first, end), self._attrs())
        tail = self.log.cut(self.folder.chunk_start(self.index), end)
        self.folder.write_checkpoint(self.index, [*jax.tree.leaves(self.inners), self.ended], tail)
        self.saved = self.index

    def _attrs(self) -> dict[str, Any]:
        gone = self.ended != _GOES_ON
        status = "not finite" if gone.all() else "completed" if self.is_whole else "unfinished"
        attrs: dict[str, Any] = {"status": status, "stopped_at": int(min(self.index, self.steps))}
        if gone.any():
            attrs["not_finite_at"] = [int(step) if step != _GOES_ON else -1 for step in self.ended]
        return attrs

    def _dataset(self) -> xr.Dataset:
        return self.log.dataset(self._attrs() | {"config": to_toml(self.tables)})

    def _result(self) -> Training:
        pairs = zip(self.runs, self.inners, strict=True)
        states = [jax.tree.map(np.asarray, run.state_of(inner)) for run, inner in pairs]
        models = [self.model.replace(state) for state in states]
        return Training(self._dataset(), models, self.sequences)


def _is_finite(sums: Sums, state: dict[str, Any]) -> bool:
    parts = [sums.loss, *sums.grads.values(), *state.values()]
    return all(bool(np.isfinite(np.asarray(part)).all()) for part in parts)
