"""`engram simulate`: a spec or options in, a dataset and a picture out."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from engram._checks import InputError
from engram._files import check_folder, written_whole
from engram._progress import progress_bar


def simulate(spec_path: Path | None, tables: dict[str, Any], out: Path | None, plot: Path | None):
    """Run, print what happened, write what was asked for; Ctrl-C keeps what was recorded."""
    from engram.simulation import Interrupted
    from engram.specs import build_problem, read_spec, read_toml, simulate_spec

    source = "the options" if spec_path is None else str(spec_path)
    merged = {} if spec_path is None else read_toml(spec_path)
    for table, values in tables.items():
        given = merged.setdefault(table, {})
        if not isinstance(given, dict):
            raise InputError(
                f"{source}: [{table}] must be a table, got {given!r}. Write [{table}]."
            )
        given |= values
    spec = read_spec(merged, source)
    _check_targets(out, plot)
    if plot is not None and _is_planar(build_problem(spec.problem)):
        names = [*dict.fromkeys([*spec.run.record, "weights"])]
        spec = spec.model_copy(update={"run": spec.run.model_copy(update={"record": names})})
    interrupted = False
    try:
        with progress_bar(f"{spec.dynamics.kind} on {spec.problem.family}") as tell:
            run = simulate_spec(spec, tell)
    except Interrupted as stop:
        run, interrupted = stop.partial, True
    run.attrs["spec"] = spec.model_dump_json(exclude_none=True)
    _report(run)
    if out is not None:
        _write(run, build_problem(spec.problem), out)
    if plot is not None and len(run["time"]):
        _draw(run, spec, plot)
    if interrupted:
        if out is None:
            Console(stderr=True).print(
                "interrupted; nothing was asked to be written (--out FILE.nc)"
            )
        raise KeyboardInterrupt


def _check_targets(out: Path | None, plot: Path | None) -> None:
    for name, path, endings in (
        ("--out", out, (".nc",)),
        ("--plot", plot, (".png", ".pdf", ".svg")),
    ):
        if path is not None:
            if path.suffix not in endings:
                raise InputError(
                    f"`{name}` must end in {' or '.join(endings)}, got {path}. Rename it."
                )
            check_folder(name, path.parent)


def _is_planar(problem: Any) -> bool:
    return problem.dim == 2 and problem.num_outputs == 2


def _report(run: Any) -> None:
    console = Console()
    along = "step" if "step" in run.dims else "time"
    recorded = run.sizes[along]
    console.print(
        f"{run.attrs['dynamics']} in {run.attrs['space']}: {run.attrs['status_text']}, "
        f"{run.attrs['num_steps']:,} steps, {recorded:,} points recorded",
        soft_wrap=True,
    )
    for name in ("loss", "error"):
        if name in run and recorded:
            values = run[name].values
            console.print(
                f"{name}: {values[0]:.6g} at the start, {values.max():.6g} at most, "
                f"{values[-1]:.6g} at the end"
            )
    if "first_perfect" in run:
        console.print(f"perfect accuracy: {_when(run, along)}")
        console.print(f"spikes: {_spikes(run, along)}")
        forgotten = [int(t) + 1 for t in run.token[run.num_forgotten.values > 0].values]
        if forgotten:
            shown = ", ".join(map(str, forgotten[:10])) + (", ..." if len(forgotten) > 10 else "")
            console.print(f"forgotten at some {along}: token {shown}")


def _when(run: Any, along: str) -> str:
    first, stays = float(run.first_perfect), float(run.perfect_from)
    if first != first:
        return "not reached"
    kept = "not kept" if stays != stays else f"kept from {along} {stays:g}"
    return f"first at {along} {first:g}, {kept}"


def _spikes(run: Any, along: str) -> str:
    number = int(run.num_spikes)
    if not number:
        return "none"
    worst = int(run.spike_height.argmax("spike"))
    return (
        f"{number}, the highest kept {float(run.spike_height[worst]):.4g} times the lowest loss "
        f"before, at {along} {float(run.spike_step[worst]):g}"
    )


def _write(run: Any, problem: Any, out: Path) -> None:
    full = run.assign(
        problem_inputs=(("token", "component"), problem.inputs),
        problem_outputs=(("class", "component"), problem.outputs),
        problem_targets=(("token", "class") if problem.is_noisy else ("token",), problem.targets),
    )
    with written_whole(out) as path:
        full.to_netcdf(path, engine="h5netcdf")
    Console().print(f"written: {out}", soft_wrap=True)


def _draw(run: Any, spec: Any, plot: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from engram.figures.run_picture import draw_run
    from engram.specs import build_problem

    settings = json.loads(spec.dynamics.model_dump_json(exclude_defaults=True))
    text = ", ".join(f"{key} = {value}" for key, value in settings.items() if key != "kind")
    title = f"{spec.dynamics.kind} on {spec.problem.family}" + (f": {text}" if text else "")
    figure = draw_run(run, build_problem(spec.problem), title)
    with written_whole(plot) as path:
        figure.savefig(path, dpi=200)
    Console().print(f"written: {plot}", soft_wrap=True)
