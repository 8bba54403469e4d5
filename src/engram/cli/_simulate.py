"""`engram simulate`: a spec, options or an earlier run in, a dataset and a picture out."""

import sys
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console

from engram._checks import InputError
from engram._files import written_whole
from engram._progress import progress_bar, was_interrupted
from engram.cli._targets import check_file, check_picture, write_picture


def simulate(spec_path: Path | None, tables: dict[str, Any], out: Path | None, plot: Path | None):
    """Run, print what happened, write what was asked for; Ctrl-C keeps what was recorded."""
    from engram.specs import build_problem, read_spec, read_toml

    if spec_path is not None and spec_path.suffix.lower() == ".nc":
        _again(spec_path, tables, out, plot)
        return
    source = "the options" if spec_path is None else str(spec_path)
    merged = _usual(tables) if spec_path is None else read_toml(spec_path)
    for table, values in tables.items():
        given = merged.setdefault(table, {})
        if not isinstance(given, dict):
            raise InputError(
                f"{source}: [{table}] must be a table, got {given!r}. Write [{table}]."
            )
        given |= values
    _share_seed(merged, tables)
    spec = read_spec(merged, source)
    _check_targets(out, plot)
    problem = build_problem(spec.problem)
    if plot is not None:
        spec = _with_weights(spec, problem)
    _run(spec, problem, out, plot)


def _usual(tables: dict[str, Any]) -> dict[str, Any]:
    """What goes without saying when nothing but options is given: the loss spike of Figure 2."""
    problem, dynamics = tables.get("problem", {}), tables.get("dynamics", {})
    if "path" in problem:
        problem["family"] = "file"
    usual: dict[str, Any] = {}
    if problem.get("family", "two") == "two":
        usual["problem"] = {"correlation": 0.95, "p1": 0.75}
    if dynamics.get("kind", "gd") == "gd" and "end" not in dynamics:
        usual["dynamics"] = {"kind": "gd", "learning_rate": 10.0, "steps": 34}
    return usual


def _share_seed(merged: dict[str, Any], tables: dict[str, Any]) -> None:
    """One --seed is that of the problem, the start and the noise."""
    if "seed" in tables.get("run", {}) or "seed" in tables.get("problem", {}):
        seed = (tables.get("run", {}) | tables.get("problem", {}))["seed"]
        for table in ("problem", "run"):
            merged.setdefault(table, {})["seed"] = seed


def _again(path: Path, tables: dict[str, Any], out: Path | None, plot: Path | None) -> None:
    """Run a file again from its own attributes, or something else on its problem."""
    from engram.specs import given_of, problem_of, read_netcdf, spec_of

    old = read_netcdf(path)
    if "figure" in old.attrs:
        _figure_again(path, old, tables, out, plot)
        return
    if "spec" not in old.attrs:
        raise InputError(_is_no_run(path, old))
    # A seed is also one of the start and the noise, which may change; the problem may not.
    if named := _options(field for field in tables.get("problem", {}) if field != "seed"):
        raise InputError(
            f"`{named[0]}` cannot change the problem of {path}, which is stored as it was. Leave it "
            "out, or describe the problem and the dynamics by options, without the file."
        )
    problem = problem_of(old, path)
    changed = {table: tables[table] for table in ("dynamics", "run") if table in tables}
    spec = spec_of(old, path, changed)
    _check_targets(out, plot)
    if not changed:
        _run(spec, problem, out, plot, (path, old), **given_of(old))
        return
    if plot is not None:
        spec = _with_weights(spec, problem)
    _run(spec, problem, out, plot)


def _figure_again(
    path: Path, old: Any, tables: dict[str, Any], out: Path | None, plot: Path | None
) -> None:
    """Compute the data of a figure again."""
    from engram.figures import compute_again

    figure = old.attrs["figure"]
    named = _options(field for table in tables.values() for field in table)
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


_TYPED = {"family": "tokens", "path": "problem-file", "kind": "dynamics"}


def _options(fields: Iterable[str]) -> list[str]:
    """The options, as they are typed, that fill these fields of a spec."""
    fields = dict.fromkeys(fields)
    if "path" in fields:  # then the family comes with it
        fields.pop("family", None)
    return ["--" + _TYPED.get(field, field).replace("_", "-") for field in fields]


def _is_no_run(path: Path, data: Any) -> str:
    if {"inputs", "outputs", "probs", "targets"} <= set(data.variables):
        return f"{path} holds a problem and no run. Give it as `--problem-file {path}`."
    return (
        f"{path} holds no run: it has no attribute `spec` and no `figure`. Give a file that "
        "`engram simulate ... --out FILE.nc` or `engram reproduce` wrote."
    )


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
    before: tuple[Path, Any] | None = None,
    **given: Any,
) -> None:
    """Run a spec on a problem; `before` is a file with what should come out, and its content."""
    from engram.simulation import Interrupted
    from engram.specs import simulate_spec

    interrupted = False
    try:
        with progress_bar(_title(spec)) as tell:
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
        _draw(run, problem, spec, plot)
    if interrupted:
        was_interrupted()  # heard, and reported here
        kept = "Nothing was written: pass --out FILE.nc."
        if out is not None:
            kept = f"{out} holds what was recorded. Run it to the end: engram simulate {quote(str(out))}"
        print(f"interrupted. {kept}", file=sys.stderr)
        raise KeyboardInterrupt
    if not same:
        sys.exit(1)


def _is_same(path: Path, old: Any, new: Any) -> bool:
    """Compare with what a file held, and say so in one line."""
    import engram
    from engram.specs import common_part, differences

    notes = []
    if old.attrs.get("status") == "interrupted":
        old, new = common_part(old, new)
        notes.append("which was interrupted, as far as it goes")
    if (version := old.attrs.get("engram", engram.__version__)) != engram.__version__:
        notes.append(f"written by engram {version}, this is {engram.__version__}")
    name = f"{path} ({'; '.join(notes)})" if notes else str(path)
    found = differences(old, new)
    line = (
        f"not the same as {name}: {', '.join(found)}"
        if found
        else f"the same as {name}, bit for bit"
    )
    Console().print(line, soft_wrap=True, markup=False, highlight=False)
    return not found


def _check_targets(out: Path | None, plot: Path | None) -> None:
    check_file("--out", out, (".nc",))
    check_picture("--plot", plot)


def _report(run: Any, names: list[str]) -> None:
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
        forgotten = [names[x] for x in run.num_forgotten.values.nonzero()[0]]
        if forgotten:
            shown = ", ".join(forgotten[:10]) + (", ..." if len(forgotten) > 10 else "")
            line = f"forgotten at some {along}: token {shown}"
            console.print(line, soft_wrap=True, markup=False, emoji=False)


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
        data.to_netcdf(path, engine="h5netcdf")
    Console().print(f"written: {out}", soft_wrap=True)


def _draw(run: Any, problem: Any, spec: Any, plot: Path) -> None:
    from engram.figures.run_picture import draw_run

    shown = {name: value for name, value in spec.dynamics.items() if name != "kind"}
    text = ", ".join(f"{key} = {value}" for key, value in shown.items() if _is_told(spec, key))
    write_picture(draw_run(run, problem, _title(spec) + (f": {text}" if text else "")), plot)


def _title(spec: Any) -> str:
    return f"{spec.dynamics['kind']} on {spec.problem['family']}"


def _is_told(spec: Any, name: str) -> bool:
    """Whether a field differs from its default, so that a title should have it."""
    from engram.registry import fields_of

    field = fields_of("dynamics", spec.dynamics).get(name)
    return field is None or field.default != spec.dynamics[name]
