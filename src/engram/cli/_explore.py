"""`engram explore`: serve the page until Ctrl-C."""

import os
import sys
import webbrowser

from engram._progress import was_interrupted


def explore(port: int, *, browser: bool) -> None:
    from engram.explorer.server import Explorer

    explorer = Explorer(port).start()
    print(f"The explorer is at {explorer.url}")
    print("It listens on this machine only. Ctrl-C ends it.", flush=True)
    try:
        if browser and not (_has_screen() and webbrowser.open(explorer.url)):
            print("No browser was found here: open that address in one.", flush=True)
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
