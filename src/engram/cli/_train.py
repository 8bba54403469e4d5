"""`engram train`: the transformer, into a folder that can be gone on with."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from engram._errors import InputError
from engram.cli._options import merged, with_options
from engram.cli._run import end_interrupted, typed
from engram.cli._targets import check_out, check_picture, write_picture


@with_options("transformer", "dynamics")
def train(
    tables: dict[str, dict[str, Any]],
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
) -> None:  # fmt: skip
    """Train the simplified transformer on the bigram task: induction heads as associative memories.

    Descent at learning rate 10 for 100 steps by default; several --learning-rate with commas run side by
    side. Writes config.toml, log.zarr (loss, accuracy, gradient norms and margins of W_O^2, W_K^2 and W_K^1 at each
    step), start.npz and checkpoints to a folder. Run it again to resume, also with more --steps.
    """
    from engram._progress import progress_bar
    from engram.specs import read_training
    from engram.transformer import train as run
    from engram.transformer import use_devices

    check_picture("--plot", plot)
    if corpus := tables.get("transformer", {}).get("corpus"):  # wherever it is resumed from
        tables["transformer"]["corpus"] = str(Path(corpus).resolve())
    cluster = _cluster(distributed, coordinator, processes, process)
    tables, source = merged(spec, tables, {"dynamics": {"learning_rate": 10.0, "steps": 100}})
    config, runs, begun_from = read_training(tables, source)
    _check_sizes(tables.get("transformer", {}), config, start, data)
    is_first = use_devices(devices, cluster)
    check_out(out)
    _check_start(config, start, data, out, begun_from)
    console = Console(quiet=not is_first)
    again = typed()
    try:
        with progress_bar(f"train {out.name}", "steps") as tell:
            made = run(
                config, runs, start=start, data=data, out=out, progress=tell if is_first else None,
                patience=checkpoint_seconds,
            )  # fmt: skip
    except KeyboardInterrupt:
        end_interrupted(f"what was done is kept. To resume: {again}" if is_first else "")
    for line in _summary(made.log):
        console.print(line, highlight=False, soft_wrap=True)
    if start is None and data is None and made.log.attrs["status"] == "completed":
        console.print(_held_out(config, made), highlight=False, soft_wrap=True)
    if is_first and plot is not None:
        _draw(made.log, plot)
    console.print(f"written: {out}", highlight=False, soft_wrap=True)


def _check_sizes(asked: dict[str, Any], config: Any, start: Any, data: Any) -> None:
    """Sizes come from the files, if there are any; what was asked for otherwise is told."""
    from engram.transformer import prepare, sized

    names = [name for name in ("dim", "sequences", "length", "num_triggers") if name in asked]
    if not names or (start is None and data is None):
        return
    found = sized(config, *prepare(config, start, data))
    for name in names:
        option, size = f"--{name.replace('_', '-')}", getattr(found, name)
        if asked[name] == size:
            continue
        if name == "dim":
            raise InputError(
                f"{option} must be {size}, as in {start or data}, got {asked[name]}. Leave it out."
            )
        Console(stderr=True).print(
            f"{option} is {size}, as in {data or start}, not {asked[name]}", highlight=False, soft_wrap=True
        )  # fmt: skip


def _check_start(config: Any, start: Any, data: Any, out: Path, begun_from: str | None) -> None:
    """A config.toml that names its start must get that very start."""
    from engram.transformer import fingerprint, prepare

    if begun_from is None or (out / "config.toml").exists():
        return
    if fingerprint(*prepare(config, start, data)) != begun_from:
        raise InputError(
            "SPEC was begun from other weights or sequences ([start] in it). Give the start.npz beside it "
            "as --start, or strike out its [start]."
        )


def _summary(log: Any) -> list[str]:
    """How each run went, in a line or two."""
    import numpy as np

    is_one = "run" not in log.dims
    lines = []
    for k in range(1 if is_one else log.sizes["run"]):
        part = log if is_one else log.isel(run=k)
        loss, accuracy = part.loss.values, part.accuracy.values
        known = np.flatnonzero(np.isfinite(loss))
        if not len(known):
            lines.append("the loss is not finite at the start")
            continue
        last = known[-1]
        name = "" if is_one else f"learning rate {float(part.learning_rate):g}: "
        lines.append(
            f"{name}loss {loss[0]:.5g} at the start, {loss[last]:.5g} at step {last} "
            f"(highest {loss[known].max():.5g}); accuracy {accuracy[last]:.3f}"
        )
        positive = ", ".join(
            f"{label} {(part[f'margins_{key}'].values[last] > 0).mean():.0%}"
            for key, label in (("wo2", "W_O^2"), ("wk2", "W_K^2"), ("wk1", "W_K^1"))
        )
        lines.append(f"  positive margins at that step: {positive}")
        ended = log.attrs.get("not_finite_at")
        if ended is not None and np.atleast_1d(ended)[k] >= 0:
            lines.append(
                f"  not finite after step {np.atleast_1d(ended)[k]}: stopped there. Try a smaller "
                "learning rate."
            )
    return lines


def _held_out(config: Any, made: Any) -> str:
    import dataclasses

    from engram.transformer import bigram_task, evaluate

    try:
        fresh = bigram_task(
            dataclasses.replace(config, sequences=256), seed=config.seed + 1_000_003
        )
    except InputError as error:  # the corpus has moved: the training is none the worse
        return f"accuracy on other sequences was not measured: {error}"
    found = [evaluate(model, fresh)["accuracy"] for model in made.models]
    shown = ", ".join(f"{accuracy:.3f}" for accuracy in found)
    return f"accuracy on 256 sequences never trained on: {shown}"


def _draw(log: Any, path: Path) -> None:
    from engram.figures.training_picture import draw_training

    write_picture(draw_training(log), path)


def _cluster(
    distributed: bool, coordinator: str | None, processes: int | None, process: int | None
) -> dict[str, Any] | None:
    """What `jax.distributed.initialize` gets, or None for one process alone."""
    named = (coordinator, processes, process)
    if all(part is None for part in named):
        return {} if distributed else None
    if any(part is None for part in named):
        raise InputError(
            "--coordinator, --processes and --process go together: HOST:PORT, how many, and which (from 0). "
            "Give all three, or --distributed alone under Slurm."
        )
    return {
        "coordinator_address": coordinator,
        "num_processes": processes,
        "process_id": process,
    }
