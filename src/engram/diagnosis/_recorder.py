"""Recorder: one line in anybody's training loop; and the same for checkpoints that exist already."""

import atexit
import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from engram._checks import InputError, brief, check_ndim, is_traced, read_array
from engram._types import ArrayLike, NamesLike
from engram.diagnosis._recording import dataset_of
from engram.diagnosis._records import Records, create_records, open_records, shapes_of
from engram.problem import Problem, uniform


class Recorder:
    """Records the weights of a memory within any training loop, into a Zarr store.

    A loop calls `record(step, weight)` as often as it likes. Weights may be PyTorch tensors (bfloat16 and
    half, too, on any device, with or without gradients), JAX, NumPy or Keras arrays; none of these libraries
    is imported. Recording only stores. What happened is computed afterwards, by `dataset()`.

    Each record is whole or absent: a process that is killed loses at most the one that it was writing. To
    resume, make a recorder for the same store: `last_step` says how far it got. Steps that the resumed loop
    makes again replace those recorded before; a loop that starts again needs `overwrite=True` for that.

    Args:
        inputs: Input embeddings, one row per token, shape (N, d).
        outputs: Output embeddings, one row per class, shape (M, k).
        targets: The class of each token, N integers; or a table of p(y|x), shape (N, M).
        probs: How often each token comes; by default all alike.
        store: A folder, `NAME.zarr`, new or one that this memory was recorded to before. By default a
            temporary one, which is removed when the process ends.
        names: What the tokens are called.
        class_names: What the classes are called.
        overwrite: Whether a loop that starts again, at the first step of the store or before, may replace all
            that was recorded of the same memory. By default it is refused.
    """

    def __init__(
        self,
        inputs: ArrayLike,
        outputs: ArrayLike,
        targets: ArrayLike,
        probs: ArrayLike | None = None,
        *,
        store: str | os.PathLike[str] | None = None,
        names: NamesLike | None = None,
        class_names: NamesLike | None = None,
        overwrite: bool = False,
    ):
        E = read_array("inputs", inputs)
        check_ndim("inputs", E, ndim=2, axes="(N, d)")
        probs = uniform(len(E)) if probs is None else probs
        problem = Problem(E, outputs, probs, targets, names=names, class_names=class_names)
        self._begin(problem, store, overwrite)

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        store: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> "Recorder":
        """A recorder for a problem that there is already, as `Problem.from_embeddings` makes one."""
        recorder = cls.__new__(cls)
        recorder._begin(problem, store, overwrite)
        return recorder

    def _begin(self, problem: Problem, store: Any, overwrite: bool) -> None:
        path = _temporary_store() if store is None else Path(store)
        if path.is_dir() and any(path.iterdir()):
            records = open_records(path)
            _check_same(records, problem)
        elif path.exists() and not path.is_dir():
            raise InputError(f"`store` must be a folder, got the file {path}. Name another one.")
        else:
            records = create_records(path, problem)
        records.lock()
        weakref.finalize(self, records.close)
        self._records, self._steps = records, records.numbers()["step"]
        self._is_resuming, self._may_overwrite = bool(records.count), overwrite
        self._is_closed = False

    @property
    def path(self) -> Path:
        """Where the records are."""
        return self._records.path

    @property
    def problem(self) -> Problem:
        """What is to be remembered, with the embeddings that recording began with."""
        return self._records.problem

    @property
    def num_records(self) -> int:
        """How many records there are."""
        return self._records.count

    @property
    def last_step(self) -> int | None:
        """The step of the last record; None if there is none."""
        return int(self._steps[self.num_records - 1]) if self.num_records else None

    def record(
        self,
        step: int,
        weight: ArrayLike,
        *,
        loss: ArrayLike | None = None,
        grad: ArrayLike | None = None,
        learning_rate: ArrayLike | None = None,
        inputs: ArrayLike | None = None,
        outputs: ArrayLike | None = None,
    ) -> None:
        """Store the weights of a step.

        Args:
            step: How many updates were made; larger than that of the record before.
            weight: W, shape (k, d): it acts on columns, W e_x, as the weight of a `torch.nn.Linear` does.
            loss: The loss of the loop itself, if that is of interest beside the memory's own.
            grad: The gradient of the loop's loss in W at these weights: record before the update is made. It
                sets what batches and other parts of a model did apart from what the memory's tokens did.
            learning_rate: That of the step.
            inputs: The input embeddings now, if they train along; then in each record.
            outputs: The output embeddings now, likewise.
        """
        if self._is_closed:
            raise InputError(
                f"the recorder of {self.path} is closed. Make another one for the same store, and go on."
            )
        records, shapes = self._records, shapes_of(self.problem)
        given = {"weights": weight, "gradients": grad, "inputs": inputs, "outputs": outputs}
        values = {
            name: _read_floats(_ARGUMENTS[name], value, shapes[name])
            for name, value in given.items()
            if value is not None
        }
        for name, value in values.items():
            array = records.arrays.get(name)
            if array is not None and array.dtype.itemsize < value.dtype.itemsize:
                raise InputError(
                    f"`{_ARGUMENTS[name]}` must stay {array.dtype.name}, as in the first record, got "
                    f"{value.dtype.name}. Convert it, or record to another store."
                )
        step = _read_step(step)
        count = self._place_of(step, values["weights"])
        for name in ("inputs", "outputs"):
            if records.arrays and (name in values) != (name in records.arrays):
                had = "had them" if name in records.arrays else "had none"
                raise InputError(
                    f"`{name}` must be given in each record or in none, and the first one {had}. Pass them "
                    "each time if they train along."
                )
        numbers = (step, _read_number("loss", loss), _read_number("learning_rate", learning_rate))
        values["numbers"] = np.asarray(numbers, np.float64)
        if count < records.count:
            records.cut(count)
        records.append(values)
        if count >= len(self._steps):
            self._steps = np.concatenate([self._steps, np.zeros(max(64, count))])
        self._steps[count] = step
        self._is_resuming = False

    def _place_of(self, step: int, weight: np.ndarray) -> int:
        """Which record this will be: the next; or, resuming, an earlier one, replacing what follows."""
        last = self.last_step
        if last is None or step > last:
            return self.num_records
        if not self._is_resuming:
            raise InputError(
                f"`step` must be larger than that of the last record, {last}, got {step}. Count the updates "
                "made."
            )
        place = int(np.searchsorted(self._steps[: self.num_records], step))
        if place or self._may_overwrite:
            return place
        if not self._is_first(step, weight):
            raise InputError(
                f"`store` must not hold another training, got {self.path} with steps {int(self._steps[0])} "
                f"to {last}, and other weights at step {step}. {_INSTEAD}"
            )
        if self.num_records > 1:
            raise InputError(
                f"`store` must not hold records that would be lost, got {self.path} with "
                f"{self.num_records} of them, and a loop that starts again at step {step}. {_INSTEAD}"
            )
        return 0

    def _is_first(self, step: int, weight: np.ndarray) -> bool:
        """Whether these are the step and the weights of the first record, which loses nothing by it."""
        first = self._records.read("weights")[0]
        return step == self._steps[0] and np.array_equal(first, weight, equal_nan=True)

    def dataset(self) -> xr.Dataset:
        """What was recorded so far, and what happened: as `open_recording`."""
        return open_recording(self.path)

    def close(self) -> None:
        """Let go of the store; records are complete without this."""
        self._is_closed = True
        self._records.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_INSTEAD = (
    "Resume after its last step, name another store, or pass `overwrite=True` to replace all of it."
)
_ARGUMENTS = {"weights": "weight", "gradients": "grad", "inputs": "inputs", "outputs": "outputs"}


def open_recording(path: str | os.PathLike[str]) -> xr.Dataset:
    """What a recorder stored, as the kind of dataset that `simulate` returns.

    Loss, error, margins and losses of tokens are computed from the weights of each record, in double
    precision and some records at a time. Events (spikes, tokens learnt and forgotten) are those among the
    records. What the loop itself reported is `recorded_loss` and `learning_rate`; where gradients were
    recorded, `gradient_cosine` says how far the memory's own gradient points in the same direction. The
    arrays by record (`weights`, `gradients`, `inputs`, `outputs`) are read when they are used.

    Args:
        path: The store, also while another process is recording to it.
    """
    return dataset_of(open_records(Path(path)))


def analyse(
    problem: Problem,
    weights: Iterable[ArrayLike],
    steps: Iterable[int] | None = None,
) -> xr.Dataset:
    """What happened between checkpoints that exist already: the dataset of a recording of them.

    Args:
        problem: What is to be remembered; `Problem.from_embeddings` makes one of a model's tables.
        weights: The matrices W, in order: a stack of shape (T, k, d), a list, or a generator that reads one
            file after another; only a few of them are in memory at a time.
        steps: The steps that they belong to; by default 0, 1, 2, ...
    """
    recorder = Recorder.of(_check_problem(problem))
    try:
        matrices = iter(weights)
    except TypeError:
        raise InputError(
            f"`weights` must be a stack of matrices, or a sequence of them, got {brief(weights)}."
        ) from None
    with recorder:
        counted = itertools.count() if steps is None else iter(steps)
        for W in matrices:
            step = next(counted, None)
            if step is None:
                raise _wrong_number(recorder, "more")
            recorder.record(step, W)
        if steps is not None and next(counted, None) is not None:
            raise _wrong_number(recorder, "fewer")
    return recorder.dataset()


def _wrong_number(recorder: Recorder, how: str) -> InputError:
    number = recorder.num_records
    return InputError(
        f"`steps` must have one entry per matrix, got {how} matrices than steps ({number})."
    )


def _check_problem(problem: Any) -> Problem:
    if not isinstance(problem, Problem):
        raise InputError(
            f"`problem` must be a Problem, got {type(problem).__name__}. Make one with "
            "`engram.Problem.from_embeddings(inputs, outputs, targets)`."
        )
    return problem


def _temporary_store() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="engram-recording-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "recording.zarr"


def _check_same(records: Records, problem: Problem) -> None:
    """Refuse another problem than a store holds; embeddings that train along may have moved."""
    known = records.problem
    for name in ("names", "class_names"):
        if getattr(known, name) != getattr(problem, name):
            raise _other_problem(records, name, "other names")
    if known.axes() != problem.axes():
        raise _other_problem(records, "targets", "another form")
    for name in known.axes():
        old, new = getattr(known, name), getattr(problem, name)
        if old.shape != new.shape:
            raise _other_problem(records, name, f"shape {old.shape}, not {new.shape}")
        if name not in records.arrays and not np.array_equal(old, new):
            raise _other_problem(records, name, "other values")


def _other_problem(records: Records, name: str, how: str) -> InputError:
    return InputError(
        f"`store` must hold the same memory, got {records.path} whose `{name}` has {how}. Name another "
        "store, or remove this one."
    )


def _read_floats(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An array as it is stored: single precision for what has less, otherwise double; NaN is a result."""
    if str(getattr(value, "dtype", "")) in ("torch.float16", "torch.bfloat16"):
        value = value.detach().float()  # by PyTorch, which takes a tenth of NumPy's time
    array = read_array(name, value)
    if is_traced(array):
        raise InputError(
            f"`{name}` must be a concrete array, got a tracer. Call `record` outside of jit and grad."
        )
    if array.shape != shape:
        axes = "(k, d)" if name in ("weight", "grad") else "that of the first ones,"
        hint = " Transpose it: it acts on columns, W e_x." if array.shape == shape[::-1] else ""
        raise InputError(f"`{name}` must have shape {axes} {shape}, got {array.shape}.{hint}")
    if array.dtype.name in ("float32", "float16", "bfloat16"):
        return array.astype(np.float32, copy=False)
    if array.dtype.kind not in "fiu":
        raise InputError(
            f"`{name}` must hold real numbers, got dtype {array.dtype}. Convert it first."
        )
    return array.astype(np.float64, copy=False)


def _read_number(name: str, value: Any) -> float:
    if value is None:
        return np.nan
    array = read_array(name, value)
    if is_traced(array) or array.size != 1 or array.dtype.kind not in "fiuV":
        raise InputError(f"`{name}` must be a number, got {brief(value)}. Pass one real number.")
    return float(array.astype(np.float64).item())


def _read_step(value: Any) -> int:
    number = _read_number("step", value)
    if not 0 <= number < 2**53 or number != int(number):
        raise InputError(
            f"`step` must be a whole number of at least 0, got {brief(value)}. Count the updates made."
        )
    return int(number)
