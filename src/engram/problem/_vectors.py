"""Embeddings of one's own from a file: arrays, or words with their numbers."""

import dataclasses
import os
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from engram._checks import InputError
from engram._memory_limits import check_fits
from engram._tensors import TensorFile

_LONGEST = 2**20  # characters of a line


@dataclasses.dataclass(frozen=True, eq=False)
class Vectors:
    """Rows of numbers, and what they are called if the file says it."""

    rows: Float[np.ndarray, "n d"]
    names: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        count, dim = self.rows.shape
        return f"Vectors({count} of {dim} numbers{', named' if self.names else ''})"

    def of(self, names: Collection[str]) -> Float[np.ndarray, "m d"]:
        """The rows with these names, in their order."""
        if self.names is None:
            return self.rows
        where = {name: row for row, name in enumerate(self.names)}
        if absent := [name for name in names if name not in where]:
            shown = ", ".join(map(repr, absent[:5]))
            raise InputError(f"{len(absent)} of {len(names)} names have no vector: {shown}.")
        return self.rows[[where[name] for name in names]]


def read_vectors(
    path: str | os.PathLike[str],
    array: str | None = None,
    *,
    only: Collection[str] | None = None,
) -> Vectors:
    """Read embeddings, for `inputs` and `outputs` of `from_text` and `from_counts`; elsewhere give `rows`.

    Args:
        path: `.npy`, `.npz` or `.safetensors`; any other file is text as word2vec and GloVe write it,
            a word and its numbers in each line (a first line of two integers is skipped).
        array: The name of the array in an `.npz` or `.safetensors` file that holds several.
        only: Words to read, where a text has more than are wanted.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if array is not None and kind not in (".npz", ".safetensors"):
        raise InputError(
            f"`array` belongs to .npz and .safetensors files, got {path}. Leave it out."
        )
    if kind not in (".npy", ".npz", ".safetensors"):
        return _read_text(path, only)
    if kind == ".npy":
        rows = _read_npy(path)
    else:
        file = TensorFile(path)
        names = (
            [array] if array else [name for name, shape in file.shapes.items() if len(shape) == 2]
        )
        if len(names) != 1:
            raise InputError(
                f"`array` must say which of {len(names)} matrices of {path} to take: "
                f"{', '.join(names) or 'there is none'}."
            )
        rows = file[names[0]]
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" and rows.dtype.name != "bfloat16":
        raise InputError(
            f"{path} must hold a matrix of numbers with a row per token, got {rows.dtype} of {rows.shape}."
        )
    return Vectors(rows.astype(float))


def _read_npy(path: Path) -> np.ndarray:
    try:
        whole = np.load(path, mmap_mode="r", allow_pickle=False)
        check_fits(2 * 8 * whole.size, size=whole.size)
        return np.array(whole)
    except (OSError, ValueError, EOFError) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{path} cannot be read as an array ({said}). Write it again.") from None


def _read_text(path: Path, only: Collection[str] | None) -> Vectors:
    wanted, rows, dim = None if only is None else set(only), {}, 0
    for number, (name, numbers) in enumerate(_lines(path), 1):
        if (wanted is not None and name not in wanted) or name in rows:
            continue
        try:
            row = np.array(numbers.split(), float)
        except ValueError:
            row = np.empty(0)
        if not row.size or not np.isfinite(row).all() or len(row) != (dim or len(row)):
            raise InputError(
                f"{path} must have a word and its numbers in each line, as many as in the first one: line "
                f"{number} has not."
            )
        rows[name], dim = row, len(row)
        if not len(rows) & (len(rows) - 1):  # the size of what comes is not known before
            check_fits(4 * 8 * len(rows) * len(row), rows=len(rows), dim=len(row))
    if not rows:
        raise InputError(f"{path} holds no vectors{'' if only is None else ' of these names'}.")
    return Vectors(np.stack([*rows.values()]), tuple(rows))


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The words of a text with what follows them."""
    try:
        if not path.is_file():
            raise OSError("not a file")
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST), "")):
                name, _, numbers = line.rstrip().partition(" ")
                is_header = number == 0 and name.isdigit() and numbers.strip().isdigit()
                if name and not is_header:
                    yield name, numbers
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read ({said}). Name a file of vectors.") from None
