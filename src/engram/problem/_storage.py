"""Named arrays in one file: `.npz` without pickle, or NetCDF."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engram._checks import InputError
from engram._files import written_whole
from engram._foreign_files import check_hdf5, check_zip

_FORMATS = "Use a name that ends in .npz or .nc."


def write_arrays(
    path: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray],
    axes: Mapping[str, tuple[str, ...]],
) -> None:
    """Write named arrays, whole or not at all; NetCDF also keeps the names of the axes."""
    suffix = Path(path).suffix
    if suffix not in (".npz", ".nc"):
        raise InputError(f"`path` has the unknown ending {suffix!r}: {os.fspath(path)}. {_FORMATS}")
    with written_whole(path) as temporary:
        if suffix == ".npz":
            np.savez(temporary, allow_pickle=False, **arrays)
        else:
            import xarray as xr

            dataset = xr.Dataset({name: (axes[name], array) for name, array in arrays.items()})
            dataset.attrs["about"] = "engram problem: embeddings, token frequencies, targets"
            temporary.write_bytes(dataset.to_netcdf(engine="h5netcdf"))


def read_arrays(
    path: str | os.PathLike[str], names: tuple[str, ...], *, optional: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """Read the named arrays back, of the optional ones those there are.

    A file that cannot be used gets one clear error.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"`path` is not a file: {path}. Check the name.")
    if path.suffix not in (".npz", ".nc"):
        raise InputError(f"`path` has the unknown ending {path.suffix!r}: {path}. {_FORMATS}")
    try:
        read = read_npz if path.suffix == ".npz" else _read_netcdf
        arrays = read(path, (*names, *optional))
    except InputError:
        raise
    except Exception as error:  # of what type depends on where a file is damaged
        raise InputError(
            f"`path` cannot be read as {path.suffix}: {path} ({one_line(error)}). "
            "It is damaged, or of another kind; write it again with `problem.save`."
        ) from None
    missing = [name for name in names if name not in arrays]
    if missing:
        held = _held(path)
        raise InputError(
            f"`path` lacks the array{'s' if len(missing) > 1 else ''} {', '.join(missing)}: "
            f"{path} holds {', '.join(held) or 'nothing'}. Is it a problem file?"
        )
    return {name: arrays[name] for name in (*names, *optional) if name in arrays}


def one_line(error: Exception) -> str:
    """What an exception says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def read_npz(path: str | os.PathLike[str], names: Collection[str] | None = None) -> dict[str, Any]:
    """Those of the named arrays that a `.npz` has, by default all; if it is damaged, any exception."""
    # Opened here, since np.load leaves a file open that turns out not to be an archive.
    with open(path, "rb") as file:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it holds one array without a name")
        check_zip(path)
        return {name: archive[name] for name in archive.files if names is None or name in names}


def _held(path: Path) -> list[str]:
    """The names of the arrays in a file that was read."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return list(archive.files)
    import h5py

    with h5py.File(path) as file:
        return [name for name, item in file.items() if isinstance(item, h5py.Dataset)]


def _read_netcdf(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    # Past the labels of the axes, which are not needed: HDF5 may search damaged ones for ever.
    import h5py

    check_hdf5(path)
    with h5py.File(path) as file:
        arrays = {
            name: item
            for name, item in file.items()
            if name in names and isinstance(item, h5py.Dataset)
        }
        is_text = lambda item: h5py.check_string_dtype(item.dtype) is not None
        return {
            name: np.asarray(item.asstr()[()] if is_text(item) else item[()])
            for name, item in arrays.items()
        }
