"""`engram train`: the transformer, into a folder that can be gone on with."""

import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from engram.cli._run import typed
from engram.cli._targets import check_out, check_picture, write_picture


def train(
    spec: Path | None,
    given: dict[str, dict[str, Any]],
    out: Path,
    *,
    start: Path | None,
    data: Path | None,
    devices: int | None,
    cluster: dict[str, Any] | None,
    checkpoint_seconds: float,
    plot: Path | None,
) -> None:
    from engram._progress import progress_bar, was_interrupted
    from engram.specs import read_toml, read_training
    from engram.transformer import train as run
    from engram.transformer import use_devices

    check_picture("--plot", plot)
    tables = {} if spec is None else read_toml(spec)
    for name, values in given.items():
        table = tables.setdefault(name, {})
        if isinstance(table, dict):
            table |= values
    config, runs, begun_from = read_training(tables, "the options" if spec is None else str(spec))
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
        was_interrupted()  # heard, and told here
        if is_first:
            print(f"interrupted; what was done is kept. To go on: {again}", file=sys.stderr)
        sys.exit(130)
    for line in _summary(made.log):
        console.print(line, highlight=False, soft_wrap=True)
    if start is None and data is None and made.log.attrs["status"] == "completed":
        console.print(_held_out(config, made), highlight=False, soft_wrap=True)
    if is_first and plot is not None:
        _draw(made.log, plot)
    console.print(f"written: {out}", highlight=False, soft_wrap=True)


def _check_sizes(asked: dict[str, Any], config: Any, start: Any, data: Any) -> None:
    """Sizes come from the files, if there are any; what was asked for otherwise is told."""
    from engram._checks import InputError
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
    from engram._checks import InputError
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

    from engram._checks import InputError
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


def cluster_of(
    distributed: bool, coordinator: str | None, processes: int | None, process: int | None
) -> dict[str, Any] | None:
    """What `jax.distributed.initialize` gets, or None for one process alone."""
    from engram._checks import InputError

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
