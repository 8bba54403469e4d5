"""`engram explore`: serve the page until Ctrl-C."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from engram._errors import InputError
from engram._progress import was_interrupted
from engram.cli._diagnose import read_run
from engram.cli._options import Plugin


def explore(
    file: Annotated[Path | None, typer.Argument(metavar="RUN.nc|STORE.zarr", help="A run or a recording to show as it was recorded.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 picks a free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page, or only print its address.")] = True,
    export: Annotated[Path | None, typer.Option("--export", metavar="PAGE.html", help="Write the page to a file that needs no server, and exit.")] = None,
    plugin: Plugin = None,
) -> None:  # fmt: skip
    """Open the browser explorer: drag the start, move the learning rate, watch the loss spike.

    With a file, the page shows its traces, its events and what caused its spikes, as they were recorded. It
    listens on 127.0.0.1 only and needs no network. Ctrl-C ends it; a link copied from the page opens the same state
    again when the explorer runs on the same --port. --export writes one file that computes in the browser: it needs
    neither Python nor a network.
    """
    del plugin  # loaded
    if export is not None:
        _export(export, file)
        return
    from engram.explorer.server import Explorer

    dataset = None
    if file is not None:
        dataset = read_run(file)
        dataset.encoding["source"] = str(file.resolve())
    explorer = Explorer(port).start()
    address = explorer.url if dataset is None else explorer.show(dataset)
    print(f"The explorer is at {address}")
    print("It listens on this machine only. Ctrl-C ends it.", flush=True)
    try:
        if browser and not (_has_screen() and webbrowser.open(address)):
            print("No browser was opened: open that address in one.", flush=True)
        explorer.wait()
    except KeyboardInterrupt:
        was_interrupted()  # this is how it is meant to end
        print("\nThe explorer has ended.")
        sys.exit(130)  # at once, for a thread may be compiling
    finally:
        explorer.stop()


def _export(path: Path, file: Path | None) -> None:
    if file is not None:
        raise InputError("--export writes the page without a run. Leave out the file.")
    from engram.explorer import export

    print(f"The explorer's page is written to {export(path)}; open it in a browser.")


def _has_screen() -> bool:
    """Whether a browser would have a window; without one, a browser of the terminal would take that over."""
    known = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    return not sys.platform.startswith("linux") or any(map(os.environ.get, known))
