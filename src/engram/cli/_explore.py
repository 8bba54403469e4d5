"""`engram explore`: serve the page until Ctrl-C."""

import os
import sys
import webbrowser
from typing import Annotated

import typer

from engram._progress import was_interrupted
from engram.cli._options import Plugin


def explore(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 is a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page, or only print its address.")] = True,
    plugin: Plugin = None,
) -> None:  # fmt: skip
    """Open the browser explorer: drag the start, move the learning rate, watch the loss spike.

    It listens on 127.0.0.1 only and needs no network. Ctrl-C ends it; a link copied from the page opens the same
    state again when the explorer runs on the same --port.
    """
    del plugin  # loaded
    from engram.explorer.server import Explorer

    explorer = Explorer(port).start()
    print(f"The explorer is at {explorer.url}")
    print("It listens on this machine only. Ctrl-C ends it.", flush=True)
    try:
        if browser and not (_has_screen() and webbrowser.open(explorer.url)):
            print("No browser was opened: open that address in one.", flush=True)
        explorer.wait()
    except KeyboardInterrupt:
        was_interrupted()  # this is how it is meant to end
        print("\nThe explorer has ended.")
        sys.exit(130)  # at once, for a thread may be compiling
    finally:
        explorer.stop()


def _has_screen() -> bool:
    """Whether a browser would have a window; without one, a browser of the terminal would take that over."""
    known = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    return not sys.platform.startswith("linux") or any(map(os.environ.get, known))
