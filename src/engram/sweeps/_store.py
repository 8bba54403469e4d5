"""The store: one Zarr folder that holds a sweep, also while it is being made."""

import contextlib
import hashlib
import json
import math
import os
import platform
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

import engram
from engram._checks import InputError
from engram._files import changes_between, check_folder
from engram._foreign_files import (
    check_links,
    check_zarr,
    check_zarr_array,
    expands_to,
    leftovers_ignored,
)
from engram.sweeps._plan import Plan, Unit
from engram.sweeps._spec import hash_of

_KIND = "engram sweep"
_FORMAT = 2  # of stores; 1 had no checksums
MARKS = {"done": "uint8", "attempts": "uint16", "checksums": "uint64"}


Maker = dict[str, str]  # what computes: versions of engram and JAX, and the kind of processor


def this_maker() -> Maker:
    """What this process computes with."""
    device = jax.devices()[0]
    kind = f"{device.platform} {device.device_kind} {platform.machine()}"
    return {"engram": engram.__version__, "jax": jax.__version__, "processor": kind}


def versions_of(maker: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same everywhere; processors may differ."""
    return {name: maker.get(name) for name in ("engram", "jax")}


class Memory:
    """A sweep in memory, with what a store can do."""

    num_lost = 0

    def __init__(self, plan: Plan):
        self._plan = plan
        plan.check_memory(plan.shape)
        self._arrays = {
            name: np.empty((*plan.shape, *output.sizes), output.dtype)
            for name, output in plan.outputs.items()
        }

    def done(self) -> set[Unit]:
        return set()

    def check_makers(self, makers: list[Maker], accept_versions: bool) -> None:
        """Any version may compute what was not there before."""

    def begin(self, unit: Unit) -> None:
        """Nothing is kept of a unit that is not done."""

    def write(self, unit: Unit, values: Mapping[str, np.ndarray]) -> None:
        for name, array in self._arrays.items():
            array[self._plan.region(unit)] = values[name]

    def dataset(self) -> xr.Dataset:
        plan = self._plan
        variables = {
            name: ((*plan.axes, *output.axes), self._arrays[name], output.attrs)
            for name, output in plan.outputs.items()
        }
        return xr.Dataset(variables, {**plan.axes, **plan.labels}, _attrs(plan.text, 0))


def _attrs(spec: dict[str, Any], units_left: int) -> dict[str, Any]:
    """Attributes of a dataset: its spec without the values of the axes, which are its coordinates."""
    short = json.dumps({**spec, "axes": list(spec["axes"])})
    return {"kind": _KIND, "spec": short, "units_left": units_left}


def spec_of(data: xr.Dataset) -> dict[str, Any]:
    """The tables of the sweep that a dataset came from."""
    spec = json.loads(data.attrs["spec"])
    if isinstance(spec["axes"], list):
        there = [axis for axis in spec["axes"] if axis in data.coords]
        spec["axes"] = {axis: np.atleast_1d(data[axis].values).tolist() for axis in there}
    return spec


class Store:
    """A sweep on disk: a Zarr group with one chunk per unit, and a mark for each unit that is whole.

    A unit's mark is written after all its chunks and their checksums, which depend on the unit, too.
    Whatever is cut short has no mark, and is computed again.
    """

    def __init__(self, path: Path, group: Any, plan: Plan):
        self.path, self._group, self._plan = path, group, plan
        self.num_lost = 0  # units marked as done whose chunks were lost

    @staticmethod
    def open(path: Any, plan: Plan) -> "Store":
        """Open the store of this very sweep, or make one where there is nothing."""
        path = Path(path)
        if plan.vague is not None:
            raise InputError(
                f"the function uses {plan.vague}, which a store cannot tell from another when it is "
                "resumed. Use numbers or arrays instead, pass `version`, or leave out the store."
            )
        if not path.exists():
            _create(path, plan)
        store = Store(path, _open_group(path, "r+"), plan)
        _check_same(path, dict(store._group.attrs), plan)
        if "format" not in store._group.attrs and "done" in store._group:
            store._add_checksums()
        store._check_arrays()
        return store

    def _add_checksums(self) -> None:
        """Make a store of the format before one of this format."""
        self._group.group.create_array(
            "checksums", **_forms(self._plan)["checksums"], fill_value=0, overwrite=True
        )
        for unit in _marked(self._group["done"][...]):
            self._group["checksums"][:, *unit] = np.array(self._checksums(unit), np.uint64)
        self._group.group.attrs["format"] = _FORMAT

    def _check_arrays(self) -> None:
        """Refuse arrays of another form than the plan's; write axes that are not the plan's again."""
        for name, form in _forms(self._plan).items():
            with _damage_reported(self.path, name):
                array = self._group[name]
                met = {"shape": array.shape, "chunks": array.chunks, "dtype": str(array.dtype)}
            if wrong := {key: value for key, value in met.items() if value != form[key]}:
                raise _damaged(self.path, name, f"{wrong}, not {form}")
        for name, values in self._plan.axes.items():
            if not _has_axis(self.path, self._group, name, values):
                _write_axis(self._group.group, name, values)

    def done(self) -> set[Unit]:
        """The units that are whole; a mark without chunks that can be read is taken back."""
        with _damage_reported(self.path, "done"):
            marks, checksums = (self._group[name][...] for name in ("done", "checksums"))
        marked = _marked(marks)
        lost = {unit for unit in marked if self._checksums(unit) != checksums[:, *unit].tolist()}
        for unit in lost:
            self._group["done"][unit] = 0
        self.num_lost = len(lost)
        return marked - lost

    def check_makers(self, makers: list[Maker], accept_versions: bool) -> None:
        """Refuse to resume with versions of engram or JAX that were not accepted; record what is new."""
        attrs = self._group.attrs
        known = attrs.get("made_with", [{name: attrs.get(name) for name in ("engram", "jax")}])
        for maker in makers:
            if versions_of(maker) not in map(versions_of, known) and not accept_versions:
                old, new = (
                    ", ".join(f"{name} {version}" for name, version in versions_of(each).items())
                    for each in (known[0], maker)
                )
                raise InputError(
                    f"{self.path} was begun with {old}, and this is {new}: numbers may differ. Install those "
                    "versions, accept these (--accept-versions, `accept_versions=True`) or name another "
                    "store."
                )
        if new := [maker for maker in makers if maker not in known]:
            self._group.group.attrs["made_with"] = [*known, *new]

    def _checksums(self, unit: Unit) -> list[int]:
        """The checksum of each chunk of a unit; 0 for one that cannot be read."""
        return [_checksum(self.path, self._group[name], unit) for name in self._plan.outputs]

    def is_done(self, unit: Unit) -> bool:
        """Whether one unit is whole."""
        return int(self._group["done"][unit]) == 1

    def begin(self, unit: Unit) -> None:
        """Count that a unit is being computed."""
        attempts = self._group["attempts"]
        try:
            before = int(attempts[unit])
        except Exception:  # a count that is damaged begins again
            before = 0
        attempts[unit] = before + 1

    def write(self, unit: Unit, values: Mapping[str, np.ndarray]) -> None:
        """Write a unit's chunks, their checksums, then its mark."""
        for name in self._plan.outputs:
            self._group[name][self._plan.region(unit)] = values[name]
        self._group["checksums"][:, *unit] = np.array(self._checksums(unit), np.uint64)
        self._group["done"][unit] = 1

    def dataset(self) -> xr.Dataset:
        """What the store holds, read when it is used; complete, it gets one table of all its arrays."""
        data = open_sweep(self.path)
        if not data.attrs["units_left"]:
            import zarr

            with contextlib.suppress(OSError), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it is not in the specification yet
                zarr.consolidate_metadata(self.path)
        return data


def open_sweep(path: str | os.PathLike[str]) -> xr.Dataset:
    """Open a store as a labelled dataset, whole or still being made; values are read when used."""
    path = Path(path)
    if not path.exists():
        raise InputError(
            f"{path} is not there. Make it with `engram sweep SPEC.toml --out {path}`."
        )
    group = _open_group(path, "r")
    attrs = dict(group.attrs)
    spec = _spec_in(path, attrs)
    for name in spec["axes"]:
        if isinstance(spec["axes"], dict) and not _has_axis(path, group, name, spec["axes"][name]):
            raise InputError(
                f"{path} is damaged: its axis `{name}` is not that of its spec. Run `engram sweep` with "
                "its spec again, which writes the axis again."
            )
    with _damage_reported(path), leftovers_ignored():
        check_zarr(path, group.group)
        stored = xr.open_zarr(path, consolidated=False, chunks=None)
        marks = list(MARKS)[: 3 if "format" in attrs else 2 if "done" in group else 0]
        arrays = stored.drop_vars(marks).variables
        # Zarr lists arrays in any order.
        names = attrs.get(
            "variables", sorted(str(name) for name in arrays if name not in spec["axes"])
        )
        labels = attrs.get("labels", {})
        data = xr.Dataset(
            {name: arrays[name] for name in names if name in arrays},
            {name: arrays[name] for name in spec["axes"]} | labels,
            _attrs(spec, 0),
        )
        sizes = tuple(len(data[axis]) for axis in spec["axes"])
        for name in data.data_vars:
            _check_form(path, group[str(name)], sizes)
    if not data.data_vars:
        raise _damaged(path, None, "no measured variable is left")
    data.attrs |= {name: attrs[name] for name in ("spec_hash", "engram", "jax") if name in attrs}
    if marks:  # else it was made in memory, and is whole
        with _damage_reported(path, "done"):
            done = group["done"][...]
        whole = {
            unit
            for unit in _marked(done)
            if all(_file_of(path, group[str(name)], unit).is_file() for name in data.data_vars)
        }
        data.attrs["units_left"] = done.size - len(whole)
    for array in data.data_vars.values():
        array.encoding["source"] = str(path)
    return data


def _marked(marks: np.ndarray) -> set[Unit]:
    return {tuple(int(k) for k in unit) for unit in np.argwhere(marks == 1)}


def _file_of(path: Path, array: Any, unit: Unit) -> Path:
    """The file of a unit in an array; axes in addition to the sweep's are not cut."""
    return path.joinpath(array.basename, "c", *map(str, unit), *["0"] * (array.ndim - len(unit)))


def _checksum(path: Path, array: Any, unit: Unit) -> int:
    """A checksum of a unit's chunk, of what it is and where it belongs; 0 if it cannot be read.

    It is read past Zarr, which takes ten times as long.
    """
    from numcodecs.zstd import Zstd

    file, size = _file_of(path, array, unit), math.prod(array.chunks) * array.dtype.itemsize
    try:
        raw = file.read_bytes() if expands_to(file) == size else b""
        if len(Zstd().decode(raw)) != size:
            return 0
    except Exception:  # gone, or damaged
        return 0
    place = f"{array.basename} {unit} ".encode()
    return int.from_bytes(hashlib.blake2b(place + raw, digest_size=8).digest(), "little") or 1


def _check_form(path: Path, array: Any, sizes: tuple[int, ...]) -> None:
    """Refuse an array that is not over the axes."""
    fits = all(chunk <= max(size, 1) for chunk, size in zip(array.chunks, array.shape, strict=True))
    if array.shape[: len(sizes)] != sizes or not fits:
        form = f"shape {array.shape}, chunks {array.chunks}, for axes of {sizes}"
        raise _damaged(path, array.basename, form)


def _has_axis(path: Path, group: Any, name: str, values: Any) -> bool:
    try:
        check_zarr_array(path, group[name])
        return np.array_equal(np.asarray(group[name][...]).astype(np.asarray(values).dtype), values)
    except Exception:  # zarr reports damage in many ways
        return False


def _damaged(path: Path, what: str | None, why: str) -> InputError:
    name = "an array" if what is None else f"`{what}`"
    return InputError(
        f"{path} is damaged: {name} in it cannot be used ({why}). Name another store, or delete this one "
        "and run again."
    )


@contextlib.contextmanager
def _damage_reported(path: Path, what: str | None = None) -> Iterator[None]:
    """Whatever goes wrong while a store is read, as one error that names it."""
    try:
        yield
    except (PermissionError, InputError):
        raise
    except Exception as error:  # zarr reports damage in many ways
        raise _damaged(path, what, f"{type(error).__name__}: {_first_line(error)}") from None


def _spec_in(path: Path, attrs: dict[str, Any]) -> dict[str, Any]:
    """The spec that a store says it was made from."""
    if attrs.get("kind") != _KIND:
        raise InputError(
            f"{path} is not a sweep of engram. Name a store that `engram sweep` wrote."
        )
    with _damage_reported(path, "spec"):
        spec = json.loads(attrs["spec"])
        if not isinstance(spec["axes"], dict | list):
            raise TypeError("its axes are not a table")
        return spec


def _open_group(path: Path, mode: Any) -> Any:
    import zarr

    check_links(path)
    try:
        return _Opened(zarr.open_group(path, mode=mode, use_consolidated=False))
    except PermissionError:
        raise
    except Exception as error:  # zarr reports damage in many ways
        raise InputError(
            f"{path} cannot be read as a Zarr store ({type(error).__name__}: {_first_line(error)}). Move it "
            "away and run again."
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


class _Opened:
    """A group whose arrays are opened once; a chunk of fill values alone is a result, and gets its file."""

    def __init__(self, group: Any):
        self.group, self.attrs, self._arrays = group, group.attrs, {}

    def __contains__(self, name: str) -> bool:
        return name in self.group

    def __getitem__(self, name: str) -> Any:
        import zarr

        if name not in self._arrays:
            with zarr.config.set({"array.write_empty_chunks": True}):
                self._arrays[name] = self.group[name]
        return self._arrays[name]


def _forms(plan: Plan) -> dict[str, dict[str, Any]]:
    """Shape, chunks, type and dimensions of each array of a store but the axes."""
    forms = {
        name: {
            "shape": (*plan.shape, *output.sizes),
            "chunks": (*plan.block, *output.sizes),
            "dtype": output.dtype,
            "dimension_names": [*plan.axes, *output.axes],
        }
        for name, output in plan.outputs.items()
    }
    blocks, each = [f"block_{name}" for name in plan.axes], (1,) * len(plan.axes)
    for name, dtype in MARKS.items():
        forms[name] = {
            "shape": plan.blocks,
            "chunks": each,
            "dtype": dtype,
            "dimension_names": blocks,
        }
    forms["checksums"] |= {
        "shape": (len(plan.outputs), *plan.blocks),
        "chunks": (len(plan.outputs), *each),
        "dimension_names": ["variable", *blocks],
    }
    return forms


def _create(path: Path, plan: Plan) -> None:
    """Make an empty store beside `path` and move it there, so that it is whole or absent."""
    import zarr
    from zarr.codecs import ZstdCodec

    check_folder("store", path.parent)
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        group = zarr.create_group(partial)
        group.attrs.update(
            {
                "kind": _KIND,
                "format": _FORMAT,
                "spec": json.dumps(plan.text),
                "spec_hash": plan.hash,
                "variables": list(plan.outputs),
                **({"labels": dict(plan.labels)} if plan.labels else {}),
                **versions_of(this_maker()),
                "made_with": [this_maker()],
            }
        )
        for name, values in plan.axes.items():
            _write_axis(group, name, values)
        for name, form in _forms(plan).items():
            output = plan.outputs.get(name)
            fill: Any = {"f": np.nan, "i": -1}.get(np.dtype(form["dtype"]).kind, 0)
            group.create_array(
                name,
                **form,
                fill_value=fill,
                attributes={} if output is None else output.attrs,
                compressors=ZstdCodec(checksum=True),  # a chunk that rots is found out
                config={"write_empty_chunks": True},
            )
        try:
            partial.rename(path)
        except OSError:
            if not path.exists():  # else another process was quicker: its store will do
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_axis(group: Any, name: str, values: np.ndarray) -> None:
    axis = group.create_array(
        name,
        shape=values.shape,
        chunks=values.shape,
        dtype="string" if values.dtype.kind == "U" else values.dtype,
        dimension_names=[name],
        overwrite=True,
    )
    axis[...] = values.astype(object) if values.dtype.kind == "U" else values


def _check_same(path: Path, attrs: dict[str, Any], plan: Plan) -> None:
    spec = _spec_in(path, attrs)
    if hash_of(spec) == plan.hash:
        return
    changes = changes_between(spec, plan.text, "in the store")
    raise InputError(
        f"{path} holds another sweep; a store is resumed with its own spec only. Changed:\n  "
        + "\n  ".join(changes)
        + "\nName another store, or take the old spec."
    )
