"""Records: a Zarr store to which a training loop appends, and which a kill at any moment leaves whole.

Each array has one file per chunk of records, not compressed, into which a record is written at its place. An
array has as many records as its `zarr.json` says. Those files are replaced last, that of `numbers` as the
very last: a record is there once that one says so, and what a killed process has half written is not read,
and written over when recording is resumed.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import engram
from engram._checks import InputError
from engram._memory_limits import check_fits
from engram.problem import Problem

KIND = "engram recording"
NUMBERS = ("step", "loss", "learning_rate")  # of each record, in the array `numbers`
_FORMAT = 1
_CHUNK = 2**22  # bytes, about; a record that is larger has a chunk of its own
_MOST_RECORDS = 4096  # in a chunk
_AXES = {
    "numbers": ("number",),
    "weights": ("row", "col"),
    "gradients": ("row", "col"),
    "inputs": ("token", "component"),
    "outputs": ("class", "output_component"),
}
_PROBLEM = ("inputs", "outputs", "probs", "targets")


class Growing:
    """One array of a store, by record: its form, and the file that is being written."""

    def __init__(self, folder: Path, shape: tuple[int, ...], dtype: Any):
        self.folder, self.shape, self.dtype = folder, shape, np.dtype(dtype).newbyteorder("<")
        self.size = self.dtype.itemsize * int(np.prod(shape))
        self.per_chunk = int(np.clip(_CHUNK // max(self.size, 1), 1, _MOST_RECORDS))
        self._chunk, self._file = -1, -1

    def about(self, count: int) -> dict[str, Any]:
        """What `zarr.json` says of the array when it has so many records."""
        chunk = {"chunk_shape": [self.per_chunk, *self.shape]}
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [count, *self.shape],
            "data_type": self.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": chunk},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "NaN",
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {},
            "dimension_names": ["record", *_AXES[self.folder.name]],
        }

    def write(self, index: int, values: np.ndarray) -> None:
        """Put a record in its place; it does not count before `commit`."""
        chunk, place = divmod(index, self.per_chunk)
        if chunk != self._chunk:
            self.close()
            path = self.chunk_path(chunk)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file, self._chunk = os.open(path, os.O_RDWR | os.O_CREAT, 0o666), chunk
            os.ftruncate(self._file, self.per_chunk * self.size)
        data = np.ascontiguousarray(values, self.dtype).data.cast("B")
        offset = place * self.size
        while data:
            written = os.pwrite(self._file, data, offset)
            data, offset = data[written:], offset + written

    def commit(self, count: int) -> None:
        """Say that the array has so many records."""
        replace_text(self.folder / "zarr.json", json.dumps(self.about(count)))

    def chunk_path(self, chunk: int) -> Path:
        return self.folder.joinpath("c", str(chunk), *["0"] * len(self.shape))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._chunk, self._file = -1, -1


class Records:
    """A recording on disk."""

    def __init__(self, path: Path, problem: Problem, arrays: dict[str, Growing], count: int):
        self.path, self.problem, self.arrays, self.count = path, problem, arrays, count
        self._lock = -1

    def append(self, values: Mapping[str, Any]) -> None:
        """Add a record, whole or not at all: arrays by name, `numbers` among them."""
        for name, value in values.items():
            if name not in self.arrays:
                self.arrays[name] = Growing(self.path / name, value.shape, value.dtype)
                self.arrays[name].folder.mkdir(exist_ok=True)
        for name, array in self.arrays.items():
            missing = np.full(array.shape, np.nan, array.dtype)
            array.write(self.count, values.get(name, missing))
        self.commit(self.count + 1)

    def commit(self, count: int) -> None:
        """Make the store hold so many records; the array that counts comes last."""
        for name, array in self.arrays.items():
            if name != "numbers":
                array.commit(count)
        self.arrays["numbers"].commit(count)
        self.count = count

    def read(self, name: str) -> Any:
        """An array as Zarr has it; it may have a record more than counts."""
        import zarr

        with damage_reported(self.path, name):
            return zarr.open_array(self.path / name, mode="r")

    def numbers(self) -> dict[str, np.ndarray]:
        """Steps, losses and learning rates of the records."""
        if not self.count:
            return {name: np.zeros(0) for name in NUMBERS}
        with damage_reported(self.path, "numbers"):
            table = np.asarray(self.read("numbers")[: self.count])
        return dict(zip(NUMBERS, table.T, strict=True))

    def lock(self) -> None:
        """Keep other processes from writing here while this one lives."""
        with contextlib.suppress(ImportError):
            import fcntl

            # A file that nobody else opens: to close it elsewhere in this process would end the lock.
            path = self.path / "problem_probs" / ".lock"
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.close()
                raise InputError(
                    f"`store` must be free, got {self.path}, which another process is recording to. Record "
                    "from one process, or name another store."
                ) from None

    def close(self) -> None:
        for array in self.arrays.values():
            array.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def create_records(path: Path, problem: Problem) -> Records:
    """Make an empty store, whole or not at all."""
    import zarr

    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        names = {"names": problem.names, "class_names": problem.class_names}
        attrs = {"kind": KIND, "format": _FORMAT, "engram": engram.__version__} | names
        group = zarr.create_group(folder, attributes=attrs)
        for name, axes in problem.axes().items():
            value = np.asarray(getattr(problem, name))
            group.create_array(f"problem_{name}", data=value, dimension_names=axes)
        umask = os.umask(0)
        os.umask(umask)
        folder.chmod(0o777 & ~umask)  # mkdtemp makes 0700
        folder.rename(path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Records(path, problem, {}, 0)


def open_records(path: Path) -> Records:
    """Open a store; one that cannot be used gets one clear error."""
    attrs = _attributes(path)
    problem = _problem_in(path, attrs)
    arrays: dict[str, Growing] = {}
    count = 0
    for name in _AXES:
        if (path / name / "zarr.json").is_file():
            arrays[name], length = _growing_in(path, name, problem)
            count = length if name == "numbers" else count
    if "numbers" not in arrays:  # killed before the first record
        return Records(path, problem, {}, 0)
    for name, array in arrays.items():
        _check_chunks(path, name, array, count)
    return Records(path, problem, arrays, count)


def is_recording(path: Path) -> bool:
    """Whether a folder is a recording, also a damaged one."""
    try:
        return json.loads((path / "zarr.json").read_text())["attributes"]["kind"] == KIND
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _attributes(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"{path} does not exist. Name a store that `engram.Recorder` wrote.")
    if not is_recording(path):
        raise InputError(
            f"{path} is not a recording. Name a store that `engram.Recorder` wrote, or a new one."
        )
    attrs = json.loads((path / "zarr.json").read_text())["attributes"]
    if attrs.get("format") != _FORMAT:
        raise InputError(
            f"{path} has the format {attrs.get('format')!r}, and this engram knows {_FORMAT}. Install the "
            f"engram that wrote it ({attrs.get('engram', 'unknown')})."
        )
    return attrs


def _problem_in(path: Path, attrs: dict[str, Any]) -> Problem:
    import zarr

    values = {}
    is_judged = (path / "problem_clean_labels").is_dir()
    for name in (*_PROBLEM, *["clean_labels"] * is_judged):
        with damage_reported(path, f"problem_{name}"):
            array = zarr.open_array(path / f"problem_{name}", mode="r")
            check_fits(4 * array.nbytes, **{f"problem_{name}": max(array.shape, default=1)})
            values[name] = array[...]
    with damage_reported(path, "problem"):
        return Problem(**values, names=attrs.get("names"), class_names=attrs.get("class_names"))


def shapes_of(problem: Problem) -> dict[str, tuple[int, ...]]:
    """The shape that a record of each array has."""
    W = (problem.output_dim, problem.dim)
    embeddings = {"inputs": problem.inputs.shape, "outputs": problem.outputs.shape}
    return {"numbers": (len(NUMBERS),), "weights": W, "gradients": W, **embeddings}


def _growing_in(path: Path, name: str, problem: Problem) -> tuple[Growing, int]:
    """An array of a store, which must be as this module writes it, and how many records it says it has."""
    with damage_reported(path, name):
        about = json.loads((path / name / "zarr.json").read_text())
        dtype, count = about["data_type"], about["shape"][0]
        if dtype not in ("float32", "float64") or type(count) is not int or count < 0:
            raise ValueError(f"data_type {dtype!r}, {count!r} records")
        array = Growing(path / name, shapes_of(problem)[name], dtype)
        if about != array.about(count):
            raise ValueError("its zarr.json is not as it was written")
        return array, count


def _check_chunks(path: Path, name: str, array: Growing, count: int) -> None:
    """Refuse a store without the file of a chunk; gradients may begin later than the records."""
    optional = name == "gradients"
    for chunk in range(-(-count // array.per_chunk)):
        file = array.chunk_path(chunk)
        size = file.stat().st_size if file.is_file() else None
        if size != array.per_chunk * array.size and not (optional and size is None):
            first = chunk * array.per_chunk
            raise InputError(
                f"{path} is damaged: the file of `{name}` from record {first} on is missing or cut short "
                f"({file}). Restore it, or record again into another store."
            )


@contextlib.contextmanager
def damage_reported(path: Path, name: str) -> Iterator[None]:
    """Whatever goes wrong while a store is read, as one line."""
    try:
        yield
    except (PermissionError, MemoryError):
        raise
    except Exception as error:  # zarr reports damage in many ways
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{path} is damaged: `{name}` in it cannot be used ({said}). Record again into another store."
        ) from None


def replace_text(path: Path, text: str) -> None:
    """Write a small file at once: a reader, or whoever comes after a kill, sees the old or the new one."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    os.replace(temporary, path)
