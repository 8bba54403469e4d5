"""Where a command's files and folders may go, and how its pictures are written."""

import sys
from pathlib import Path
from typing import Any, TextIO

from engram._errors import InputError
from engram._files import check_folder, written_whole

_PICTURES = (".png", ".pdf", ".svg")


def check_file(name: str, path: Path | None, endings: tuple[str, ...]) -> None:
    """See whether a file can be written there, before any work is done; None is nothing to write."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise InputError(f"`{name}` must end in {' or '.join(endings)}, got {path}. Rename it.")
    if path.is_dir():
        raise InputError(f"`{name}` must be a file, got the folder {path}. Name a file in it.")
    check_folder(name, path.parent)


def check_picture(name: str, path: Path | None) -> None:
    """The same for a picture."""
    check_file(name, path, _PICTURES)


def check_out(out: Path) -> None:
    """See whether one can write to the folder; an empty name, which `Path` takes for ".", is none."""
    if out == Path() and ("" in sys.argv or "--out=" in sys.argv):
        raise InputError("`--out` must be a folder, got ''. Name one, or write . for this one.")
    check_folder("--out", out)


def write_picture(figure: Any, path: Path, say_on: TextIO | None = None) -> None:
    """Save a figure, whole or not at all, and say where; on stdout, unless that is for data."""
    with written_whole(path) as partial:
        figure.savefig(partial, dpi=200, format=path.suffix[1:].lower())
    print(f"written: {path}", file=say_on)
