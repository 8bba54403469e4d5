"""A progress bar with an ETA for long work; silent when work is short or nobody watches."""

import contextlib
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator

_PATIENCE = 1.0  # seconds of work before a bar appears
_asked_to_stop = threading.Event()
INTERRUPTED = "interrupted; what was written before is kept"


def heed_interrupts() -> None:
    """Make sure that Ctrl-C is heard: an exception within a callback of JAX or of the collector is lost.

    The signal raises `KeyboardInterrupt` as ever, and is remembered; the next `tell` raises it again. Where
    the exception was lost, the signal comes again shortly after.
    """

    def handle(number: int, frame: types.FrameType | None) -> None:
        if _is_importing(frame):
            # Some libraries, written in C++, do not survive an exception while they are loaded.
            os.write(2, f"{INTERRUPTED}\n".encode())
            os._exit(130)
        _asked_to_stop.set()
        signal.default_int_handler(number, frame)

    def lost(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            sys.__unraisablehook__(unraisable)

    _asked_to_stop.clear()
    sys.unraisablehook = lost
    signal.signal(signal.SIGINT, handle)
    # A polite kill unwinds too, so that no temporary file is left.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def _is_importing(frame: types.FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def was_interrupted() -> bool:
    """Whether Ctrl-C came; asked once, it is forgotten."""
    came = _asked_to_stop.is_set()
    _asked_to_stop.clear()
    return came


@contextlib.contextmanager
def progress_bar(title: str, unit: str = "steps") -> Iterator[Callable[[int, int], None]]:
    """Yield `tell(done, total)`; the bar is drawn on standard error once a second has passed."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(title, total=None, rate="")
    began, shown = time.monotonic(), False
    first: int | None = None

    def tell(done: int, total: int) -> None:
        nonlocal shown, first
        first = done if first is None else first  # what was there before counts for nothing
        if was_interrupted():
            raise KeyboardInterrupt
        if not shown and time.monotonic() - began > _PATIENCE and done < total:
            bar.start()
            shown = True
        passed = time.monotonic() - began
        rate = f"{(done - first) / passed:,.0f}/s" if passed > 0 and done - first > passed else ""
        bar.update(task, completed=done, total=total, rate=rate)

    try:
        yield tell
    finally:
        if shown:
            bar.stop()
