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
def simulate(
    spec: Annotated[Path | None, typer.Argument(metavar="[SPEC.toml | RUN.nc]", help="A TOML spec, or a .nc written before, to be run again; options override it.")] = None,
    tokens: Annotated[str | None, typer.Option(help="two, orthonormal, one_hot, sphere, gaussian or file.", rich_help_panel="Problem")] = None,
    correlation: Annotated[float | None, typer.Option(help="Of two tokens' embeddings.", rich_help_panel="Problem")] = None,
    p1: Annotated[float | None, typer.Option(help="Frequency of the first of two tokens.", rich_help_panel="Problem")] = None,
    num_tokens: Annotated[int | None, typer.Option("--num-tokens", "-N", help="Input tokens N.", rich_help_panel="Problem")] = None,
    num_classes: Annotated[int | None, typer.Option("--num-classes", "-M", help="Output tokens M.", rich_help_panel="Problem")] = None,
    dim: Annotated[int | None, typer.Option("--dim", "-d", help="Dimension d.", rich_help_panel="Problem")] = None,
    exponent: Annotated[float | None, typer.Option(help="Zipf exponent of the frequencies.", rich_help_panel="Problem")] = None,
    problem_file: Annotated[Path | None, typer.Option(help="A problem saved as .npz or .nc.", rich_help_panel="Problem")] = None,
    dynamics: Annotated[str | None, typer.Option(help="gd, flow, sgd, sgf, momentum, nesterov, normalised, adam, adamw, rmsprop, sign or muon.", rich_help_panel="Dynamics")] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", "-r", help="Learning rate eta.", rich_help_panel="Dynamics")] = None,
    steps: Annotated[int | None, typer.Option("--steps", "-t", help="Updates.", rich_help_panel="Dynamics")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Random batches of this size.", rich_help_panel="Dynamics")] = None,
    end: Annotated[float | None, typer.Option(help="End time of a flow.", rich_help_panel="Dynamics")] = None,
    spacing: Annotated[str | None, typer.Option(help="linear or log: a flow's recorded times.", rich_help_panel="Dynamics")] = None,
    noise_scale: Annotated[float | None, typer.Option(help="Isotropic noise on W (sgf).", rich_help_panel="Dynamics")] = None,
    momentum: Annotated[float | None, typer.Option(help="beta of momentum, nesterov, muon.", rich_help_panel="Dynamics")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay.", rich_help_panel="Dynamics")] = None,
    record: Annotated[list[str] | None, typer.Option(help="Observable to record; repeat for more.", rich_help_panel="Run")] = None,
    space: Annotated[str | None, typer.Option(help="auto, weights, particles or margins.", rich_help_panel="Run")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the problem, the start and the noise.", rich_help_panel="Run")] = None,
    start_scale: Annotated[float | None, typer.Option(help="Random start of this scale; 0 is W = 0.", rich_help_panel="Run")] = None,
    every: Annotated[int | None, typer.Option(help="Record every so many steps.", rich_help_panel="Run")] = None,
    points: Annotated[int | None, typer.Option(help="Record about so many steps, log-spaced.", rich_help_panel="Run")] = None,
    stop: Annotated[str | None, typer.Option(help="'perfect' ends at the first step without error.", rich_help_panel="Run")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the dataset, FILE.nc.", rich_help_panel="Output")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it, FILE.png, .pdf or .svg.", rich_help_panel="Output")] = None,
) -> None:  # fmt: skip
    """Run one dynamics on one problem: five gradient dynamics, any optimizer, any start.

    Without a spec or options: two tokens of correlation 0.95, p1 = 0.75, descent at learning rate 10
    for 34 steps, the loss spike of the paper's Figure 2.

    A .nc that `simulate` or `reproduce` wrote is run again from its own attributes, and compared bit
    for bit: exit code 1 if something differs. Options change all but its problem; then nothing is compared.
    """
    from engram.cli import _simulate

    if spec is None and dynamics in (None, "gd") and end is None:
        dynamics = "gd"
        learning_rate = 10.0 if learning_rate is None else learning_rate
        steps = 34 if steps is None else steps
    problem: dict[str, object] = {
        "family": "file" if problem_file else tokens, "correlation": correlation, "p1": p1,
        "num_tokens": num_tokens, "num_classes": num_classes, "dim": dim, "exponent": exponent,
        "path": str(problem_file) if problem_file else None, "seed": seed,
    }  # fmt: skip
    if spec is None and tokens in (None, "two") and not problem_file:
        problem["correlation"] = 0.95 if correlation is None else correlation
        problem["p1"] = 0.75 if p1 is None else p1
    tables = {
        "problem": problem,
        "dynamics": {
            "kind": dynamics, "learning_rate": learning_rate, "steps": steps,
            "batch_size": batch_size, "end": end, "spacing": spacing, "noise_scale": noise_scale,
            "momentum": momentum, "weight_decay": weight_decay,
        },
        "run": {
            "record": record or None, "space": space, "seed": seed, "start_scale": start_scale,
            "every": every, "points": points, "stop": stop,
        },
    }  # fmt: skip
    given = {
        table: {name: value for name, value in values.items() if value is not None}
        for table, values in tables.items()
    }
    _simulate.simulate(
        spec, {table: values for table, values in given.items() if values}, out, plot
    )


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
    out: Annotated[Path, typer.Option(help="The store, STORE.zarr; if it is there, what is missing is computed.")],
    workers: Annotated[int | None, typer.Option(min=1, help="Local processes (needs the extra 'cluster').")] = None,
    scheduler: Annotated[str | None, typer.Option(help="A dask scheduler, tcp://host:port.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of this process; default one per core.")] = None,
) -> None:  # fmt: skip
    """Measure a simulation over a grid, into a Zarr store. Run it again to resume.

    One unit of work is one chunk of the store; a killed run loses the chunks in flight. The result is the same to
    the last bit whatever the order, the workers or the restarts. `examples/` has ready-made phase diagrams.
    """
    from engram.cli import _sweep

    _sweep.sweep(spec, out, workers=workers, scheduler=scheduler, threads=threads)


@app.command()
def train(
    spec: Annotated[Path | None, typer.Argument(metavar="[SPEC.toml]", help="Tables transformer and dynamics; options override it.")] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to; if it holds this training, that is gone on with.")] = Path("out/train"),
    dim: Annotated[int | None, typer.Option("--dim", "-d", help="Width d; default 64.", rich_help_panel="Model")] = None,
    matrices: Annotated[str | None, typer.Option(help="What is trained, of wo2,wk2,wk1; default all three.", rich_help_panel="Model")] = None,
    zero_start: Annotated[bool | None, typer.Option("--zero-start", help="Start what is trained at zero.", rich_help_panel="Model")] = None,
    embedding_scale: Annotated[float | None, typer.Option(help="Factor of the embeddings, N(0,1) otherwise.", rich_help_panel="Model")] = None,
    scale_scores: Annotated[bool | None, typer.Option("--scale-scores/--no-scale-scores", help="Attention scores / sqrt d, or not.", rich_help_panel="Model")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 (default) or float64.", rich_help_panel="Model")] = None,
    sequences: Annotated[int | None, typer.Option("--sequences", "-S", help="How many; default 1024, in the paper 16384.", rich_help_panel="Task")] = None,
    length: Annotated[int | None, typer.Option("--length", "-T", help="Positions; default 256.", rich_help_panel="Task")] = None,
    num_triggers: Annotated[int | None, typer.Option(help="How many tokens are triggers; default 5.", rich_help_panel="Task")] = None,
    triggers: Annotated[str | None, typer.Option(help="frequent (default), or random: drawn for each sequence.", rich_help_panel="Task")] = None,
    outputs: Annotated[str | None, typer.Option(help="Law of the outputs: uniform (default) or bigram.", rich_help_panel="Task")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Keep only the most frequent characters.", rich_help_panel="Task")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Count bigrams from this text, of at most 256 characters.", rich_help_panel="Task")] = None,
    start: Annotated[Path | None, typer.Option(help="Begin from weights (and sequences) in FILE.npz.", rich_help_panel="Task")] = None,
    data: Annotated[Path | None, typer.Option(help="Sequences from FILE.npz.", rich_help_panel="Task")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of sequences, weights and batches.", rich_help_panel="Task")] = None,
    dynamics: Annotated[str | None, typer.Option(help="gd (default), sgd, momentum, nesterov, normalised, adam, adamw, rmsprop, sign or muon.", rich_help_panel="Dynamics")] = None,
    learning_rate: Annotated[str | None, typer.Option("--learning-rate", "-r", help="Learning rate; default 10. Several with commas run side by side.", rich_help_panel="Dynamics")] = None,
    steps: Annotated[int | None, typer.Option("--steps", "-t", help="Updates; default 100.", rich_help_panel="Dynamics")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Random batches of this many sequences.", rich_help_panel="Dynamics")] = None,
    momentum: Annotated[float | None, typer.Option(help="beta of momentum, nesterov, muon.", rich_help_panel="Dynamics")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay.", rich_help_panel="Dynamics")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0, help="Seconds between checkpoints.", rich_help_panel="Machine")] = 30.0,
    devices: Annotated[int | None, typer.Option(min=1, help="CPU devices to work on; default one per core.", rich_help_panel="Machine")] = None,
    distributed: Annotated[bool, typer.Option("--distributed", help="One of many processes, as Slurm tells it.", rich_help_panel="Machine")] = False,
    coordinator: Annotated[str | None, typer.Option(help="HOST:PORT of process 0, without Slurm.", rich_help_panel="Machine")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="How many processes there are.", rich_help_panel="Machine")] = None,
    process: Annotated[int | None, typer.Option(min=0, help="Which one this is, from 0.", rich_help_panel="Machine")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw losses and margins, FILE.png, .pdf or .svg.", rich_help_panel="Output")] = None,
) -> None:  # fmt: skip
    """Train the simplified transformer on the bigram task: induction heads as associative memories.

    Writes config.toml, log.zarr (loss, accuracy, gradient norms and margins of W_O^2, W_K^2 and W_K^1 at each step),
    start.npz and checkpoints to a folder. Run it again to go on after an interruption, or with more --steps.
    """
    from engram.cli import _train

    if spec is None:
        learning_rate = "10" if learning_rate is None else learning_rate
        steps = 100 if steps is None else steps
    tables: dict[str, dict[str, object]] = {
        "transformer": {
            "dim": dim, "matrices": None if matrices is None else [name.strip() for name in matrices.split(",")], "zero_start": zero_start,
            "embedding_scale": embedding_scale, "scale_scores": scale_scores, "dtype": dtype,
            "sequences": sequences, "length": length, "num_triggers": num_triggers, "triggers": triggers,
            "outputs": outputs, "vocabulary": vocabulary, "corpus": str(corpus.resolve()) if corpus else None, "seed": seed,
        },
        "dynamics": {
            "kind": dynamics, "learning_rate": _train.read_rates(learning_rate), "steps": steps,
            "batch_size": batch_size, "momentum": momentum, "weight_decay": weight_decay,
        },
    }  # fmt: skip
    given = {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in tables.items()
    }
    cluster = _train.cluster_of(distributed, coordinator, processes, process)
    _train.train(
        spec, given, out, start=start, data=data, devices=devices, cluster=cluster,
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
) -> None:  # fmt: skip
    """Open the browser explorer: drag the start, move the learning rate, watch the loss spike.

    It listens on 127.0.0.1 only and needs no network. Ctrl-C ends it; a link copied from the page opens the same
    state again when the explorer runs on the same --port.
    """
    from engram.cli import _explore

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
