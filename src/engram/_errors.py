"""InputError: input that cannot be used; and where in the user's own code an error was raised."""

import os
import traceback
from collections.abc import Collection
from pathlib import Path

_OURS, _STANDARD = (os.path.dirname(os.path.abspath(each)) for each in (__file__, os.__file__))


class InputError(ValueError):
    """Input that cannot be used; the message says which argument, what was met and what to do."""


def place_of(error: BaseException, files: Collection[str | None] | None = None) -> str | None:
    """The file and line of the user's code in which an error was raised; None if it was in none.

    Args:
        error: What was raised.
        files: Where the user's code begins, if the error has passed through other code before.
    """
    frames = traceback.extract_tb(error.__traceback__)
    starts = [k for k, frame in enumerate(frames) if files is None or frame.filename in files]
    own = (
        [frame for frame in frames[starts[0] :] if not _is_library(frame.filename)]
        if starts
        else []
    )
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else None


def _is_library(file: str) -> bool:
    is_installed = {"site-packages", "dist-packages"} & {*Path(file).parts}
    return bool(is_installed) or file.startswith((_OURS, _STANDARD, "<"))
