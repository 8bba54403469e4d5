"""`engram audit`: a table of verdicts, or one claim in full."""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram._errors import InputError
from engram.cli._run import end_interrupted
from engram.cli._targets import check_file, check_picture, write_picture

_COLOURS = {
    "HOLDS": "green",
    "HOLDS-UNDER-CONDITIONS": "yellow",
    "FALSE-AS-PRINTED": "bold red",
    "TYPO": "cyan",
    "NOT-TESTABLE": "dim",
}


def audit(
    names: Annotated[list[str] | None, typer.Argument(metavar="[CLAIM]...", help="C01 to C56; default all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw one claim, FILE.png, .pdf or .svg.")] = None,
    page: Annotated[Path | None, typer.Option("--errata", help="Write the errata, FILE.md, from all claims.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other draws for another seed.")] = 0,
) -> None:  # fmt: skip
    """Check every claim of the paper by running it: verdict, slack, counterexample, correction.

    One claim, as in `engram audit C15`, is shown in full: what is printed, why it fails with the
    numbers, what is true, a proof in outline, and a plot. Exit code 1 if a verdict is not the one on record.
    """
    from engram.audits import audit_each, select

    claims = select(names or None)
    if plot is not None and len(claims) != 1:
        raise InputError(
            f"--plot draws one claim, got {len(claims)}. Name one, as in `engram audit C15`."
        )
    check_picture("--plot", plot)
    if page is not None and names:
        raise InputError("--errata is written from all claims. Leave out CLAIM.")
    check_file("--errata", page, (".md",))
    began, found = time.perf_counter(), []
    try:
        for finding in audit_each(claims, seed=seed):
            found.append(finding)
    except KeyboardInterrupt:
        if not as_json and found:
            _print_table(found, time.perf_counter() - began)
        rest = " ".join(claim.id for claim in claims[len(found) :])
        end_interrupted(f"for the rest run: engram audit {rest}")
    if as_json:
        json.dump([finding.as_dict() for finding in found], sys.stdout, indent=2)
        print()
    elif len(found) == 1:
        _print_one(found[0])
    else:
        _print_table(found, time.perf_counter() - began)
    if plot is not None:
        _draw(found[0], plot)
    changed = [finding for finding in found if finding.changes]
    if page is not None and not changed:
        _write_errata(found, page)
    for finding in changed:
        print(f"changed: {finding.claim.id}: {'; '.join(finding.changes)}", file=sys.stderr)
    if changed:
        sys.exit(1)


_SHORT = {
    "HOLDS": "holds",
    "HOLDS-UNDER-CONDITIONS": "conditions",
    "FALSE-AS-PRINTED": "false",
    "TYPO": "typo",
    "NOT-TESTABLE": "untested",
}


def _slack(evidence) -> str:
    return "-" if evidence is None else f"{evidence.worst:.1g}"


def _place(claim) -> str:
    from engram.audits import where

    shorter = {
        "Theorem": "Thm",
        "Proposition": "Prop.",
        "Figure": "Fig.",
        "Appendix": "App.",
        "Section": "Sec.",
    }
    word, *rest = (claim.place or where(claim.label)).split()
    return " ".join([shorter.get(word, word), *rest])


def _print_table(found: list, seconds: float) -> None:
    console = Console()
    wide = console.width >= 110
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("where", no_wrap=True)
    table.add_column("statement", ratio=1)
    table.add_column("verdict", no_wrap=True)
    table.add_column("slack", justify="right", no_wrap=True)
    if wide:
        table.add_column("corrected", justify="right", no_wrap=True)
    table.add_column("cert.", no_wrap=True)
    for finding in found:
        colour = _COLOURS[finding.verdict]
        verdict = finding.verdict if wide else _SHORT[finding.verdict]
        holds = finding.printed is None or finding.printed.holds
        slack = _slack(finding.printed)
        table.add_row(
            finding.claim.id,
            escape(_place(finding.claim)),
            escape(finding.claim.title) + (" [bold red]CHANGED[/]" if finding.changes else ""),
            f"[{colour}]{verdict}[/]",
            slack if holds else f"[red]{slack}[/]",
            *([_slack(finding.corrected)] if wide else []),
            "proof" if finding.is_certified else "",
        )
    console.print(table)
    counts = Counter(finding.verdict for finding in found)
    told = ", ".join(
        f"[{colour}]{verdict}[/] {counts[verdict]}"
        for verdict, colour in _COLOURS.items()
        if counts[verdict]
    )
    proved = sum(finding.is_certified for finding in found)
    changed = sum(bool(finding.changes) for finding in found)
    cases = sum(finding.printed.num_cases for finding in found if finding.printed)
    console.print(f"{len(found)} statements: {told}.", highlight=False)
    console.print(
        f"{proved} violations proved in ball arithmetic; {changed or 'no'} verdict{'s' * (changed != 1)} "
        f"changed; {cases:,} cases, {seconds:.0f} s. `engram audit C15` shows one in full.",
        highlight=False,
    )


def _print_one(finding) -> None:
    from engram.audits import as_text, curves_of, in_words, where

    claim, console = finding.claim, Console()
    colour = _COLOURS[finding.verdict]
    console.print(
        f"[bold]{claim.id}[/]  {escape(claim.place or where(claim.label))}  [{colour}]{finding.verdict}[/]",
        highlight=False,
    )
    for title, text in in_words(finding):
        _say(console, title, text)
    curves = curves_of(finding)
    if curves is not None:
        console.print()
        print(as_text(curves, width=min(72, max(30, console.width - 14))))


def _say(console: Console, title: str, text: str) -> None:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", width=11, justify="right")
    grid.add_column()
    grid.add_row(title, escape(text))
    console.print(grid, highlight=False)


def _draw(finding, path: Path) -> None:
    from matplotlib.figure import Figure

    from engram.audits import curves_of, draw

    curves = curves_of(finding)
    if curves is None:
        print(f"{finding.claim.id} has nothing to draw", file=sys.stderr)
        return
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    draw(figure.subplots(), curves)
    write_picture(figure, path, sys.stderr)


def _write_errata(found: list, page: Path) -> None:
    from engram._files import written_whole
    from engram.audits import errata

    with written_whole(page) as partial:
        Path(partial).write_text(errata(found), encoding="utf-8")
    print(f"written: {page}", file=sys.stderr)
