"""`engram reproduce`: figures and claims into a folder, and one page that shows them."""

import json
import sys
import time
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram.cli._targets import check_out


def reproduce(names: list[str], scale: str, out: Path) -> None:
    from engram._checks import InputError, check_choice
    from engram._files import clear_leftovers
    from engram.figures import FIGURES, SCALES
    from engram.transformer import use_devices

    known = (*FIGURES, "claims")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(
            f"FIGURE must be one of {', '.join(known)}, got {', '.join(unknown)}. Pick from those."
        )
    check_choice("--scale", scale, SCALES)
    use_devices()  # one per core, for the transformer
    check_out(out)
    clear_leftovers(out, [*known, "report"])
    wanted = [name for name in known if name in names] if names else list(known)
    _make(wanted, scale, out, _typed(wanted if names else [], scale, out))


def _typed(names: list[str], scale: str, out: Path) -> str:
    parts = ["engram reproduce", *names]
    parts += [f"--scale {scale}"] if scale != "quick" else []
    parts += [f"--out {quote(str(out))}"] if out != Path("out") else []
    return " ".join(parts)


def _make(wanted: list[str], scale: str, out: Path, command: str) -> None:
    """Make one after the other; what is made stays, also if a later one is interrupted."""
    from engram._progress import was_interrupted
    from engram.report import Run, write_report

    began = time.perf_counter()
    made, findings, missing = [], None, []
    try:
        for name in wanted:
            missing = wanted[wanted.index(name) :]
            if name == "claims":
                findings = _claims(out)
            else:
                made.append(_figure(name, scale, out))
        missing = []
    except KeyboardInterrupt:
        pass
    run = Run(made, findings, command, scale, time.perf_counter() - began, missing)
    page = out / "report.html"
    write_report(run, page)
    Console().print(f"report: {page}", soft_wrap=True, highlight=False)
    for fault in run.faults:
        print(f"not as it should be: {fault}", file=sys.stderr)
    if missing:
        was_interrupted()  # heard, and told here
        print(f"interrupted before {', '.join(missing)}; again: {command}", file=sys.stderr)
        sys.exit(130)
    if run.faults:
        sys.exit(1)


def _figure(name: str, scale: str, out: Path) -> Any:
    from engram._progress import progress_bar
    from engram.figures import module_of, write_figure

    module = module_of(name)
    if scale == "paper" and hasattr(module, "estimate"):
        hours = module.estimate(module.SCALES[scale]) / 3600
        Console(stderr=True).print(
            f"{name} at the paper's scale: about {hours:.1f} hours on this machine; runs are kept in "
            f"{out}/{name}-runs, and the same command goes on with them",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    with progress_bar(name, "parts") as tell:
        made = write_figure(name, out, scale, tell)
    console = Console()
    known = [row for row in made.comparisons if row.reference is not None]
    inside = sum(row.is_ok for row in known)
    state = "[green]" if made.is_ok else "[bold red]"
    console.print(
        f"[bold]{name}[/bold]  {escape(made.title)}  {state}{inside} of {len(known)} within tolerance[/]  "
        f"{made.seconds:.1f} s",
        highlight=False,
    )
    listed = Table.grid(padding=(0, 1))
    for said in made.findings:
        listed.add_row(" ·", escape(said))
    console.print(listed, highlight=False)
    console.print(f"  written: {out}/{name}.png, .pdf, .nc", soft_wrap=True, highlight=False)
    return made


def _claims(out: Path) -> list[Any]:
    from engram._files import written_whole
    from engram.audits import audit_each, select

    began, claims = time.perf_counter(), select()
    Console(stderr=True).print(f"checking {len(claims)} claims; a minute or two", highlight=False)
    found = list(audit_each(claims))
    with written_whole(out / "claims.json") as partial:
        text = json.dumps([finding.as_dict() for finding in found], indent=2, ensure_ascii=False)
        partial.write_text(text + "\n", encoding="utf-8")
    changed = [finding for finding in found if finding.changes]
    Console().print(
        f"[bold]claims[/bold]  {len(found)} checked, {len(changed) or 'no'} verdict"
        f"{'s' * (len(changed) != 1)} changed  {time.perf_counter() - began:.0f} s\n"
        f"  written: {out}/claims.json",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    return found
