"""The page: what was made, how it compares, on what machine, in one file with nothing outside it."""

import base64
import dataclasses
import datetime
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import engram
from engram._files import written_whole
from engram._machine import commit, machine, versions
from engram._pages import page_templates, png_text
from engram.audits import Finding, curves_of, draw, in_words, where
from engram.figures import Comparison, FigureResult
from engram.report._typeset import typeset


@dataclasses.dataclass(frozen=True)
class Checked:
    """A claim that was checked, as the page shows it: words, numbers and a picture, all of them plain.

    Args:
        record: What `claims.json` says of it.
        picture: A PNG in base64, if there is something to draw.
    """

    id: str
    where: str
    title: str
    verdict: str
    holds: bool
    slack: float | None
    is_certified: bool
    changes: list[str]
    words: list[tuple[str, str]]
    picture: str | None
    seconds: float
    record: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of `engram reproduce`.

    Args:
        figures: The figures, in order.
        claims: The claims, checked. None if they were not asked for, or are pending.
        command: What was typed.
        scale: "tiny", "quick", "medium" or "paper".
        seconds: How long everything took so far.
        pending: What is still being computed.
        missing: What an interruption left undone.
        live: Links to pages that show a figure live, by the figure's name: each with its words.
    """

    figures: Sequence[FigureResult]
    claims: Sequence[Checked] | None
    command: str
    scale: str
    seconds: float
    pending: Sequence[str] = ()
    missing: Sequence[str] = ()
    live: Mapping[str, Sequence[tuple[str, str]]] = dataclasses.field(default_factory=dict)

    @property
    def faults(self) -> list[str]:
        """What is out of tolerance or not as on record, one line each."""
        rows = [
            f"{figure.name}: {row.quantity}: {_fault(row)}"
            for figure in self.figures
            for row in figure.comparisons
            if not row.is_ok
        ]
        changed = [claim for claim in self.claims or () if claim.changes]
        return rows + [f"{claim.id}: {'; '.join(claim.changes)}" for claim in changed]


def _fault(row: Comparison) -> str:
    if row.reference is None:
        return f"ours is not a number ({row.ours:g})"
    return (
        f"ours {row.ours:.10g}, reference {row.reference:.10g}, "
        f"difference {row.difference:.1e}, tolerance {row.tolerance:.1e}"
    )


PAPER = "https://arxiv.org/abs/2402.18724"


def summary(run: Run) -> list[str]:
    """The page in five sentences: what was made, how it compares, the claims, what is seen, what is wrong."""
    rows = [
        row for figure in run.figures for row in figure.comparisons if row.reference is not None
    ]
    inside, claims = sum(row.is_ok for row in rows), run.claims or ()
    printed = [claim for claim in claims if claim.record["label"]]
    counts = Counter(claim.verdict for claim in printed)
    verdicts = (("HOLDS", "true as printed"), ("HOLDS-UNDER-CONDITIONS", "true under further conditions"),
                ("FALSE-AS-PRINTED", "false as printed"), ("TYPO", "misprinted"),
                ("NOT-TESTABLE", "not testable"))  # fmt: skip
    judged = ", ".join(f"{counts[name]} {words}" for name, words in verdicts if counts[name])
    pictures = _listed([figure.name for figure in run.figures]) or "No figure"
    shown = next(
        (figure for figure in run.figures if figure.name == "fig2"), next(iter(run.figures), None)
    )
    faults = len(run.faults)
    return [
        f"{pictures} of the paper {'was' if len(run.figures) < 2 else 'were'} computed again from the authors' settings, at the scale `{run.scale}`.",
        f"Of {len(rows)} comparisons with reference values, {inside} are within their tolerances."
        if rows
        else "There was no reference value to compare with.",
        f"Of the {len(printed)} claims of the paper that were checked by running them, these are the verdicts: {judged}."
        if claims
        else "The claims of the paper were not checked in this run; `engram audit` checks them.",
        f"What to see first is in {_listed([shown.name])}: {shown.findings[0].rstrip('.')}."
        if shown is not None and shown.findings
        else "There is no figure to look at.",
        f"{faults} {'check' if faults == 1 else 'checks'} failed, which {'is' if faults == 1 else 'are'} listed below."
        if faults
        else f"So far nothing failed; what is missing: {_listed([*run.pending, *run.missing])}."
        if run.pending or run.missing
        else "Nothing failed, and no verdict differs from the one on record.",
    ]


def write_report(run: Run, path: Path) -> None:
    """Write the page, whole or not at all."""
    with written_whole(path) as partial:
        partial.write_text(render(run), encoding="utf-8")


def render(run: Run) -> str:
    """The page as text."""
    environment = page_templates("engram.report")
    environment.filters |= {
        "number": _number, "small": _small, "value": _value, "typeset": typeset,
    }  # fmt: skip
    rows = [row for figure in run.figures for row in figure.comparisons]
    claims = run.claims or ()
    return environment.get_template("page.html").render(
        title="engram: Learning Associative Memories with Gradient Descent, redone",
        run=run,
        version=engram.__version__,
        commit=commit(),
        paper=PAPER,
        summary=summary(run),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        figures=[
            _figure(figure) | {"live": run.live.get(figure.name, ())} for figure in run.figures
        ],
        compared=sum(row.reference is not None for row in rows),
        unknown=sum(row.reference is None for row in rows),
        outside=sum(row.reference is not None and not row.is_ok for row in rows),
        claims=claims,
        pending=_listed(run.pending),
        missing=_listed(run.missing),
        counts=Counter(claim.verdict for claim in claims),
        printed=Counter(claim.verdict for claim in claims if claim.record["label"]),
        changed=sum(bool(claim.changes) for claim in claims),
        certified=sum(claim.is_certified for claim in claims),
        roots={c.record["follows_from"] or c.id for c in claims if c.verdict == "FALSE-AS-PRINTED"},
        machine=machine(),
        versions=versions(),
    )


def _listed(names: Sequence[str]) -> str:
    """As a reader calls them: Figure 6, Figure 7 and the claims."""
    titles = [name.replace("fig", "Figure ").replace("claims", "the claims") for name in names]
    return " and ".join([", ".join(titles[:-1]), *titles[-1:]] if len(titles) > 1 else titles)


def _figure(result: FigureResult) -> dict[str, Any]:
    png = next(path for path in result.files if path.suffix == ".png")
    known = [row for row in result.comparisons if row.reference is not None]
    return {
        "result": result,
        "number": result.name.removeprefix("fig"),
        "picture": base64.b64encode(png.read_bytes()).decode(),
        "settings": {name: json.dumps(value) for name, value in result.settings.items()},
        "known": len(known),
        "inside": sum(row.is_ok for row in known),
        "files": [path.name for path in result.files],
    }


def checked(finding: Finding) -> Checked:
    """What the page shows of a finding; unlike a finding, it can go from one process to another."""
    claim, printed = finding.claim, finding.printed
    return Checked(
        id=claim.id,
        where=claim.place or where(claim.label),
        title=claim.title,
        verdict=finding.verdict,
        holds=printed is None or printed.holds,
        slack=None if printed is None else printed.worst,
        is_certified=finding.is_certified,
        changes=finding.changes,
        words=list(in_words(finding)),
        picture=_picture(finding),
        seconds=finding.seconds,
        record=finding.as_dict(),
    )


def _picture(finding: Finding) -> str | None:
    curves = curves_of(finding)
    if curves is None:
        return None
    figure = Figure(figsize=(5.6, 3.2), layout="constrained")
    draw(figure.subplots(), curves)
    return png_text(figure, 80)


def _number(value: float) -> str:
    return f"{value:.10g}"


def _small(value: float | None) -> str:
    if value is None:
        return "–"
    return "0" if value == 0 else f"{value:.1e}"


def _value(value: str) -> str:
    """A setting, short enough for a line: of a long list the ends."""
    return value if len(value) <= 90 else f"{value[:60]} … {value[-20:]}"
