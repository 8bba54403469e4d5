"""Records: a Zarr store to which a training loop appends, and which a kill at any moment leaves whole.

Each array has one file per chunk of records, not compressed, into which a record is written at its place; its
`zarr.json` says for how many there is room. The row in `numbers` is written last: a record is there once its
step is a number. What a killed process has half written is not read, and written over when recording is
resumed.
"""

import contextlib
import itertools
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
from engram._foreign_files import check_links, check_zarr_array
from engram._memory_limits import check_fits
from engram.problem import Problem

KIND = "engram recording"
NUMBERS = ("step", "loss", "learning_rate")  # of each record, in the array `numbers`
_FORMAT = 1
_CHUNK = 2**22  # bytes, about; a record that is larger has a chunk of its own
_MOST_RECORDS = 4096  # in a chunk
_ROOM = 64  # records that there is room for at first
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
        self.room = 0  # records that `zarr.json` says there are
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
        """Put a record, or some within a chunk, in its place."""
        chunk, place = divmod(index, self.per_chunk)
        if chunk != self._chunk:
            self.close()
            path = self.chunk_path(chunk)
            path.parent.mkdir(parents=True, exist_ok=True)
            if (
                self.folder.name == "numbers" and not path.exists()
            ):  # rows without a step do not count
                replace(path, np.full((self.per_chunk, *self.shape), np.nan, self.dtype).tobytes())
            self._file, self._chunk = _open_file(path), chunk
            os.ftruncate(self._file, self.per_chunk * self.size)
        data = np.ascontiguousarray(values, self.dtype).data.cast("B")
        offset = place * self.size
        while data:
            written = os.pwrite(self._file, data, offset)
            data, offset = data[written:], offset + written

    def say(self, room: int) -> None:
        """Say for how many records there is room."""
        if room != self.room:
            replace(self.folder / "zarr.json", json.dumps(self.about(room)).encode())
            self.room = room

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
                self._fill(self.arrays[name])
        room = self.arrays["numbers"].room
        room = room if room > self.count else max(2 * self.count, _ROOM)
        for name, array in sorted(self.arrays.items(), key=lambda pair: pair[0] == "numbers"):
            value = values.get(name)
            missing = lambda array=array: np.full(array.shape, np.nan, array.dtype)
            array.write(self.count, missing() if value is None else value)
            array.say(room)
        self.count += 1

    def _fill(self, array: Growing) -> None:
        """Say of an array that begins late that the records before, in the same chunk, have none of it."""
        first = self.count // array.per_chunk * array.per_chunk
        for record in range(first, self.count):
            array.write(record, np.full(array.shape, np.nan, array.dtype))

    def cut(self, count: int) -> None:
        """Forget the records from some one on, the last ones first."""
        numbers = self.arrays["numbers"]
        for first in reversed(range(0, self.count, numbers.per_chunk)):
            kept, end = max(first, count), min(first + numbers.per_chunk, self.count)
            numbers.write(kept, np.full((max(end - kept, 0), *numbers.shape), np.nan))
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
            steps = table[:, 0]
            is_whole = ((steps >= 0) & (steps < 2**53) & (np.floor(steps) == steps)).all()
            if not is_whole or (np.diff(steps) <= 0).any():
                raise ValueError("its steps are not increasing whole numbers")
        return dict(zip(NUMBERS, table.T, strict=True))

    def lock(self) -> None:
        """Keep other processes from writing here while this one lives."""
        with contextlib.suppress(ImportError):
            import fcntl

            # A file that nobody else opens: to close it elsewhere in this process would end the lock.
            path = self.path / "problem_probs" / ".lock"
            self._lock = _open_file(path)
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
    check_links(path)
    attrs = _attributes(path)
    problem = _problem_in(path, attrs)
    arrays: dict[str, Growing] = {}
    count = 0
    for name in _AXES:
        if (path / name / "zarr.json").is_file():
            arrays[name] = _growing_in(path, name, problem)
    if "numbers" not in arrays:  # killed before the first record
        return Records(path, problem, {}, 0)
    if "weights" not in arrays:  # which are written before the numbers
        raise InputError(
            f"{path} is damaged: it has no `weights`. Record again into another store."
        )
    count = min(_count_in(path, arrays["numbers"]), *(array.room for array in arrays.values()))
    for name, array in arrays.items():
        for chunk in range(-(-count // array.per_chunk)):
            _check_chunk(path, array, chunk, may_lack=name == "gradients")  # which may begin late
    return Records(path, problem, arrays, count)


def is_recording(path: Path) -> bool:
    """Whether a folder is a recording, also a damaged one."""
    try:
        return json.loads((path / "zarr.json").read_text())["attributes"]["kind"] == KIND
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
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
            group = zarr.open_group(path, mode="r", use_consolidated=False)
            array: Any = group[f"problem_{name}"]
            check_zarr_array(path, array)
            check_fits(4 * array.nbytes, **{f"problem_{name}": max(array.shape, default=1)})
            values[name] = array[...]
    with damage_reported(path, "problem"):
        return Problem(**values, names=attrs.get("names"), class_names=attrs.get("class_names"))


def shapes_of(problem: Problem) -> dict[str, tuple[int, ...]]:
    """The shape that a record of each array has."""
    W = (problem.output_dim, problem.dim)
    embeddings = {"inputs": problem.inputs.shape, "outputs": problem.outputs.shape}
    return {"numbers": (len(NUMBERS),), "weights": W, "gradients": W, **embeddings}


def _count_in(path: Path, numbers: Growing) -> int:
    """How many records there are: rows of `numbers` up to the first without a step."""
    for chunk in itertools.count():
        file = numbers.chunk_path(chunk)
        if chunk and not file.is_file():
            return chunk * numbers.per_chunk
        _check_chunk(path, numbers, chunk)
        steps = np.fromfile(file, numbers.dtype).reshape(-1, *numbers.shape)[:, 0]
        if np.isnan(steps).any():
            return chunk * numbers.per_chunk + int(np.argmax(np.isnan(steps)))
    raise AssertionError("counting does not end")


def _growing_in(path: Path, name: str, problem: Problem) -> Growing:
    """An array of a store, which must be as this module writes it."""
    with damage_reported(path, name):
        about = json.loads((path / name / "zarr.json").read_text())
        dtype, count = about["data_type"], about["shape"][0]
        if dtype not in ("float32", "float64") or type(count) is not int or count < 0:
            raise ValueError(f"data_type {dtype!r}, {count!r} records")
        array = Growing(path / name, shapes_of(problem)[name], dtype)
        if about != array.about(count):
            raise ValueError("its zarr.json is not as it was written")
        array.room = count
        return array


def _check_chunk(path: Path, array: Growing, chunk: int, *, may_lack: bool = False) -> None:
    """Refuse a store without the file of a chunk."""
    file = array.chunk_path(chunk)
    size = file.stat().st_size if file.is_file() else None
    if size != array.per_chunk * array.size and not (may_lack and size is None):
        raise InputError(
            f"{path} is damaged: the file of `{array.folder.name}` from record {chunk * array.per_chunk} on "
            f"is missing or cut short ({file}). Restore it, or record again into another store."
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


def _open_file(path: Path) -> int:
    """Open a file of a store to write to it, but never what a symbolic link leads to."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError:
        check_links(path.parent)
        raise


def replace(path: Path, content: bytes) -> None:
    """Write a small file at once: a reader, or whoever comes after a kill, sees the old or the new one."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    os.replace(temporary, path)
