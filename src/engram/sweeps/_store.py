"""The store: one Zarr folder that holds a sweep, also while it is being made."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

import engram
from engram._checks import InputError
from engram._files import changes_between
from engram.sweeps._plan import Plan, Unit

_KIND = "engram sweep"
_OWN = ("done", "attempts")


class Store:
    """A sweep on disk: a Zarr group with one chunk per unit, and a mark for each unit that is whole.

    A unit's mark is written after all its chunks. Whatever is cut short has no mark, and is computed again.
    """

    def __init__(self, path: Path, group: Any, plan: Plan):
        self.path, self._group, self._plan = path, group, plan

    @staticmethod
    def open(path: Any, plan: Plan) -> "Store":
        """Open the store of this very sweep, or make one where there is nothing."""
        path = Path(path)
        if not path.exists():
            _create(path, plan)
        store = Store(path, _open_group(path, "r+"), plan)
        _check_same(path, dict(store._group.attrs), plan)
        missing = [name for name in (*plan.outputs, *_OWN) if name not in store._group]
        if missing:
            raise InputError(
                f"{path} is damaged: `{missing[0]}` is not in it. Move it away and run again."
            )
        return store

    def done(self) -> set[Unit]:
        """The units that are whole."""
        try:
            marks = self._group["done"][...]
        except Exception as error:  # a damaged mark may be anything
            raise InputError(
                f"{self.path} is damaged: its marks cannot be read ({error}). Remove the folder "
                f"{self.path}/done/c to compute all units again, or move the store away."
            ) from None
        return {tuple(int(k) for k in unit) for unit in np.argwhere(marks == 1)}

    def is_done(self, unit: Unit) -> bool:
        """Whether one unit is whole."""
        return int(self._group["done"][unit]) == 1

    def begin(self, unit: Unit) -> None:
        """Note that a unit is being computed."""
        attempts = self._group["attempts"]
        attempts[unit] = int(attempts[unit]) + 1

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
    attrs = dict(_open_group(path, "r").attrs)
    if attrs.get("kind") != _KIND:
        raise InputError(
            f"{path} is not a sweep of engram. Name a store that `engram sweep` wrote."
        )
    data = xr.open_zarr(path, consolidated=False, chunks=None)
    left = int((data.done.values != 1).sum())
    data = data.drop_vars(list(_OWN))
    data.attrs["units_left"] = left
    return data


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
        self._group, self.attrs, self._arrays = group, group.attrs, {}

    def __contains__(self, name: str) -> bool:
        return name in self._group

    def __getitem__(self, name: str) -> Any:
        import zarr

        if name not in self._arrays:
            with zarr.config.set({"array.write_empty_chunks": True}):
                self._arrays[name] = self._group[name]
        return self._arrays[name]


def _create(path: Path, plan: Plan) -> None:
    """Make an empty store beside `path` and move it there, so that it is whole or absent."""
    import zarr

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
                "engram": engram.__version__,
                "jax": jax.__version__,
            }
        )
        for name, values in plan.axes.items():
            made = group.create_array(
                name,
                shape=values.shape,
                chunks=values.shape,
                dtype=values.dtype,
                dimension_names=[name],
            )
            made[...] = values
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
                config={"write_empty_chunks": True},
            )
        blocks = [f"block_{name}" for name in axes]
        for name, dtype in (("done", "uint8"), ("attempts", "uint16")):
            group.create_array(
                name,
                shape=plan.blocks,
                chunks=(1,) * len(axes),
                dtype=dtype,
                fill_value=0,
                dimension_names=blocks,
            )
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_same(path: Path, attrs: dict[str, Any], plan: Plan) -> None:
    if attrs.get("kind") != _KIND or "spec" not in attrs:
        raise InputError(f"{path} is not a sweep of engram. Name another store.")
    if attrs.get("spec_hash") == plan.hash:
        return
    changes = changes_between(json.loads(attrs["spec"]), plan.text, "in the store")
    raise InputError(
        f"{path} holds another sweep; a store is resumed with its own spec only. Changed:\n  "
        + "\n  ".join(changes)
        + "\nName another store, or take the old spec."
    )
