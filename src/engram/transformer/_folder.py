"""The folder of a training: its config, its log, its checkpoints; whole whenever it is killed."""

import contextlib
import fcntl
import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import engram
from engram._checks import InputError
from engram._files import changes_between, check_folder, clear_leftovers, written_whole
from engram.registry import complete, names_of
from engram.transformer._model import Model
from engram.transformer._start import write_start
from engram.transformer._task import Sequences

_CHUNK = 64  # steps per chunk of the log
_KEPT = 2  # checkpoints


class Checkpoint(NamedTuple):
    """What a run needs to go on: the leaves of what its dynamics carry, where runs ended, the log's tail."""

    step: int
    leaves: list[np.ndarray]
    ended: np.ndarray
    tail: dict[str, np.ndarray]


class Folder:
    """Where a training is kept.

    The log is written first, then the checkpoint that counts on it. A checkpoint holds the entries of
    the chunk that is not full yet, so that a chunk cut short can be written again.
    """

    def __init__(self, path: Path):
        self.path = path
        self.log_path = path / "log.zarr"

    @property
    def is_begun(self) -> bool:
        return (self.path / "config.toml").exists()

    def check(self, tables: dict[str, Any]) -> None:
        """Refuse to continue another training; more steps than before are welcome."""
        try:
            old = tomllib.loads((self.path / "config.toml").read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(
                f"{self.path}/config.toml cannot be read ({error}). Move the folder away."
            ) from None
        old = _with_defaults({name: old.get(name) for name in tables})
        new = _with_defaults(json.loads(json.dumps(tables)))
        changes = changes_between(old, new, "in the folder")
        before = old["dynamics"].get("steps") if isinstance(old["dynamics"], dict) else None
        if isinstance(before, int) and tables["dynamics"]["steps"] > before:
            changes = [line for line in changes if not line.startswith("dynamics.steps")]
        if changes:
            raise InputError(
                f"{self.path} holds another training; it is continued with its own settings only, or "
                "with more steps. Changed:\n  "
                + "\n  ".join(changes)
                + "\nName another folder, or "
                "take the old settings."
            )

    def begin(
        self, tables: dict[str, Any], model: Model, sequences: Sequences, log: xr.Dataset
    ) -> None:
        """Make the folder; its config comes last, so that a folder with a config is whole."""
        for stale in self._checkpoints():  # of a folder whose config was removed
            stale.unlink()
        write_start(self.path / "start.npz", model, sequences)
        self.make_log(log)
        self.write_config(tables)

    def write_config(self, tables: dict[str, Any]) -> None:
        with written_whole(self.path / "config.toml") as partial:
            partial.write_text(to_toml(tables), encoding="utf-8")

    def make_log(self, log: xr.Dataset) -> None:
        """Lay out the log, with room for every step, beside its place, then move it there."""
        partial = self.path / ".log.zarr"
        shutil.rmtree(partial, ignore_errors=True)
        chunks = {
            name: {"chunks": tuple(_CHUNK if d == "step" else log.sizes[d] for d in array.dims)}
            for name, array in log.data_vars.items()
        }
        log.to_zarr(partial, mode="w", encoding=chunks, consolidated=False, zarr_format=3)
        old = self.path / ".log-old.zarr"
        shutil.rmtree(old, ignore_errors=True)
        if self.log_path.exists():
            self.log_path.rename(old)
        partial.rename(self.log_path)
        shutil.rmtree(old, ignore_errors=True)

    def lengthen(self, tables: dict[str, Any], log: xr.Dataset) -> None:
        """Make room for more steps in a log that was laid out for fewer; `log` has what is known."""
        if self._group("r")["loss"].shape[0] < log.sizes["step"]:
            self.make_log(log)
        self.write_config(tables)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder at the same time."""
        check_folder("out", self.path)
        with open(self.path / ".lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.path} is being trained in by another process. Wait for it, or name another "
                    "folder."
                ) from None
            yield

    def _group(self, mode: Any) -> Any:
        import zarr

        spare = self.path / ".log.zarr"
        if not self.log_path.exists() and spare.exists():  # killed between two renames
            spare.rename(self.log_path)
        try:
            group = zarr.open_group(self.log_path, mode=mode)
            group["loss"]  # the first thing that anyone wants
            list(group.arrays())  # all that is there can be opened
        except Exception as error:  # zarr tells damage in many ways
            raise self._damaged(error) from None
        return group

    def _damaged(self, error: Exception) -> InputError:
        return InputError(
            f"{self.log_path} cannot be read ({type(error).__name__}). Move {self.path} away and "
            "train again."
        )

    def entries(self, end: int) -> dict[str, np.ndarray]:
        """What the log holds of whole chunks before step `end`, with an axis for runs."""
        group = self._group("r")
        last = self.chunk_start(end)
        try:
            dims = {name: array.metadata.dimension_names for name, array in group.arrays()}
            found = {name: group[name][:last] for name, axes in dims.items() if axes[0] == "step"}
        except Exception as error:  # zarr tells damage in many ways
            raise self._damaged(error) from None
        found.pop("step", None)
        return {
            name: values if "run" in dims[name] else values[:, None]
            for name, values in found.items()
        }

    def append(self, first: int, entries: dict[str, np.ndarray], attrs: dict[str, Any]) -> None:
        """Write log entries from step `first` on; `entries` have the step as their first axis."""
        group = self._group("r+")
        for name, values in entries.items():
            array: Any = group[name]
            values = values if array.ndim == values.ndim else values[:, 0]
            array[first : first + len(values)] = values
        group.attrs.update(attrs)

    def write_checkpoint(
        self, step: int, start: str, leaves: list[Any], tail: dict[str, np.ndarray]
    ) -> None:
        """Keep what a run needs to go on from `step`, with what it was begun from; drop the oldest."""
        arrays: Any = {f"leaf_{k}": np.asarray(leaf) for k, leaf in enumerate(leaves)}
        arrays |= {f"tail_{name}": values for name, values in tail.items()}
        arrays |= {"start": start, "step": step}
        target = self.path / f"checkpoint-{step:08d}.npz"
        with written_whole(target) as partial:
            np.savez(partial, **arrays)
        every = self._checkpoints()
        kept = every[: every.index(target) + 1][-_KEPT:]  # those beyond it were of no use
        for old in every:
            if old not in kept:
                old.unlink(missing_ok=True)

    @staticmethod
    def chunk_start(step: int) -> int:
        """The first step of the chunk of the log that holds `step`."""
        return step // _CHUNK * _CHUNK

    def _checkpoints(self) -> list[Path]:
        return sorted(self.path.glob("checkpoint-*.npz"))

    def checkpoints(self, start: str) -> Iterator[Checkpoint]:
        """The checkpoints of this start that can be read, the newest first."""
        clear_leftovers(self.path, [path.stem for path in self._checkpoints()])
        for path in reversed(self._checkpoints()):
            try:
                found = _read_checkpoint(path, start)
            except Exception:  # damaged: the one before it will do
                continue
            yield found

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is any, damaged or not."""
        return bool(self._checkpoints())


def _with_defaults(tables: dict[str, Any]) -> dict[str, Any]:
    """The same with every default of the dynamics written out, as far as they are known."""
    dynamics = tables["dynamics"]
    if not isinstance(dynamics, dict) or dynamics.get("kind") not in names_of("dynamics"):
        return tables
    return tables | {"dynamics": complete("dynamics", dynamics)}


def _read_checkpoint(path: Path, start: str) -> Checkpoint:
    step = int(path.stem.split("-")[1])
    with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if str(arrays.pop("start")) != start or int(arrays.pop("step", step)) != step:
        raise ValueError("of another training, or renamed")
    tail = {n[5:]: arrays.pop(n) for n in list(arrays) if n.startswith("tail_")}
    *leaves, ended = [arrays.pop(f"leaf_{k}") for k in range(len(arrays))]
    return Checkpoint(step, leaves, ended, tail)


def open_log(path: str | Path) -> xr.Dataset:
    """The log of a training, from its folder or its log.zarr, also while it is being written."""
    path = Path(path)
    path = path if path.name == "log.zarr" else path / "log.zarr"
    if not path.is_dir():
        raise InputError(f"{path} is not there. Make it with `engram train --out {path.parent}`.")
    try:
        log = xr.open_zarr(path, consolidated=False, chunks=None).load()
    except Exception as error:  # zarr tells damage in many ways
        raise InputError(f"{path} cannot be read ({type(error).__name__}). Train again.") from None
    # Zarr lists arrays in any order.
    variables, coords = (
        {name: log.variables[name] for name in sorted(map(str, part))}
        for part in (log.data_vars, log.coords)
    )
    return xr.Dataset(variables, coords, log.attrs)


def to_toml(tables: dict[str, dict[str, Any]]) -> str:
    """Flat tables as TOML; what is None is left out."""
    lines = [f"# A training of engram {engram.__version__}"]
    for name, table in tables.items():
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {_value(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else repr(value)
