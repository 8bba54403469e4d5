"""The `engram` command. Heavy libraries load inside the commands, so that --help is quick."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import engram
from engram.cli._options import Plugin, Set, as_path, with_options

app = typer.Typer(
    name="engram",
    help="Training dynamics of associative memories, step by step.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> bool:
    if asked:
        typer.echo(f"engram {engram.__version__}")
        raise typer.Exit
    return asked


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
        list[str] | None,
        typer.Argument(metavar="[FIGURE]...", help="fig1 to fig7, claims; default all."),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="quick, medium or paper: Figure 7 in minutes, hours or a day; at paper the other figures "
            "have finer grids and more draws. With tiny, Figure 7 has few sequences, too few for its findings."
        ),
    ] = "quick",
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("out"),
) -> None:
    """Redo the paper: its figures and claims, beside the reference values, and one page that shows them.

    Writes each figure as .png, .pdf and .nc (everything drawn, as data), the claims as claims.json, and
    report.html again after each of them. Exit code 1 if a value is out of tolerance or a verdict has
    changed.
    """
    from engram.cli import _reproduce

    _reproduce.reproduce(figures or [], scale, out)


@app.command()
@with_options("problem", "system", "dynamics", "run")
def simulate(
    tables: dict,
    spec: Annotated[Path | None, typer.Argument(metavar="[SPEC.toml | RUN.nc]", help="A TOML spec, or a .nc written before, to be run again; options override it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the dataset, FILE.nc.", rich_help_panel="Output")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it, FILE.png, .pdf or .svg.", rich_help_panel="Output")] = None,
    plugin: Plugin = None,
    set_: Set = None,
) -> None:  # fmt: skip
    """Run one dynamics on one problem: five gradient dynamics, any optimizer, any start.

    Without a spec or options: two tokens of correlation 0.95, p1 = 0.75, descent at learning rate 10
    for 34 steps, the loss spike of the paper's Figure 2.

    A .nc that `simulate` or `reproduce` wrote is run again from its own attributes, and compared bit
    for bit: exit code 1 if something differs. Options change all but its problem; then nothing is compared.
    """
    from engram.cli import _simulate

    _simulate.simulate(spec, tables, out, plot)


@app.command()
def audit(
    claims: Annotated[
        list[str] | None, typer.Argument(metavar="[CLAIM]...", help="C01 to C56; default all.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw one claim, FILE.png, .pdf or .svg.")
    ] = None,
    errata: Annotated[
        Path | None, typer.Option(help="Write the errata, FILE.md, from all claims.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other draws for another seed.")] = 0,
) -> None:
    """Check every claim of the paper by running it: verdict, slack, counterexample, correction.

    One claim, as in `engram audit C15`, is shown in full: what is printed, why it fails with the
    numbers, what is true, a proof in outline, and a plot. Exit code 1 if a verdict is not the one on record.
    """
    from engram.cli import _audit

    _audit.audit(claims or [], as_json=json, plot=plot, page=errata, seed=seed)


@app.command()
def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="A simulation, the axes that vary, and what to measure.")],
    out: Annotated[Path, typer.Option(help="The store, STORE.zarr; if it exists, what is missing is computed.")],
    workers: Annotated[int | None, typer.Option(min=1, help="Local processes (needs the extra 'cluster').")] = None,
    scheduler: Annotated[str | None, typer.Option(help="A dask scheduler, tcp://host:port.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of this process; default one per core.")] = None,
    plugin: Plugin = None,
) -> None:  # fmt: skip
    """Measure a simulation over a grid, into a Zarr store. Run it again to resume.

    One unit of work is one chunk of the store; a killed run loses the chunks in flight. The result is the same to
    the last bit whatever the order, the workers or the restarts. `examples/` has ready-made phase diagrams.
    """
    from engram.cli import _sweep

    del plugin  # loaded
    _sweep.sweep(spec, out, workers=workers, scheduler=scheduler, threads=threads)


@app.command()
@with_options("transformer", "dynamics")
def train(
    tables: dict,
    spec: Annotated[Path | None, typer.Argument(metavar="[SPEC.toml]", help="Tables transformer and dynamics; options override it.")] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to; resumed if it already holds this training.")] = Path("out/train"),
    start: Annotated[Path | None, typer.Option(help="Begin from weights (and sequences) in FILE.npz.", rich_help_panel="Transformer")] = None,
    data: Annotated[Path | None, typer.Option(help="Sequences from FILE.npz.", rich_help_panel="Transformer")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0, help="Seconds between checkpoints.", rich_help_panel="Machine")] = 30.0,
    devices: Annotated[int | None, typer.Option(min=1, help="CPU devices to work on; default one per core.", rich_help_panel="Machine")] = None,
    distributed: Annotated[bool, typer.Option("--distributed", help="One of many processes; their number is taken from Slurm's environment.", rich_help_panel="Machine")] = False,
    coordinator: Annotated[str | None, typer.Option(help="HOST:PORT of process 0, without Slurm.", rich_help_panel="Machine")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="How many processes there are.", rich_help_panel="Machine")] = None,
    process: Annotated[int | None, typer.Option(min=0, help="Which one this is, from 0.", rich_help_panel="Machine")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw losses and margins, FILE.png, .pdf or .svg.", rich_help_panel="Output")] = None,
    plugin: Plugin = None,
    set_: Set = None,
) -> None:  # fmt: skip
    """Train the simplified transformer on the bigram task: induction heads as associative memories.

    Descent at learning rate 10 for 100 steps unless told otherwise; several --learning-rate with commas run side by
    side. Writes config.toml, log.zarr (loss, accuracy, gradient norms and margins of W_O^2, W_K^2 and W_K^1 at each
    step), start.npz and checkpoints to a folder. Run it again to resume, also with more --steps.
    """
    from engram.cli import _train

    if spec is None:
        tables["dynamics"] = {"learning_rate": 10.0, "steps": 100} | tables.get("dynamics", {})
    as_path(tables, "transformer", "corpus")
    cluster = _train.cluster_of(distributed, coordinator, processes, process)
    _train.train(
        spec, tables, out, start=start, data=data, devices=devices, cluster=cluster,
        checkpoint_seconds=checkpoint_seconds, plot=plot,
    )  # fmt: skip


@app.command()
def plot(
    source: Annotated[Path, typer.Argument(metavar="STORE.zarr|FILE.nc", help="A sweep, a run or a figure's data.")],
    x: Annotated[str | None, typer.Option("--x", help="Axis to the right.")] = None,
    y: Annotated[str | None, typer.Option("--y", help="Axis upwards.")] = None,
    value: Annotated[str | None, typer.Option(help="What to draw; default the first.")] = None,
    at: Annotated[list[str] | None, typer.Option(help="Fix another axis, AXIS=NUMBER; repeat for more.")] = None,
    theory: Annotated[list[str] | None, typer.Option(help="Lay over: one_step, spike or stability; repeat for more.")] = None,
    out: Annotated[Path | None, typer.Option(help="FILE.png, .pdf or .svg; default beside you, named as the source.")] = None,
) -> None:  # fmt: skip
    """Draw a sweep as a map with level lines, a curve or a bifurcation diagram; or a run.

    What was not reached is hatched. Axes that are not drawn are fixed (--at), averaged (seeds) or taken in the middle.
    """
    from engram.cli import _sweep

    _sweep.plot(source, x=x, y=y, value=value, at=at or [], theory=theory or [], out=out)


@app.command()
def explore(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 is a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page, or only print its address.")] = True,
    plugin: Plugin = None,
) -> None:  # fmt: skip
    """Open the browser explorer: drag the start, move the learning rate, watch the loss spike.

    It listens on 127.0.0.1 only and needs no network. Ctrl-C ends it; a link copied from the page opens the same
    state again when the explorer runs on the same --port.
    """
    from engram.cli import _explore

    del plugin  # loaded
    _explore.explore(port, browser=browser)


@app.command()
def bench(
    works: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which works; default all.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Cores for both sides.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds, interleaved.")] = 31,
    growth: Annotated[bool, typer.Option("--growth", help="How cost grows with N, M, d and grid cells, with fitted exponents.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw what was measured, FILE.png, .pdf or .svg.")] = None,
    list_works: Annotated[bool, typer.Option("--list", help="List the works and stop.")] = False,
) -> None:  # fmt: skip
    """Time engram and a plain PyTorch loop on the same work, side by side, as ratios.

    Both sides run in this process on the same cores, warm, in turns; rates are medians with their spread (half the
    quartile range). All works take about eight minutes. PyTorch is optional: `make bench` installs it.
    """
    from engram.cli import _bench

    _bench.bench(
        works or [],
        as_json=json,
        threads=threads,
        repeats=repeats,
        only_list=list_works,
        growth=growth,
        plot=plot,
    )


def main() -> None:
    """Run the command line: 0 done, 1 a check failed, 2 wrong input, 130 interrupted."""
    from engram._progress import was_interrupted

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
        if _is_out_of_memory(error):
            typer.echo(f"error: there is not enough memory ({error}). Ask for less.", err=True)
            sys.exit(2)
        if not _is_the_users(error):
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


def _is_the_users(error: Exception) -> bool:
    """Whether the input, not the program, is at fault: then one line is enough."""
    from engram._checks import InputError

    return isinstance(error, InputError | OSError)


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)
