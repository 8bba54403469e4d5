"""The `engram` command itself: what must be set before anything heavy is imported, and how it ends."""

import gc
import io
import os
import sys
from shlex import quote
from typing import NoReturn

from engram._progress import INTERRUPTED, heed_interrupts, was_interrupted


def run() -> None:
    """Run the command line, with Ctrl-C heard wherever it comes.

    An interrupted process ends at once, since the threads of JAX may not survive a slow end.
    """
    heed_interrupts()
    gc.set_threshold(
        100_000
    )  # what imports and traces leave is kept: looking for garbage takes seconds
    os.environ["MPLBACKEND"] = "agg"  # pictures go to files, whatever backend is set for windows
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Greek letters gets question marks.
            stream.reconfigure(errors="replace")
    code: object = 130
    try:
        from engram.cli._main import main

        main()
    except KeyboardInterrupt:
        pass
    except SystemExit as end:
        if end.code not in (130, 143):  # interrupted, or asked to end
            raise
        code = end.code
    if was_interrupted():  # and no command has said so
        print(INTERRUPTED, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(str(code)))


def typed() -> str:
    """What was typed, to be typed again."""
    return " ".join(["engram", *map(quote, sys.argv[1:])])


def end_interrupted(line: str) -> NoReturn:
    """End a command that Ctrl-C has interrupted, and say what is kept and how to resume, if anything."""
    was_interrupted()  # reported here
    if line:
        print(f"interrupted; {line}", file=sys.stderr)
    sys.exit(130)
