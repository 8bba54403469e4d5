"""Work: the parts of a study, each computed once and kept, so that a study can be resumed."""

import functools
import hashlib
import importlib.metadata
import inspect
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xarray as xr

import engram
from engram._checks import InputError
from engram._files import written_whole
from engram._foreign_files import check_hdf5
from engram.registry import KINDS, entries, origins
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
            options.setdefault("version", f"{what.__module__}.{what.__qualname__} {_library()}")
        if self.folder is None:
            data = sweep(what, axes, progress=self._of(name), **options)
        else:
            store = self.folder / f"{name}.zarr"
            self._begin_again_if_changed(store, what, [what, axes, options])
            data = sweep(what, axes, store=store, progress=self._of(name), **options)
        return data.load().drop_attrs(deep=False).assign_attrs(kind="engram sweep")

    def _begin_again_if_changed(self, store: Path, what: Any, given: Any) -> None:
        """Remove the store of a sweep that was made of something else; a sweep would refuse it."""
        mark, made_of = (
            store.with_suffix(".made-of"),
            _made_of(what if callable(what) else None, given),
        )
        if store.exists() and not (mark.exists() and mark.read_text(encoding="utf-8") == made_of):
            shutil.rmtree(store)
        with written_whole(mark) as partial:
            partial.write_text(made_of, encoding="utf-8")

    def keep(self, name: str, function: Callable[..., xr.Dataset], /, **given: Any) -> xr.Dataset:
        """A part that a function computes as a dataset, kept when it is done.

        It is computed again if the arguments, plugins that they name, the code or the version of JAX differ.

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
        path, made_of = self.folder / f"{name}.nc", _made_of(function, _plain(name, given))
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


@functools.cache
def _library() -> str:
    """The fingerprint of engram's own code."""
    root, digest = Path(engram.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _plain(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a part, if they can be written down."""
    try:
        json.dumps(given)
    except TypeError:
        raise InputError(
            f"the arguments of part {name!r} must be numbers, names, lists and tables, got {given!r}. "
            "Build other objects within the function."
        ) from None
    return given


def _made_of(function: Any, given: Any) -> str:
    """The fingerprint of all that a part depends on: code, arguments, plugins that they name, versions."""
    code = "" if function is None or _is_ours(function) else Fingerprint(function).hash
    text = json.dumps(given, sort_keys=True, default=_written_out)
    plugins = json.dumps(plugins_in(text))
    parts = [_library(), importlib.metadata.version("jax"), code, text, plugins]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def plugins_in(text: str) -> list[dict[str, str]]:
    """The plugins whose names stand in arguments that are written as JSON, with their fingerprints."""
    own = [each for kind in KINDS for each in entries(kind).values() if each.origin]
    named = [entry for entry in own if json.dumps(entry.name) in text]
    return origins(sorted(named, key=lambda entry: str(entry.origin)))


def _written_out(value: Any) -> Any:
    return (
        value.tolist() if hasattr(value, "tolist") else getattr(value, "__qualname__", str(value))
    )


def _read(path: Path) -> xr.Dataset | None:
    """A part that was kept; None if it cannot be read, so that it is computed again."""
    try:
        check_hdf5(path)
        return xr.load_dataset(path, engine="h5netcdf")
    except Exception:  # whatever a damaged file makes of HDF5
        return None
