"""`engram sweep` and `engram plot`: a grid into a store, and a store into a picture."""

import math
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.console import Console

import engram
from engram._errors import InputError
from engram.cli._options import Plugin
from engram.cli._run import end_interrupted, typed
from engram.cli._targets import check_picture, write_picture


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="A simulation, the axes that vary, and what to measure.")],
    out: Annotated[Path, typer.Option(help="The store, STORE.zarr; resumed if it exists.")],
    workers: Annotated[int | None, typer.Option(min=1, help="Number of local processes (needs dask\\[distributed]).")] = None,
    scheduler: Annotated[str | None, typer.Option(help="A dask scheduler, tcp://host:port.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of threads; default one per core.")] = None,
    accept_versions: Annotated[bool, typer.Option("--accept-versions", help="Resume a store that was made with another version of engram or JAX.")] = False,
    plugin: Plugin = None,
) -> None:  # fmt: skip
    """Measure a simulation over a grid, into a Zarr store. Run it again to resume.

    One unit of work is one chunk of the store; a killed run loses the chunks in flight. The result is the same to
    the last bit whatever the order, the workers or the restarts. `examples/` has ready-made phase diagrams.
    """
    del plugin  # loaded
    from engram._progress import progress_bar
    from engram.sweeps import local_client, remote_client
    from engram.sweeps import sweep as run

    if workers is not None and scheduler is not None:
        raise InputError(
            "--workers starts processes here, --scheduler uses those of a cluster. Give one of them."
        )
    if out.suffix != ".zarr":
        raise InputError(f"`--out` must end in .zarr, got {out}. Rename it.")
    client: Any = None
    again, done = typed(), [0]
    try:
        if scheduler is not None:
            client = remote_client(scheduler)
        elif workers is not None:
            client = local_client(workers)
        with progress_bar(spec.stem, "cells") as tell:

            def progress(cells: int, total: int) -> None:
                done[0] = cells
                tell(cells, total)

            data = run(
                spec,
                store=out,
                client=client,
                threads=threads,
                accept_versions=accept_versions,
                progress=progress,
            )
    except (KeyboardInterrupt, OSError) as error:
        kept = (
            f"{done[0]:,} cells are kept. To resume"
            if done[0]
            else "no unit was done yet. Run again"
        )
        if isinstance(error, OSError):
            raise InputError(f"{error}; {kept}: {again}") from None
        end_interrupted(f"{kept}: {again}")
    finally:
        if client is not None:
            client.shutdown() if workers is not None else client.close()
    console = Console()
    console.print(data.attrs["summary"], highlight=False, soft_wrap=True)
    console.print(
        f"written: {out}  (look at it: engram plot {quote(str(out))})",
        highlight=False,
        soft_wrap=True,
    )


def plot(
    source: Annotated[Path, typer.Argument(metavar="STORE.zarr|FILE.nc|FOLDER", help="A sweep, a run, a recording, the folder of a training, or a figure's data.")],
    x: Annotated[str | None, typer.Option("--x", help="Axis of a sweep that goes across.")] = None,
    y: Annotated[str | None, typer.Option("--y", help="Axis of a sweep that goes up.")] = None,
    value: Annotated[str | None, typer.Option(help="Variable of a sweep to draw; default the first.")] = None,
    at: Annotated[list[str] | None, typer.Option(help="Fix another axis, AXIS=NUMBER; repeat for more.")] = None,
    theory: Annotated[list[str] | None, typer.Option(help="Overlay a line of theory: one_step, spike or stability; repeat for more.")] = None,
    out: Annotated[Path | None, typer.Option(help="FILE.png, .pdf or .svg; default: the name of the source, in this folder.")] = None,
) -> None:  # fmt: skip
    """Draw a sweep as a map with level lines, a curve or a bifurcation diagram; or a run, a recording or a training.

    What was not reached is hatched. The two longest axes of a sweep are drawn along, or --x and --y. Of the others seeds
    are averaged, one gets a panel per value (six at most), and the rest are fixed by --at or taken in the middle.
    """
    out = out or Path(source.with_suffix(".png").name)
    check_picture("--out", out)
    figure, said = _picture(source, x, y, value, _fixed(at or []), tuple(theory or ()))
    console = Console()
    for line in said:
        console.print(line, highlight=False, soft_wrap=True)
    write_picture(figure, out)


def _fixed(at: list[str]) -> dict[str, float]:
    numbers = {}
    for text in at:
        name, sign, number = text.partition("=")
        try:
            numbers[name.strip()] = float(number)
        except ValueError:
            sign = ""
        if not sign or not math.isfinite(numbers[name.strip()]):
            raise InputError(f"--at must be AXIS=NUMBER, got {text!r}. For example --at p1=0.75.")
    return numbers


def _picture(
    source: Path, x: Any, y: Any, value: Any, at: dict[str, float], theory: tuple[str, ...]
) -> tuple[Any, list[str]]:
    """A picture of a file or a folder, and what to say of it."""
    from engram.figures import module_of
    from engram.sweeps import boundary

    data, notes = _opened(source)
    if data.attrs.get("kind") != "engram sweep" and (x or y or value or at or theory):
        raise InputError(
            f"--x, --y, --value, --at and --theory are for sweeps, and {source} is not one. Leave them out."
        )
    if "figure" in data.attrs:
        return _drawn(source, lambda: module_of(data.attrs["figure"]).draw(data)), notes
    lines = [boundary(data, name) for name in theory]
    figure = _drawn(source, lambda: engram.plot(data, value=value, x=x, y=y, at=at, lines=lines))
    return figure, [*(line.summary for line in lines), *filter(None, [figure.get_label()]), *notes]


def _opened(source: Path) -> tuple[Any, list[str]]:
    """What a file or a folder holds, and whether it is whole."""
    if source.suffix == ".nc":
        from engram.specs import read_netcdf

        return read_netcdf(source), []
    if source.name == "log.zarr" or (source / "log.zarr").is_dir():
        from engram.transformer import open_log

        log = open_log(source)
        status = log.attrs.get("status", "without a status")
        return log, [] if status == "completed" else [f"the training is {status}"]
    from engram.diagnosis import is_recording, open_recording
    from engram.sweeps import open_sweep

    if is_recording(source):
        return open_recording(source), []
    data = open_sweep(source)
    left = data.attrs["units_left"]
    return data, [f"not finished: {left} units are still to be computed, and hatched"] * bool(left)


def _drawn(source: Path, draw: Callable[[], Any]) -> Any:
    """A picture of a file whose content may be anything."""
    try:
        return draw()
    except MemoryError:
        raise
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    except Exception as error:
        raise InputError(
            f"{source} does not hold what its picture needs ({type(error).__name__}: {error}). It is "
            "damaged or was changed; write it again."
        ) from error
