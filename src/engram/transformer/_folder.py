"""The folder of a training: its config, its log, its checkpoints; whole whenever it is killed."""

import contextlib
import fcntl
import json
import shutil
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import engram
from engram._checks import InputError
from engram._files import (
    changes_between,
    check_folder,
    clear_leftovers,
    toml_value,
    written_whole,
)
from engram._foreign_files import check_links, check_zarr, leftovers_ignored
from engram.problem import one_line, read_npz
from engram.registry import complete, names_of
from engram.transformer._initial import write_start
from engram.transformer._log import hash_of
from engram.transformer._model import Model
from engram.transformer._task import Sequences

_CHUNK = 64  # steps per chunk of the log
_KEPT = 2  # checkpoints


class Folder:
    """Where a training is kept.

    The log is written first, then the checkpoint that counts on it. A checkpoint holds the entries of
    the chunk that is not full yet, so that a chunk cut short can be written again.
    """

    def __init__(self, path: Path):
        self.path: Path = path
        self.start_path: Path = path / "start.npz"
        self.log_path: Path = path / "log.zarr"
        self._config_path = path / "config.toml"

    @property
    def is_begun(self) -> bool:
        return self._config_path.exists()

    def check(self, tables: dict[str, Any]) -> None:
        """Refuse to continue another training; more steps than before are welcome."""
        try:
            old = tomllib.loads(self._config_path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(
                f"{self._config_path} cannot be read ({error}). Move the folder away."
            ) from None
        old = _with_defaults({name: old.get(name) for name in tables})
        new = _with_defaults(json.loads(json.dumps(tables)))
        before = old["dynamics"].get("steps") if isinstance(old["dynamics"], dict) else None
        if isinstance(before, int) and new["dynamics"]["steps"] > before:
            old["dynamics"]["steps"] = new["dynamics"]["steps"]
        if changes := changes_between(old, new, "in the folder"):
            raise InputError(
                f"{self.path} holds another training; it is continued with its own settings only, or "
                "with more steps. Changed:\n  "
                + "\n  ".join(changes)
                + "\nName another folder, or take the old settings."
            )

    def begin(
        self, tables: dict[str, Any], model: Model, sequences: Sequences, log: xr.Dataset
    ) -> None:
        """Make the folder; its config comes last, so that a folder with a config is whole."""
        for stale in self._checkpoints():  # of a folder whose config was removed
            stale.unlink()
        write_start(self.start_path, model, sequences)
        self._make_log(log)
        self.write_config(tables)

    def write_config(self, tables: dict[str, Any]) -> None:
        with written_whole(self._config_path) as partial:
            partial.write_text(to_toml(tables), encoding="utf-8")

    def _make_log(self, log: xr.Dataset) -> None:
        """Lay out the log, with room for every step, beside its place, then move it there."""
        from zarr.codecs import ZstdCodec

        partial, old = self.path / ".log.zarr", self.path / ".log-old.zarr"
        for leftover in (partial, old):
            shutil.rmtree(leftover, ignore_errors=True)
        encoding = {
            name: {
                "chunks": tuple(_CHUNK if d == "step" else log.sizes[d] for d in array.dims),
                "compressors": ZstdCodec(checksum=True),
            }
            for name, array in log.data_vars.items()
        }
        with warnings.catch_warnings():  # consolidated metadata are not in Zarr's specification yet
            warnings.simplefilter("ignore")
            log.to_zarr(partial, mode="w", encoding=encoding, consolidated=True, zarr_format=3)
        if self.log_path.exists():
            self.log_path.rename(old)
        partial.rename(self.log_path)
        shutil.rmtree(old, ignore_errors=True)

    def lengthen(self, tables: dict[str, Any], log: xr.Dataset) -> None:
        """Make room for more steps in a log that was laid out for fewer; `log` has what is known."""
        group = self._group()
        group.attrs.update(log.attrs)  # first, for they may count on fewer entries than before
        if group["loss"].shape[0] < log.sizes["step"]:
            self._make_log(log)
        self.write_config(tables)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder; report what cannot be written to it."""
        check_folder("out", self.path)
        with open(self.path / ".lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another process is training in {self.path}. Wait for it, or name another "
                    "folder."
                ) from None
            spare = self.path / ".log.zarr"
            if spare.exists() and not self.log_path.exists():  # killed between two renames
                spare.rename(self.log_path)
            for leftover in self.log_path.rglob("*.partial"):  # of Zarr, killed while it wrote
                leftover.unlink(missing_ok=True)
            try:
                yield
            except ConnectionError:
                raise
            except OSError as error:
                raise InputError(
                    f"{self.path} cannot be written to ({error.strerror or error}). What was written before "
                    "is kept: make room there, and train again to resume."
                ) from None

    def _group(self) -> Any:
        import zarr

        return zarr.open_group(self.log_path, mode="r+")

    def read(self, end: int) -> xr.Dataset:
        """The entries of the log before step `end`."""
        return _read_log(self.log_path, end)

    def append(self, log: xr.Dataset, first: int, end: int) -> None:
        """Write the chunks from the one that holds step `first` to before `end`, and the attributes."""
        first, group = self.chunk_start(first), self._group()
        for name, array in log.data_vars.items():
            chunks = array.values[first : self.chunk_start(end - 1) + _CHUNK].copy()
            chunks[end - first :] = np.nan  # of an entry that is not whole yet
            group[name][first : first + len(chunks)] = chunks
        group.attrs.update(log.attrs)

    def write_checkpoint(self, step: int, arrays: dict[str, Any]) -> None:
        """Keep what a training needs to be resumed from `step`; drop the oldest."""
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

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is any, damaged or not."""
        return bool(self._checkpoints())

    def checkpoints(self) -> Iterator[dict[str, np.ndarray]]:
        """The arrays of each checkpoint that can be read and has its own name, the newest first."""
        clear_leftovers(self.path, [path.stem for path in self._checkpoints()])
        for path in reversed(self._checkpoints()):
            with contextlib.suppress(Exception):  # damaged: the one before it will do
                arrays = read_npz(path)
                if int(arrays["step"]) == int(path.stem.split("-")[1]):
                    yield arrays


def _with_defaults(tables: dict[str, Any]) -> dict[str, Any]:
    """The same with every default of the dynamics written out, as far as they are known."""
    dynamics = tables["dynamics"]
    if not isinstance(dynamics, dict) or dynamics.get("kind") not in names_of("dynamics"):
        return tables
    return tables | {"dynamics": complete("dynamics", dynamics)}


def open_log(path: str | Path) -> xr.Dataset:
    """The log of a training, from its folder or its log.zarr, also while it is being written."""
    path = Path(path)
    path = path if path.name == "log.zarr" else path / "log.zarr"
    if not path.is_dir():
        raise InputError(f"{path} is not there. Make it with `engram train --out {path.parent}`.")
    log = _read_log(path)
    if "sha256" in log.attrs and hash_of(log.isel(step=slice(log.recorded))) != log.sha256:
        raise InputError(
            f"{path} is damaged: entries are lost or changed. Train again with the same settings and "
            f"--out {path.parent}, which restores the last ones, or move it away first."
        )
    return log


def _read_log(path: Path, end: int | None = None) -> xr.Dataset:
    import zarr

    try:
        check_links(path)
        with leftovers_ignored():
            check_zarr(path, zarr.open_group(path, mode="r", use_consolidated=False))
            # Past the copy of the metadata, for damage to the arrays' own would go unnoticed.
            log = xr.open_zarr(path, consolidated=False, chunks=None).isel(step=slice(end)).load()
    except Exception as error:  # zarr reports damage in many ways
        raise InputError(
            f"{path} cannot be read ({one_line(error)}). Move {path.parent} away and train again."
        ) from None
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
        lines += [
            f"{key} = {toml_value(value)}" for key, value in table.items() if value is not None
        ]
    return "\n".join(lines) + "\n"
