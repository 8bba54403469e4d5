"""The `engram` command. Heavy libraries load inside the commands, so that --help is quick."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import engram

app = typer.Typer(
    name="engram",
    help="Training dynamics of associative memories, step by step.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"engram {engram.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    del version


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="[FIGURE]...", help="fig2; default all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("out"),
) -> None:
    """Redo the paper's figures: each as .png, .pdf and .nc (everything drawn, as data)."""
    from engram.cli import _reproduce

    _reproduce.reproduce(figures or [], out)


@app.command()
def bench(
    works: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which works; default all.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Cores for both sides.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds, interleaved.")] = 31,
    list_works: Annotated[bool, typer.Option("--list", help="List the works and stop.")] = False,
) -> None:
    """Time engram and a plain PyTorch loop on the same work, side by side, as ratios.

    Both sides run in this process on the same cores, warm, in turns; rates are medians. PyTorch is
    optional: `pip install 'engram[bench]'`.
    """
    from engram.cli import _bench

    _bench.bench(works or [], as_json=json, threads=threads, repeats=repeats, only_list=list_works)


def main() -> None:
    """Run the command line: 0 done, 1 a check failed, 2 wrong input, 130 interrupted."""
    try:
        app()
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe has gone (as `| head` does): end quietly, also at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if not _is_the_users(error):
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


def _is_the_users(error: Exception) -> bool:
    """Whether the input, not the program, is at fault: then one line is enough."""
    from engram._checks import InputError

    return isinstance(error, InputError | OSError)
