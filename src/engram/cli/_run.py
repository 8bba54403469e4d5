"""The `engram` command itself: what must be set before anything heavy is imported, and how it ends."""

import io
import os
import sys
from shlex import quote

from engram._progress import INTERRUPTED, heed_interrupts, was_interrupted


def run() -> None:
    """Run the command line, with Ctrl-C heard wherever it comes.

    An interrupted process ends at once, since the threads of JAX may not survive a slow end.
    """
    heed_interrupts()
    os.environ["MPLBACKEND"] = "agg"  # pictures go to files, whatever backend is set for windows
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Greek letters gets question marks.
            stream.reconfigure(errors="replace")
    try:
        _main()
    except KeyboardInterrupt:
        _end(130)
    except SystemExit as end:
        if end.code not in (130, 143):  # interrupted, or asked to end
            raise
        _end(end.code)


def typed() -> str:
    """What was typed, to be typed again."""
    return " ".join(["engram", *map(quote, sys.argv[1:])])


def _main() -> None:
    from rich.console import Console

    from engram.cli._main import main

    def leave(self: Console) -> None:
        raise BrokenPipeError  # rich would end with exit code 1, which says that a check failed

    Console.on_broken_pipe = leave
    main()


def _end(code: object) -> None:
    if was_interrupted():  # and no command has said so
        print(INTERRUPTED, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(str(code)))
