"""Named arrays in a file of a model: `.safetensors` or `.npz`, looked at before they are read."""

import fnmatch
import importlib
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engram._checks import InputError
from engram._memory_limits import check_fits

_SHOWN = 8  # names in a message
_REAL = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8"}


class TensorFile(Mapping[str, np.ndarray]):
    """The arrays of a file by name; each is read when it is asked for, if it fits into memory."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path: Path = Path(path)
        readers = {".safetensors": _Safetensors, ".npz": _Archive}
        if self.path.suffix.lower() not in readers:
            raise InputError(
                f"FILE must end in .safetensors or .npz, got {self.path}. Other formats may run code when "
                "they are read: convert it."
            )
        if not self.path.is_file():
            raise InputError(f"FILE must be a file, got {self.path}. Check the name.")
        with self._damage_reported():
            self._reader = readers[self.path.suffix.lower()](self.path)
            self.shapes: dict[str, tuple[int, ...]] = self._reader.shapes()

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, name: str) -> np.ndarray:
        self.check("NAME", name)
        shape = self.shapes[name]
        check_fits(4 * 8 * math.prod(shape), **{name: max(shape, default=1)})
        with self._damage_reported(name):
            return self._reader.read(name)

    def check(self, option: str, name: str) -> None:
        """Refuse a name that the file does not have."""
        if name not in self.shapes:
            raise InputError(
                f"`{option}` must name an array of {self.path}, got {name!r}. It has {self._listed()}."
            )

    def matching(self, option: str, patterns: list[str]) -> list[str]:
        """The names that patterns stand for, in the order of the file; each pattern must match."""
        names: dict[str, None] = {}
        for pattern in patterns:
            matches = [pattern] if pattern in self.shapes else fnmatch.filter(self, pattern)
            if not matches:
                self.check(option, pattern)
            names |= dict.fromkeys(matches)
        return list(names)

    def _listed(self) -> str:
        rows = [f"{name} {shape}" for name, shape in list(self.shapes.items())[:_SHOWN]]
        more = len(self.shapes) - _SHOWN
        return ", ".join(rows) + (f" and {more} more" if more > 0 else "") if rows else "none"

    def _damage_reported(self, name: str | None = None) -> Any:
        return _Reported(self.path, name)


class _Reported:
    """Whatever goes wrong while a file is read, as one line."""

    def __init__(self, path: Path, name: str | None):
        self._what = str(path) if name is None else f"{name!r} of {path}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is None or not isinstance(error, Exception):
            return
        if isinstance(error, InputError | MemoryError | PermissionError):
            return
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{self._what} cannot be read ({said}). It is damaged, or of another kind; write it again."
        ) from None


class _Safetensors:
    """Read by its own library, which checks the header and runs nothing."""

    def __init__(self, path: Path):
        try:
            safe_open = importlib.import_module("safetensors").safe_open
        except ImportError:
            raise InputError(
                "FILE is read with the library safetensors, which is not there. `pip install safetensors`."
            ) from None
        self._open = lambda: safe_open(str(path), framework="numpy")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        with self._open() as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118

    def read(self, name: str) -> np.ndarray:
        # NumPy knows bfloat16 from JAX, which is loaded.
        with self._open() as file:
            dtype = str(file.get_slice(name).get_dtype())
            if dtype not in _REAL:
                raise InputError(
                    f"{name!r} must hold real numbers of 16 bits or more, got {dtype}. Convert it first."
                )
            return np.array(file.get_tensor(name))


class _Archive:
    """NumPy's archive, without pickle. What a member says of its size is believed only up to its bytes."""

    def __init__(self, path: Path):
        self._path = path

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {}
        with zipfile.ZipFile(self._path) as archive:
            for member in archive.infolist():
                name, is_array = (
                    member.filename.removesuffix(".npy"),
                    member.filename.endswith(".npy"),
                )
                if is_array:
                    shapes[name] = self._header(archive, member)[0]
        return shapes

    def _header(
        self, archive: zipfile.ZipFile, member: zipfile.ZipInfo
    ) -> tuple[tuple[int, ...], Any]:
        with archive.open(member) as file:
            version = np.lib.format.read_magic(file)
            readers = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }
            if version not in readers:
                raise ValueError(f"{member.filename} has the version {version}")
            try:
                shape, _, dtype = readers[version](file)
            except Exception:  # NumPy advises to trust the file
                raise ValueError(f"{member.filename} has no usable header") from None
            if dtype.hasobject:
                raise ValueError(f"{member.filename} holds Python objects, which are not read")
            if math.prod(shape) * dtype.itemsize > member.file_size:
                raise ValueError(f"{member.filename} has fewer bytes than its shape {shape} needs")
            return shape, dtype

    def read(self, name: str) -> np.ndarray:
        with np.load(self._path, allow_pickle=False) as archive:
            return archive[name]
