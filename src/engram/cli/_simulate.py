"""`engram simulate`: a spec, options or an earlier run in, a dataset and a picture out."""

import sys
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.console import Console

import engram
from engram._errors import InputError
from engram._files import written_whole
from engram._progress import progress_bar
from engram.cli._options import Tables, merged, with_options
from engram.cli._run import end_interrupted
from engram.cli._targets import check_file, check_picture, write_picture
from engram.registry import option_of


@with_options("problem", "system", "dynamics", "run")
def simulate(
    tables: Tables,
    spec: Annotated[Path | None, typer.Argument(metavar="SPEC.toml|RUN.nc", help="A TOML spec, or an earlier .nc file to run again; options override it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the dataset, FILE.nc.", rich_help_panel="Output")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it, FILE.png, .pdf or .svg.", rich_help_panel="Output")] = None,
) -> None:  # fmt: skip
    """Run one dynamics on one problem, and print what happened: spikes, forgetting, perfect accuracy.

    Without a spec or options: two tokens of correlation 0.95, p1 = 0.75, descent at learning rate 10
    for 34 steps, the loss spike of the paper's Figure 2.

    A .nc that `simulate` or `reproduce` wrote is run again from its own attributes, and compared bit
    for bit: exit code 1 if something differs. Options change all but its problem; then nothing is compared.
    """
    from engram.specs import build_problem, given_of, problem_of, read_netcdf, spec_of

    before, given = None, {}
    if spec is not None and spec.suffix.lower() == ".nc":
        old = read_netcdf(spec)
        if "figure" in old.attrs:
            _figure_again(spec, old, tables, out, plot)
            return
        changed = _changes(spec, old, tables)
        what = spec_of(old, spec, changed)
        _use_devices(what)
        problem = problem_of(old, spec)
        _check_targets(out, plot)
        if not changed:
            before, given = (spec, old), given_of(old)
    else:
        what = _read(spec, tables)
        _check_targets(out, plot)
        _use_devices(what)
        problem = build_problem(what.problem)
    if plot is not None and before is None:
        what = _with_weights(what, problem)
    _run(what, problem, out, plot, before, given)


def _use_devices(spec: Any) -> None:
    """Have as many devices as a run shares its tokens among, before JAX starts."""
    from engram._devices import use_devices

    if spec.run["devices"] > 1:
        use_devices(spec.run["devices"])


def _read(path: Path | None, typed: Tables) -> Any:
    """The spec of a file and options. Without a file, what is not typed is that of Figure 2's loss spike."""
    from engram.specs import read_spec

    problem, dynamics, run = (typed.get(name, {}) for name in ("problem", "dynamics", "run"))
    if path is None and "path" in problem:
        problem.setdefault("family", "file")
    usual: dict[str, Any] = {}
    if problem.get("family", "two") == "two":
        usual["problem"] = {"correlation": 0.95, "p1": 0.75}
    if dynamics.get("kind", "gd") == "gd" and "end" not in dynamics:
        usual["dynamics"] = {"kind": "gd", "learning_rate": 10.0, "steps": 34}
    if seed := {name: value for name, value in (run | problem).items() if name == "seed"}:
        # One --seed is that of the problem, the start and the noise.
        typed |= {"problem": problem | seed, "run": run | seed}
    return read_spec(*merged(path, typed, usual))


def _changes(path: Path, old: Any, typed: Tables) -> Tables:
    """What is to be changed of a stored run: anything but its problem."""
    if "spec" not in old.attrs:
        if {"inputs", "outputs", "probs", "targets"} <= set(old.variables):
            raise InputError(f"{path} is a problem, not a run. Give it as `--problem-file {path}`.")
        raise InputError(
            f"{path} is not a run: it has neither the attribute `spec` nor `figure`. Give a file that "
            "`engram simulate ... --out FILE.nc` or `engram reproduce` wrote."
        )
    # A seed is also one of the start and the noise, which may change; the problem may not.
    if named := [field for field in typed.get("problem", {}) if field != "seed"]:
        raise InputError(
            f"`{option_of('problem', named[0])}` cannot change the problem of {path}, which is stored as it "
            "was. Leave it out, or describe the problem and the dynamics by options, without the file."
        )
    return {table: typed[table] for table in ("dynamics", "run") if table in typed}


def _figure_again(path: Path, old: Any, typed: Tables, out: Path | None, plot: Path | None) -> None:
    """Compute the data of a figure again."""
    from engram.figures import compute_again

    figure = old.attrs["figure"]
    named = [option_of(table, field) for table, fields in typed.items() for field in fields]
    if named or plot is not None:
        raise InputError(
            f"`{[*named, '--plot'][0]}` does not go with {path}, the data of {figure}. Leave it out; "
            f"`engram reproduce {figure}` draws it."
        )
    _check_targets(out, None)
    with progress_bar(str(figure)) as tell:
        new = compute_again(path, tell)
    same = _is_same(path, old, new)
    if out is not None:
        _write(new, out)
    if not same:
        sys.exit(1)


def _with_weights(spec: Any, problem: Any) -> Any:
    """The same with the weights on record, if a picture can show their plane."""
    if problem.dim != 2 or problem.num_classes != 2:
        return spec
    named = spec.run["record"]
    return spec if "weights" in named else spec.with_fields(run={"record": [*named, "weights"]})


def _run(
    spec: Any,
    problem: Any,
    out: Path | None,
    plot: Path | None,
    before: tuple[Path, Any] | None,
    given: dict[str, Any],
) -> None:
    """Run a spec on a problem; `before` is a file with what should come out, and its content."""
    from engram.simulation import Interrupted
    from engram.specs import simulate_spec

    _announce(spec, problem)
    interrupted = False
    title = f"{spec.dynamics['kind']} on {spec.problem['family']}"
    try:
        with progress_bar(title) as tell:
            run = simulate_spec(spec, tell, problem=problem, **given)
    except Interrupted as stop:
        run, interrupted = stop.partial, True
    if before is not None:
        run = run.assign_attrs(spec=before[1].attrs["spec"])
    _report(run, problem.shown_names())
    same = before is None or interrupted or _is_same(*before, run)
    if out is not None:
        _write(run, out)
    if plot is not None and len(run["time"]):
        write_picture(engram.plot(run), plot)
    if interrupted and out is None:
        end_interrupted("nothing was written: pass --out FILE.nc.")
    if interrupted:
        again = f"engram simulate {quote(str(out))}"
        end_interrupted(f"{out} holds what was recorded. Run it to the end: {again}")
    if not same:
        sys.exit(1)


def _announce(spec: Any, problem: Any) -> None:
    """Say before a long run what it will take."""
    from engram.registry import make
    from engram.simulation import When, expected

    dynamics, run = make("dynamics", spec.dynamics), spec.run
    if spec.system is not None or not hasattr(dynamics, "num_steps"):
        return
    when = {name: run[name] for name in ("at", "every", "points") if run.get(name) is not None}
    cost = expected(
        problem, dynamics, records=len(When(**when).steps(dynamics.num_steps)),
        events=bool(run["events"]), space=run["space"], devices=run["devices"],
    )  # fmt: skip
    if cost is not None:
        Console(stderr=True).print(str(cost), soft_wrap=True, highlight=False)


def _is_same(path: Path, old: Any, new: Any) -> bool:
    """Compare with what a file held, and say so in one line."""
    import engram
    from engram.simulation import common_part, differences

    notes = []
    if old.attrs.get("status") == "interrupted":
        old, new = common_part(old, new)
        notes.append("which was interrupted, as far as it goes")
    if (version := old.attrs.get("engram", engram.__version__)) != engram.__version__:
        notes.append(f"written by engram {version}, this is {engram.__version__}")
    name = f"{path} ({'; '.join(notes)})" if notes else str(path)
    changes = ", ".join(differences(old, new))
    line = f"not the same as {name}: {changes}" if changes else f"the same as {name}, bit for bit"
    Console().print(line, soft_wrap=True, markup=False, highlight=False)
    return not changes


def _check_targets(out: Path | None, plot: Path | None) -> None:
    check_file("--out", out, (".nc",))
    check_picture("--plot", plot)


def _report(run: Any, names: list[str]) -> None:
    """Print what happened, in a few lines."""
    along = "step" if "step" in run.dims else "time"
    lines = [
        f"{run.attrs['dynamics']} in {run.attrs['space']}: {run.attrs['status_text']}, "
        f"{run.attrs['num_steps']:,} steps, {run.sizes[along]:,} points recorded"
    ]
    for name in ("loss", "error"):
        if name in run and run.sizes[along]:
            values = run[name].values
            lines.append(
                f"{name}: {values[0]:.6g} at the start, {values.max():.6g} at most, "
                f"{values[-1]:.6g} at the end"
            )
    if "first_perfect" in run:
        lines += [f"perfect accuracy: {_when(run, along)}", f"spikes: {_spikes(run, along)}"]
        if forgotten := [names[x] for x in run.num_forgotten.values.nonzero()[0]]:
            shown = ", ".join(forgotten[:10]) + (", ..." if len(forgotten) > 10 else "")
            lines.append(f"forgotten at some {along}: token {shown}")
    for line in lines:
        Console().print(line, soft_wrap=True, markup=False, emoji=False)


def _when(run: Any, along: str) -> str:
    first, stays = float(run.first_perfect), float(run.perfect_from)
    if first != first:
        return "not reached"
    kept = "not kept" if stays != stays else f"kept from {along} {stays:g}"
    # Of a flow only the recorded times are looked at.
    seen = "first at step" if along == "step" else "first at the recorded time"
    return f"{seen} {first:g}, {kept}"


def _spikes(run: Any, along: str) -> str:
    number = int(run.num_spikes)
    if not number:
        return "none"
    return (
        f"{number}, the highest {float(run.highest_spike):.4g} times the lowest loss before, at {along} "
        f"{float(run.highest_spike_step):g}"
    )


def _write(data: Any, out: Path) -> None:
    with written_whole(out) as path:
        # In memory first: on a full disk HDF5 prints a traceback for each object that it closes.
        path.write_bytes(data.to_netcdf(engine="h5netcdf"))
    Console().print(f"written: {out}", soft_wrap=True)
