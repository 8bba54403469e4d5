"""`engram audit`: a table of verdicts, or one claim in full."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram._errors import InputError
from engram._files import written_whole
from engram.cli._run import end_interrupted
from engram.cli._targets import check_file, check_picture, write_picture

if TYPE_CHECKING:  # they load for a second
    from engram.audits import Claim, Finding

# Each verdict's colour, and its name where the terminal is narrow.
_VERDICTS = {
    "HOLDS": ("green", "holds"),
    "HOLDS-UNDER-CONDITIONS": ("yellow", "conditions"),
    "FALSE-AS-PRINTED": ("bold red", "false"),
    "TYPO": ("cyan", "typo"),
    "NOT-TESTABLE": ("dim", "untested"),
    "CONJECTURE": ("magenta", "conjecture"),
}
_OWNERS = "of the paper", "beyond the paper", "of your own"
_SHORTER = {"Theorem": "Thm", "Proposition": "Prop.", "Figure": "Fig.", "Appendix": "App.", "Section": "Sec."}  # fmt: skip


def audit(
    names: Annotated[list[str] | None, typer.Argument(metavar="CLAIM", help="Numbers such as C15, or FILE.py with claims of your own; default all.")] = None,
    own: Annotated[list[str] | None, typer.Option("--claim", metavar="MODULE:NAME", help="A claim of your own, from a module that can be imported here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw one claim, FILE.png, .pdf or .svg.")] = None,
    page: Annotated[Path | None, typer.Option("--errata", help="Write the errata, FILE.md, from all claims.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random parameters.")] = 0,
) -> None:  # fmt: skip
    """Check every claim of the paper by running it: verdict, slack, counterexample, correction.

    One claim, as in `engram audit C15`, is shown in full: what is printed, why it fails with the
    numbers, what is true, a proof in outline, and a plot. Exit code 1 if a verdict is not the one on record.
    """
    from engram.audits import audit_each, errata, load_claim, select

    loaded = [load_claim(place) for place in own or ()]
    claims = (select(names) if names else []) + loaded if names or loaded else select()
    if plot is not None and len(claims) != 1:
        raise InputError(
            f"--plot draws one claim, got {len(claims)}. Name one, as in `engram audit C15`."
        )
    check_picture("--plot", plot)
    if page is not None and (names or own):
        raise InputError("--errata is written from all claims. Leave out CLAIM.")
    check_file("--errata", page, (".md",))
    findings = []
    try:
        for finding in audit_each(claims, seed=seed):
            findings.append(finding)
    except KeyboardInterrupt:
        if not as_json and findings:
            _print_table(findings)
        rest = " ".join(claim.id for claim in claims[len(findings) :])
        end_interrupted(f"for the rest run: engram audit {rest}")
    if as_json:
        print(json.dumps([finding.as_dict() for finding in findings], indent=2))
    elif len(findings) == 1:
        _print_one(findings[0])
    else:
        _print_table(findings)
    if plot is not None:
        _draw(findings[0], plot)
    changed = [finding for finding in findings if finding.changes]
    if page is not None and not changed:
        with written_whole(page) as partial:
            Path(partial).write_text(errata(findings), encoding="utf-8")
        print(f"written: {page}", file=sys.stderr)
    for finding in changed:
        print(f"changed: {finding.claim.id}: {'; '.join(finding.changes)}", file=sys.stderr)
    if changed:
        sys.exit(1)


def _print_table(findings: "list[Finding]") -> None:
    from engram.audits import root_causes, where

    console = Console()
    wide = console.width >= 110
    colour_of = lambda evidence: "default" if evidence.holds else "red"
    slack = lambda evidence: f"[{colour_of(evidence)}]{evidence.worst:.1g}[/]" if evidence else "-"
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("id", "where", "statement", "verdict", "slack", *["corrected"] * wide, "cert."):
        prose, number = name == "statement", name in ("slack", "corrected")
        table.add_column(name, ratio=1 if prose else None, no_wrap=not prose, justify="right" if number else "left")  # fmt: skip
    for finding in findings:
        claim, (colour, short) = finding.claim, _VERDICTS[finding.verdict]
        word, *rest = (claim.place or where(claim.label)).split()
        table.add_row(
            claim.id,
            escape(" ".join([_SHORTER.get(word, word), *rest])),
            escape(claim.title) + (" [bold red]CHANGED[/]" if finding.changes else ""),
            f"[{colour}]{finding.verdict if wide else short}[/]",
            slack(finding.printed),
            *([slack(finding.corrected)] if wide else []),
            "proof" if finding.is_certified else "",
        )
    console.print(table)
    groups = {owner: [f for f in findings if _owner(f.claim) == owner] for owner in _OWNERS}
    verdicts = "\n".join(_counted(group, owner) for owner, group in groups.items() if group)
    proved = sum(finding.is_certified for finding in findings)
    changed = sum(bool(finding.changes) for finding in findings)
    roots = len(root_causes(finding.claim for finding in findings))
    causes = f"{roots} root cause{'s' * (roots != 1)} of what is false; " if roots else ""
    cases = sum(finding.printed.num_cases for finding in findings if finding.printed)
    seconds = sum(finding.seconds for finding in findings)
    console.print(
        f"{verdicts}\n{causes}{proved} violation{'s' * (proved != 1)} proved in ball arithmetic; {changed or 'no'} verdict{'s' * (changed != 1)} "
        f"changed; {cases:,} cases, {seconds:.0f} s. `engram audit C15` shows one in full.",
        highlight=False,
    )


def _owner(claim: "Claim") -> str:
    from engram.audits.claims import CLAIMS

    paper, beyond, own = _OWNERS
    if claim.is_of_the_paper:
        return paper
    return beyond if claim.id in CLAIMS else own


def _counted(findings: "list[Finding]", owner: str) -> str:
    counts = Counter(finding.verdict for finding in findings)
    verdicts = ", ".join(f"[{_VERDICTS[v][0]}]{v}[/] {counts[v]}" for v in _VERDICTS if counts[v])
    return f"{len(findings)} statement{'s' * (len(findings) != 1)} {owner}: {verdicts}."


def _print_one(finding: "Finding") -> None:
    from engram.audits import as_text, curves_of, in_words, where

    claim, console = finding.claim, Console()
    place, (colour, _) = escape(claim.place or where(claim.label)), _VERDICTS[finding.verdict]
    console.print(f"[bold]{claim.id}[/]  {place}  [{colour}]{finding.verdict}[/]", highlight=False)
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", width=12, justify="right")
    grid.add_column()
    for title, text in in_words(finding):
        grid.add_row(title, escape(text))
    console.print(grid, highlight=False)
    if curves := curves_of(finding):
        print("\n" + as_text(curves, width=min(72, max(30, console.width - 14))))


def _draw(finding: "Finding", path: Path) -> None:
    from matplotlib.figure import Figure

    from engram.audits import curves_of, draw

    figure, curves = Figure(figsize=(6.4, 4.2), layout="constrained"), curves_of(finding)
    if curves is None:
        print(f"{finding.claim.id} has nothing to draw", file=sys.stderr)
    else:
        draw(figure.subplots(), curves)
        write_picture(figure, path, sys.stderr)
