"""`engram train`: the transformer, into a folder that can be resumed."""

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import engram
from engram._errors import InputError
from engram.cli._diagnose import explain
from engram.cli._options import merged, with_options
from engram.cli._run import end_interrupted, typed
from engram.cli._targets import check_file, check_out, check_picture, write_picture

if TYPE_CHECKING:
    import xarray as xr

    from engram.transformer import Config, Training


_SPIKES = 3  # explained on the page


@with_options("transformer", "dynamics")
def train(
    tables: dict[str, dict[str, Any]],
    spec: Annotated[Path | None, typer.Argument(metavar="SPEC.toml", help="A spec with the tables transformer and dynamics; options override it.")] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to; resumed if it already holds this training.")] = Path("out/train"),
    start: Annotated[Path | None, typer.Option(help="Begin from weights (and sequences) in FILE.npz.", rich_help_panel="Transformer")] = None,
    data: Annotated[Path | None, typer.Option(help="Sequences from FILE.npz.", rich_help_panel="Transformer")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0, help="Seconds between checkpoints.", rich_help_panel="Machine")] = 30.0,
    devices: Annotated[int | None, typer.Option(min=1, help="Number of CPU devices; default one per core.", rich_help_panel="Machine")] = None,
    distributed: Annotated[bool, typer.Option("--distributed", help="One of many processes; their number is taken from Slurm's environment.", rich_help_panel="Machine")] = False,
    coordinator: Annotated[str | None, typer.Option(help="HOST:PORT of process 0; not needed with Slurm.", rich_help_panel="Machine")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Number of processes.", rich_help_panel="Machine")] = None,
    process: Annotated[int | None, typer.Option(min=0, help="Number of this process, from 0.", rich_help_panel="Machine")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw losses and margins, FILE.png, .pdf or .svg.", rich_help_panel="Output")] = None,
    html: Annotated[Path | None, typer.Option(help="Explain the spikes on a page, FILE.html, as `engram explain` does.", rich_help_panel="Output")] = None,
) -> None:  # fmt: skip
    """Train the simplified transformer on the bigram task: induction heads as associative memories.

    Descent at learning rate 10 for 100 steps by default; several --learning-rate with commas run side by
    side. Writes config.toml, log.zarr (loss, accuracy, gradient norms and margins of W_O^2, W_K^2 and W_K^1 at each
    step), start.npz and checkpoints to a folder. Run it again to resume, also with more --steps.
    """
    from engram._progress import progress_bar

    if distributed or process is not None:  # what JAX logs of a lost process we say in one line
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from engram.specs import read_training
    from engram.transformer import train as run
    from engram.transformer import use_devices

    check_picture("--plot", plot)
    check_file("--html", html, (".html",))
    if html is not None and (distributed or process is not None):
        raise InputError(
            "`--html` is written by one process. Run `engram explain` on the folder later."
        )
    if corpus := tables.get("transformer", {}).get("corpus"):  # wherever it is resumed from
        tables["transformer"]["corpus"] = str(Path(corpus).resolve())
    cluster = _cluster(distributed, coordinator, processes, process)
    tables, source = merged(spec, tables, {"dynamics": {"learning_rate": 10.0, "steps": 100}})
    config, runs, begun_from = read_training(tables, source)
    is_first = use_devices(devices, cluster)
    check_out(out)
    _check_files(config, start, data, tables.get("transformer", {}), begun_from, out)
    again = typed()
    try:
        with progress_bar(f"train {out.name}", "steps") as report:
            training = run(
                config, runs, start=start, data=data, out=out, progress=report if is_first else None,
                patience=checkpoint_seconds,
            )  # fmt: skip
    except KeyboardInterrupt:
        end_interrupted(f"what was done is kept. To resume: {again}" if is_first else "")
    except (InputError, OSError) as error:
        if cluster is None:
            raise
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(2)  # at once, for JAX would wait for the other processes
    lines = _summary(training.log)
    if start is None and data is None and training.log.attrs["status"] == "completed":
        lines.append(_held_out(config, training))  # by all processes together
    if not is_first:
        return
    print(*lines, sep="\n")
    if plot is not None:
        write_picture(engram.plot(training), plot)
    if html is not None:
        explain(out, most=_SPIKES, html=html)
    print(f"written: {out}")


def _check_files(
    config: "Config",
    start: Path | None,
    data: Path | None,
    asked: dict[str, Any],
    begun_from: str | None,
    out: Path,
) -> None:
    """Sizes come from the files, if there are any; a spec that names its start must get that very start."""
    from engram.transformer import fingerprint, prepare, sized

    is_new = begun_from is not None and not (out / "config.toml").exists()
    names = [name for name in ("dim", "sequences", "length", "num_triggers") if name in asked]
    if start is None and data is None:
        names = []
    if not names and not is_new:
        return
    model, sequences = prepare(config, start, data)
    for name in names:
        option, size = f"--{name.replace('_', '-')}", getattr(sized(config, model, sequences), name)
        if asked[name] != size and name == "dim":
            raise InputError(
                f"{option} must be {size}, as in {start or data}, got {asked[name]}. Leave it out."
            )
        if asked[name] != size:
            print(f"{option} is {size}, as in {data or start}, not {asked[name]}", file=sys.stderr)
    if is_new and fingerprint(model, sequences) != begun_from:
        raise InputError(
            "SPEC was begun from other weights or sequences ([start] in it). Give the start.npz beside it "
            "as --start, or delete [start]."
        )


def _summary(log: "xr.Dataset") -> list[str]:
    """How each run went, in a line or two."""
    import numpy as np

    is_one = "run" not in log.dims
    ended = np.atleast_1d(log.attrs.get("not_finite_at", -1))
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
        positive = ", ".join(
            f"{label} {(part[f'margins_{key}'].values[last] > 0).mean():.0%}"
            for key, label in (("wo2", "W_O^2"), ("wk2", "W_K^2"), ("wk1", "W_K^1"))
        )
        lines += [
            f"{name}loss {loss[0]:.5g} at the start, {loss[last]:.5g} at step {last} "
            f"(highest {loss[known].max():.5g}); accuracy {accuracy[last]:.3f}",
            f"  positive margins at that step: {positive}",
        ]
        if ended.max() >= 0 and ended[k] >= 0:
            lines.append(
                f"  not finite after step {ended[k]}: stopped there. Try a smaller learning rate."
            )
    return lines


def _held_out(config: "Config", training: "Training") -> str:
    from engram.transformer import bigram_task, evaluate

    other = dataclasses.replace(config, sequences=256)
    try:
        fresh = bigram_task(other, seed=config.seed + 1_000_003)
    except InputError as error:  # the corpus has moved: the training is none the worse
        return f"accuracy on other sequences was not measured: {error}"
    shown = ", ".join(f"{evaluate(model, fresh)['accuracy']:.3f}" for model in training.models)
    return f"accuracy on 256 sequences never trained on: {shown}"


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
    return {"coordinator_address": coordinator, "num_processes": processes, "process_id": process}
