"""All commands, and how their errors end. Heavy libraries load inside them, so that --help is quick."""

import inspect
import os
import re
import sys
import traceback
from typing import Annotated

import typer
from rich.console import Console

import engram
from engram._errors import InputError, place_of
from engram._progress import was_interrupted
from engram.cli._audit import audit
from engram.cli._bench import bench
from engram.cli._diagnose import events, explain
from engram.cli._explore import explore
from engram.cli._options import Command
from engram.cli._probe import probe
from engram.cli._reproduce import reproduce
from engram.cli._simulate import simulate
from engram.cli._study import study
from engram.cli._sweep import plot, sweep
from engram.cli._train import train
from engram.registry import KINDS, entries

app = typer.Typer(
    name="engram",
    help="Training dynamics of associative memories, step by step.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS = (
    reproduce, simulate, explain, events, probe, audit, study, sweep, train, plot, explore, bench,
)  # fmt: skip
for _command in _COMMANDS:
    # Each paragraph as one line, which breaks where the terminal ends.
    _help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(_command) or "")
    app.command(cls=Command, help=_help)(_command)


def _print_version(asked: bool | None) -> None:
    if asked:
        typer.echo(f"engram {engram.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool | None, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")] = None,
) -> None:  # fmt: skip
    del version  # printed


def main() -> None:
    """Run the command line: 0 done, 1 a check failed, 2 wrong input, 130 interrupted."""

    def leave(self: Console) -> None:
        raise BrokenPipeError  # rich would end with exit code 1, which says that a check failed

    Console.on_broken_pipe = leave
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe has gone (as `| head` does): end quietly, also at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if was_interrupted():  # within an import, say, which then fails in its own way
            sys.exit(130)
        if os.environ.get("ENGRAM_TRACEBACK"):
            traceback.print_exception(error)
            sys.exit(2)
        line = str(error)
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in line:
            line = f"there is not enough memory ({line}). Ask for less."
        elif not isinstance(error, InputError):
            files = _own_files()
            place, is_of_system = place_of(error, files), isinstance(error, OSError)
            if not (place or files or is_of_system):
                raise  # the program, not the input, is at fault
            reason = f"{type(error).__name__}: {line.splitlines()[0] if line else 'no message'}"
            if place is not None:
                line = f"in {place}: {reason}. {_MORE}"
            elif not is_of_system:
                line = f"{reason}. Names of {', '.join(files)} were in use: see what they return. {_MORE}"
        typer.echo(f"error: {line}", err=True)
        sys.exit(2)


_MORE = "ENGRAM_TRACEBACK=1 shows all of it."


def _own_files() -> list[str]:
    """The files of plugins, of whatever else is not built in, and those that were given as arguments."""
    names = {entry.origin for kind in KINDS for entry in entries(kind).values()} - {None}
    files = [getattr(sys.modules.get(str(name)), "__file__", None) for name in names]
    given = [each for each in sys.argv[1:] if each.endswith(".py")]
    return sorted(filter(None, {*files, *given}))
