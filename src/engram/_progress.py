"""A progress bar with an ETA for long work; silent when work is short or nobody watches."""

import contextlib
import time
from collections.abc import Callable, Iterator

_PATIENCE = 1.0  # seconds of work before a bar appears


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
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(title, total=None)
    began, shown = time.monotonic(), False

    def tell(done: int, total: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - began > _PATIENCE and done < total:
            bar.start()
            shown = True
        bar.update(task, completed=done, total=total)

    try:
        yield tell
    finally:
        if shown:
            bar.stop()
