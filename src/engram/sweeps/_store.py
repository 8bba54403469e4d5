"""The store: one Zarr folder that holds a sweep, also while it is being made."""

import contextlib
import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

import engram
from engram._checks import InputError
from engram._files import changes_between
from engram.sweeps._plan import Plan, Unit
from engram.sweeps._spec import hash_of

_KIND = "engram sweep"
_OWN = {"done": "uint8", "attempts": "uint16"}


class Store:
    """A sweep on disk: a Zarr group with one chunk per unit, and a mark for each unit that is whole.

    A unit's mark is written after all its chunks. Whatever is cut short has no mark, and is computed again.
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
                f"the function carries {plan.vague}, which a store cannot tell from another when it is "
                "resumed. Give it numbers or arrays instead, or leave out the store."
            )
        if not path.exists():
            _create(path, plan)
        store = Store(path, _open_group(path, "r+"), plan)
        _check_same(path, dict(store._group.attrs), plan)
        store._check_arrays()
        return store

    def _check_arrays(self) -> None:
        """Refuse arrays of another form than the plan's; write axes that are not the plan's again."""
        plan = self._plan
        forms = {
            name: ((*plan.shape, *about.sizes), (*plan.block, *about.sizes), about.dtype)
            for name, about in plan.outputs.items()
        }
        forms |= {
            name: (plan.blocks, (1,) * len(plan.blocks), dtype) for name, dtype in _OWN.items()
        }
        for name, form in forms.items():
            with _damage_told(self.path, name):
                array = self._group[name]
                found = (array.shape, array.chunks, str(array.dtype))
            if found != form:
                raise _damaged(self.path, name, f"shape, chunks and dtype are {found}, not {form}")
        for name, values in plan.axes.items():
            if not _has_axis(self._group, name, values):
                _write_axis(self._group.group, name, values)

    def done(self) -> set[Unit]:
        """The units that are whole; a mark without chunks that can be read is taken back."""
        try:
            marks = self._group["done"][...]
        except Exception as error:  # a damaged mark may be anything
            raise InputError(
                f"{self.path} is damaged: its marks cannot be read ({error}). Remove the folder "
                f"{self.path}/done/c to compute all units again, or move the store away."
            ) from None
        marked = _marked(marks)
        lost = {unit for unit in marked if not self._is_whole(unit)}
        for unit in lost:
            self._group["done"][unit] = 0
        self.num_lost = len(lost)
        return marked - lost

    def _is_whole(self, unit: Unit) -> bool:
        """Whether a unit's chunks are there and can be read: past Zarr, which takes ten times as long."""
        from numcodecs.zstd import Zstd

        for name in self._plan.outputs:
            array = self._group[name]
            try:
                raw = Zstd().decode(_chunk(self.path / name, unit, array.ndim).read_bytes())
            except Exception:  # gone, or damaged
                return False
            if len(raw) != math.prod(array.chunks) * array.dtype.itemsize:
                return False
        return True

    def is_done(self, unit: Unit) -> bool:
        """Whether one unit is whole."""
        return int(self._group["done"][unit]) == 1

    def begin(self, unit: Unit) -> None:
        """Note that a unit is being computed."""
        attempts = self._group["attempts"]
        try:
            before = int(attempts[unit])
        except Exception:  # a count that is damaged begins anew
            before = 0
        attempts[unit] = before + 1

    def write(self, unit: Unit, found: dict[str, np.ndarray]) -> None:
        """Write a unit's chunks, then its mark."""
        region = self._plan.region(unit)
        for name, values in found.items():
            self._group[name][region] = values
        self._group["done"][unit] = 1

    def dataset(self) -> xr.Dataset:
        """What the store holds, read when it is used."""
        return open_sweep(self.path)


def open_sweep(path: Any) -> xr.Dataset:
    """Open a store as a labelled dataset, whole or still being made; values are read when used."""
    path = Path(path)
    if not path.exists():
        raise InputError(
            f"{path} is not there. Make it with `engram sweep SPEC.toml --out {path}`."
        )
    group = _open_group(path, "r")
    attrs = dict(group.attrs)
    if attrs.get("kind") != _KIND:
        raise InputError(
            f"{path} is not a sweep of engram. Name a store that `engram sweep` wrote."
        )
    axes = _spec_in(path, attrs)["axes"]
    for name, values in axes.items():
        if not _has_axis(group, name, values):
            raise InputError(
                f"{path} is damaged: its axis `{name}` is not that of its spec. Run `engram sweep` with "
                "its spec again, which writes it anew."
            )
    with _damage_told(path, "done"):
        marks = group["done"][...]
        marked = _marked(marks)
        left = marks.size - len(marked)
    with _damage_told(path):
        arrays = xr.open_zarr(path, consolidated=False, chunks=None).drop_vars(list(_OWN)).variables
        # Zarr lists arrays in any order.
        names = attrs.get("variables", sorted(str(name) for name in arrays if name not in axes))
        data = xr.Dataset(
            {name: arrays[name] for name in names if name in arrays},
            {name: arrays[name] for name in axes},
            attrs,
        )
        data = data.assign_coords(data.attrs.pop("labels", {}))
    if not data.data_vars:
        raise _damaged(path, None, "none is left of what was measured")
    for array in data.data_vars.values():
        array.encoding["source"] = str(path)
    for unit in marked:
        left += not all(
            _chunk(path / str(name), unit, array.ndim).is_file()
            for name, array in data.data_vars.items()
        )
    data.attrs["units_left"] = left
    return data


def loaded(array: xr.DataArray) -> xr.DataArray:
    """A variable of a sweep in memory; damage to its store is told."""
    try:
        return array.load()
    except MemoryError:
        raise
    except Exception as error:  # zarr tells damage in many ways
        raise InputError(
            f"{array.encoding.get('source', 'the store')} is damaged: `{array.name}` in it cannot be read "
            f"({type(error).__name__}: {_first_line(error)}). Run `engram sweep` with its spec again, which "
            "computes what is damaged anew."
        ) from None


def _marked(marks: np.ndarray) -> set[Unit]:
    return {tuple(int(k) for k in unit) for unit in np.argwhere(marks == 1)}


def _chunk(folder: Path, unit: Unit, ndim: int) -> Path:
    """The file of a unit in an array; axes besides the sweep's are not cut."""
    return folder.joinpath("c", *map(str, unit), *["0"] * (ndim - len(unit)))


def _has_axis(group: Any, name: str, values: Any) -> bool:
    try:
        return np.array_equal(group[name][...], values)
    except Exception:  # zarr tells damage in many ways
        return False


def _damaged(path: Path, what: str | None, why: str) -> InputError:
    name = "an array" if what is None else f"`{what}`"
    return InputError(
        f"{path} is damaged: {name} in it cannot be used ({why}). Name another store, or delete this one "
        "and run again."
    )


@contextlib.contextmanager
def _damage_told(path: Path, what: str | None = None) -> Iterator[None]:
    """Whatever goes wrong while a store is read, as one error that names it."""
    try:
        yield
    except PermissionError:
        raise
    except Exception as error:  # zarr tells damage in many ways
        raise _damaged(path, what, f"{type(error).__name__}: {_first_line(error)}") from None


def _spec_in(path: Path, attrs: dict[str, Any]) -> dict[str, Any]:
    """The spec that a store says it was made from."""
    with _damage_told(path, "spec"):
        spec = json.loads(attrs["spec"])
        if not isinstance(spec["axes"], dict):
            raise TypeError("its axes are no table")
        return spec


def _open_group(path: Path, mode: Any) -> Any:
    import zarr

    try:
        # A chunk of NaN alone is a result too: it gets its file.
        with zarr.config.set({"array.write_empty_chunks": True}):
            return _Opened(zarr.open_group(path, mode=mode))
    except PermissionError:
        raise
    except Exception as error:  # zarr tells damage in many ways
        if not path.is_dir() or not any(path.iterdir()):
            raise InputError(
                f"{path} is not a Zarr store. Name another one, or move it away."
            ) from None
        raise InputError(
            f"{path} cannot be read as a Zarr store ({type(error).__name__}: {_first_line(error)}). Move it "
            "away and run again."
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


class _Opened:
    """A group whose arrays are opened once, with chunks of fill values written too."""

    def __init__(self, group: Any):
        self.group, self.attrs, self._arrays = group, group.attrs, {}

    def __getitem__(self, name: str) -> Any:
        import zarr

        if name not in self._arrays:
            with zarr.config.set({"array.write_empty_chunks": True}):
                self._arrays[name] = self.group[name]
        return self._arrays[name]


def _create(path: Path, plan: Plan) -> None:
    """Make an empty store beside `path` and move it there, so that it is whole or absent."""
    import zarr
    from zarr.codecs import ZstdCodec

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        group = zarr.create_group(partial)
        group.attrs.update(
            {
                "kind": _KIND,
                "spec": json.dumps(plan.text),
                "spec_hash": plan.hash,
                "variables": list(plan.outputs),
                **({"labels": dict(plan.labels)} if plan.labels else {}),
                "engram": engram.__version__,
                "jax": jax.__version__,
            }
        )
        for name, values in plan.axes.items():
            _write_axis(group, name, values)
        axes = list(plan.axes)
        for name, about in plan.outputs.items():
            fill: Any = (
                np.nan
                if about.dtype.startswith("float")
                else -1
                if about.dtype.startswith("int")
                else 0
            )
            group.create_array(
                name,
                shape=(*plan.shape, *about.sizes),
                chunks=(*plan.block, *about.sizes),
                dtype=about.dtype,
                fill_value=fill,
                dimension_names=[*axes, *about.axes],
                attributes=about.attrs,
                compressors=ZstdCodec(checksum=True),  # a chunk that rots is found out
                config={"write_empty_chunks": True},
            )
        blocks = [f"block_{name}" for name in axes]
        for name, dtype in _OWN.items():
            group.create_array(
                name,
                shape=plan.blocks,
                chunks=(1,) * len(axes),
                dtype=dtype,
                fill_value=0,
                dimension_names=blocks,
            )
        try:
            partial.rename(path)
        except OSError:
            if not path.exists():  # else another process was quicker: its store will do
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_axis(group: Any, name: str, values: np.ndarray) -> None:
    made = group.create_array(
        name,
        shape=values.shape,
        chunks=values.shape,
        dtype=values.dtype,
        dimension_names=[name],
        overwrite=True,
    )
    made[...] = values


def _check_same(path: Path, attrs: dict[str, Any], plan: Plan) -> None:
    if attrs.get("kind") != _KIND:
        raise InputError(f"{path} is not a sweep of engram. Name another store.")
    spec = _spec_in(path, attrs)
    if hash_of(spec) == plan.hash:
        return
    changes = changes_between(spec, plan.text, "in the store")
    raise InputError(
        f"{path} holds another sweep; a store is resumed with its own spec only. Changed:\n  "
        + "\n  ".join(changes)
        + "\nName another store, or take the old spec."
    )
