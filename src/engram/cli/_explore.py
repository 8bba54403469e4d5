"""`engram explore`: serve the page until Ctrl-C."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from engram._errors import InputError
from engram._progress import was_interrupted
from engram.cli._diagnose import read_run
from engram.cli._options import Plugin


def explore(
    file: Annotated[Path | None, typer.Argument(metavar="RUN.nc|STORE.zarr|PROBLEM.npz", help="A run or a recording to show as it was recorded, or a problem to train.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 picks a free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page, or only print its address.")] = True,
    export: Annotated[Path | None, typer.Option("--export", metavar="PAGE.html", help="Write the page to a file that needs no server, and exit.")] = None,
    plugin: Plugin = None,
) -> None:  # fmt: skip
    """Open the browser explorer: drag the start, move the learning rate, watch the loss spike.

    With a run or a recording, the page shows its traces, its events and what caused its spikes, as they were
    recorded. With a problem (a file that `problem.save` wrote, or any .npz with the arrays inputs, outputs, probs and
    targets), it trains that problem. It listens on 127.0.0.1 only and needs no network. Ctrl-C ends it; a link copied
    from the page opens the same state again when the explorer runs on the same --port. --export writes one file that
    computes in the browser: it needs neither Python nor a network.
    """
    del plugin  # loaded
    if export is not None:
        _export(export, file)
        return
    from engram.explorer.server import Explorer

    shown = None if file is None else _read(file)
    explorer = Explorer(port).start()
    address = explorer.url if shown is None else explorer.show(shown)
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


def _read(file: Path) -> Any:
    """What a file holds: a problem, a run or a recording."""
    if not _holds_problem(file):
        dataset = read_run(file)
        dataset.encoding["source"] = str(file.resolve())
        return dataset
    from engram.explorer.payloads import own_problem
    from engram.problem import Problem

    return own_problem(str(file), Problem.load(file))


def _holds_problem(file: Path) -> bool:
    """Whether it is of a problem; runs call the same arrays `problem_inputs` and so on."""
    import h5py

    if file.suffix != ".nc" or not (file.is_file() and h5py.is_hdf5(file)):
        return file.suffix == ".npz"
    with h5py.File(file) as opened:
        return "inputs" in opened


def _export(path: Path, file: Path | None) -> None:
    problem = None
    if file is not None:
        if not _holds_problem(file):
            raise InputError(
                "--export takes a problem (PROBLEM.npz), not a run. Leave out the file."
            )
        problem = _read(file)
    from engram.explorer import export

    written = export(path, problem)
    print(f"The explorer's page is written to {written}; open it in a browser.")


def _has_screen() -> bool:
    """Whether a browser would have a window; without one, a browser of the terminal would take that over."""
    known = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    return not sys.platform.startswith("linux") or any(map(os.environ.get, known))
