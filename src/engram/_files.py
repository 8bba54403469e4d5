"""Files that are whole or absent: every write goes to a neighbour first and is then renamed."""

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from engram._errors import InputError

_BARE = re.compile(r"[A-Za-z0-9_-]+")  # keys that TOML needs no quotes for


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` only if the block succeeds.

    A reader, or a run after a crash, sees the old file or the new one, never half of one. The
    temporary name keeps the suffix of `path`, since many writers choose the format by it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent
    )
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes 0600; a result is for sharing
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename in (None, name):
            error.filename = os.fspath(target)  # as the user has called it
        raise


def clear_leftovers(folder: Path, stems: Iterable[str]) -> None:
    """Remove what a killed run left half-written of files with these stems in a folder."""
    for name in stems:
        for path in folder.glob(f".{name}-????????.*"):
            path.unlink(missing_ok=True)


def check_folder(name: str, path: Path) -> None:
    """Make a folder if need be and see whether one can write there, before any work is done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InputError(
            f"`{name}` must be a folder that can be written to, got {path} ({error.strerror}). "
            "Name another one."
        ) from None


def changes_between(old: Any, new: Any, where: str, place: str = "") -> list[str]:
    """What differs between two specs, one line each; `where` says where the old one is kept."""
    if isinstance(old, dict) and isinstance(new, dict):
        below = lambda key: f"{place}.{key}" if place else str(key)
        return [
            line
            for key in dict.fromkeys([*old, *new])
            for line in changes_between(old.get(key), new.get(key), where, below(key))
        ]
    return [] if old == new else [f"{place}: {_short(old)} {where}, {_short(new)} now"]


def _short(value: Any) -> str:
    is_long = isinstance(value, list) and len(value) > 4
    if is_long and all(isinstance(number, int | float) for number in value):
        return f"{len(value)} values from {value[0]:g} to {value[-1]:g}"
    return "nothing" if value is None else str(value)


def toml_value(value: Any) -> str:
    """A plain value as TOML writes it."""
    if isinstance(value, dict):
        key = lambda name: name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        return "{" + ", ".join(f"{key(k)} = {toml_value(each)}" for k, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # nan, inf
    return json.dumps(value, ensure_ascii=False)
