"""Work: the parts of a study, each computed once and kept, so that a study can be resumed."""

import hashlib
import importlib.metadata
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xarray as xr

import engram
from engram._checks import InputError
from engram._files import written_whole
from engram._foreign_files import check_hdf5
from engram.sweeps import Fingerprint, sweep

Report = Callable[[str, int, int], None]  # a part, how much of it is done, of how much


class Work:
    """Where a study computes: its parts are kept in a folder, if there is one, and not computed twice.

    Args:
        folder: Where parts are kept; None computes all of them in memory.
        report: Called with the name of a part, how much of it is done, and of how much.
    """

    def __init__(self, folder: Path | None = None, report: Report | None = None):
        self.folder, self._report = folder, report
        self.reused: list[str] = []  # parts that were complete before

    def sweep(self, name: str, what: Any, axes: Any = None, **options: Any) -> xr.Dataset:
        """A part that is a sweep: what `engram.sweep` takes, resumed chunk by chunk."""
        if callable(what) and _is_ours(what):
            options.setdefault("version", _source(what))
        store = None if self.folder is None else self.folder / f"{name}.zarr"
        data = sweep(what, axes, store=store, progress=self._of(name), **options)
        return data.load().drop_attrs(deep=False).assign_attrs(kind="engram sweep")

    def keep(self, name: str, function: Callable[..., xr.Dataset], /, **given: Any) -> xr.Dataset:
        """A part that a function computes as a dataset, kept when it is done.

        It is computed again if the arguments, the function's code, or the versions of engram or JAX differ.

        Args:
            name: Of the part.
            function: What computes it. If it takes `progress`, it gets what reports (done, total).
            given: Its arguments: numbers, names, lists and tables.
        """
        extra = (
            {"progress": self._of(name)} if "progress" in inspect.signature(function).parameters else {}
        )  # fmt: skip
        if self.folder is None:
            return function(**given, **extra)
        path, made_of = self.folder / f"{name}.nc", _made_of(name, function, given)
        if path.exists():
            kept = _read(path)
            if kept is not None and kept.attrs.pop("made_of", None) == made_of:
                self.reused.append(name)
                return kept
        self._of(name)(0, 1)
        data = function(**given, **extra)
        with written_whole(path) as partial:
            partial.write_bytes(data.assign_attrs(made_of=made_of).to_netcdf(engine="h5netcdf"))
        self._of(name)(1, 1)
        kept = _read(path)
        assert kept is not None
        del kept.attrs["made_of"]
        return kept  # as it is read the next time, too

    def _of(self, name: str) -> Callable[[int, int], None]:
        report = self._report
        return lambda done, total: None if report is None else report(name, done, total)


def _is_ours(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("engram.")


def _source(function: Any) -> str:
    """What stands for a function of engram's own: the source of its module."""
    text = inspect.getsource(sys.modules[function.__module__])
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{function.__module__}.{function.__qualname__} {digest}"


def _made_of(name: str, function: Any, given: dict[str, Any]) -> str:
    """The fingerprint of all that a part depends on."""
    versions = [engram.__version__, importlib.metadata.version("jax")]
    code = _source(function) if _is_ours(function) else Fingerprint(function).hash
    try:
        plain = json.dumps(given, sort_keys=True)
    except TypeError:
        raise InputError(
            f"the arguments of part {name!r} must be numbers, names, lists and tables, got {given!r}. "
            "Build other objects within the function."
        ) from None
    return hashlib.sha256("\n".join([*versions, code, plain]).encode()).hexdigest()


def _read(path: Path) -> xr.Dataset | None:
    """A part that was kept; None if it cannot be read, so that it is computed again."""
    try:
        check_hdf5(path)
        return xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError, KeyError, InputError):
        return None
