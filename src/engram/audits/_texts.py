"""Findings in words: one claim for a terminal or a report, and all of them as the errata page."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import resources

from engram._paper import LABELS
from engram.audits._claim import Claim, Finding

_SECTIONS = {
    "FALSE-AS-PRINTED": "False as printed",
    "HOLDS-UNDER-CONDITIONS": "True under conditions that are not stated",
    "TYPO": "Misprints",
    "HOLDS": "True, and sharper",
    "NOT-TESTABLE": "Not tested",
}
# What becomes of a theorem of ours.
_OURS = {
    "HOLDS": "Holds",
    "HOLDS-UNDER-CONDITIONS": "Holds under conditions",
    "CONJECTURE": "Conjecture: every case supports it, and no proof is known",
    "FALSE-AS-PRINTED": "False as first stated",
    "NOT-TESTABLE": "Not tested",
}


def in_words(finding: Finding) -> list[tuple[str, str]]:
    """Titles and texts, in the order in which to read them; only what there is."""
    claim, holds = finding.claim, finding.verdict in ("HOLDS", "CONJECTURE")
    checked = lambda evidence: evidence and f"{'holds' if evidence.holds else 'fails'}, {evidence}"
    sections = [
        ("as printed" if claim.is_of_the_paper else "claim", claim.statement),
        ("read as", claim.hypotheses),
        ("checked", checked(finding.printed)),
        ("remark" if holds else "why", claim.why),
        ("proof", claim.proof),
        ("follows from", claim.follows_from),
    ]
    for certificate in finding.certificates:
        state = "refuted" if certificate.violates else "proved"
        sections.append((state if certificate.is_proved else "NOT PROVED", str(certificate)))
    if claim.amendment is not None:
        sections.append(("sharper" if holds else "true", claim.amendment.statement))
        sections.append(("checked", checked(finding.corrected)))
        sections.append(("proof", claim.amendment.proof))
    return [(title, text) for title, text in sections if text]


def root_causes(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """The false statements by the error behind them: its claim first, then those that follow from it."""
    causes: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.verdict == "FALSE-AS-PRINTED":
            causes.setdefault(claim.follows_from or claim.id, []).append(claim)
    return {
        root: sorted(group, key=lambda claim: claim.id != root) for root, group in causes.items()
    }


def errata(findings: Sequence[Finding]) -> str:
    """The errata in Markdown; only what is exact goes in, so that it is the same on every machine."""
    printed = [finding for finding in findings if finding.claim.is_of_the_paper]
    ours = [_entry(finding) for finding in findings if not finding.claim.is_of_the_paper]
    causes = root_causes(finding.claim for finding in printed)
    counts = Counter(finding.verdict for finding in printed)
    summary = (
        f"Of {len(printed)} statements {counts['HOLDS']} hold as printed, "
        f"{counts['HOLDS-UNDER-CONDITIONS']} under conditions that are not stated, "
        f"{counts['TYPO']} are misprinted, {counts['NOT-TESTABLE']} cannot be tested here, and "
        f"{counts['FALSE-AS-PRINTED']} are false as printed, with {len(causes)} errors behind them."
    )
    rows = [f"| {verdict} | {counts[verdict]} |" for verdict in _SECTIONS]
    proved = sum(finding.is_certified for finding in printed)
    table = "\n".join(["| verdict | statements |", "| --- | --- |", *rows])
    table += f"\n\n{proved} violations are certified in ball arithmetic."
    sections = []
    for verdict, title in _SECTIONS.items():
        entries = [_entry(finding) for finding in printed if finding.verdict == verdict]
        sections += [f"## {title}", *entries] if entries else []
    page = (resources.files("engram.audits") / "errata.md").read_text(encoding="utf-8")
    parts = {"summary": summary, "causes": _graph(causes, printed), "verdicts": table}
    parts |= {"claims": "\n\n".join(sections), "ours": "\n\n".join(ours) or "None so far."}
    for name, text in parts.items():
        page = page.replace(f"[{name}]", text)
    return page


def _graph(roots: Iterable[str], findings: Iterable[Finding]) -> str:
    """Which statement follows from which, as a tree of characters under each root cause."""
    claims = {finding.claim.id: finding.claim for finding in findings}

    def branches(parent: str) -> list[str]:
        children = [claim for claim in claims.values() if claim.follows_from == parent]
        lines = []
        for child in children:
            is_last = child is children[-1]
            condition = "" if child.verdict == "FALSE-AS-PRINTED" else " (true under conditions)"
            lines.append(f"{'└' if is_last else '├'}─ {child.id}: {child.title}{condition}")
            lines += [f"{' ' if is_last else '│'}  {line}" for line in branches(child.id)]
        return lines

    trees = ["\n".join([f"{root}: {claims[root].title}", *branches(root)]) for root in roots]
    return "```text\n" + "\n\n".join(trees) + "\n```"


def _entry(finding: Finding) -> str:
    claim = finding.claim
    (_, statement), *sections = in_words(finding)
    place = claim.place or where(claim.label) if claim.is_of_the_paper else _OURS[finding.verdict]
    lines = [f"### {claim.id}: {_plain(claim.title)}", f"*{_plain(place)}.* {_plain(statement)}"]
    for title, text in sections:
        if title != "checked":  # which depends on the machine
            lines.append(f"**{title.capitalize()}:** {_plain(text)}")
    return "\n\n".join(lines)


def _plain(text: str) -> str:
    """Text for Markdown: emphasis and HTML taken literally, indices and exponents set as such."""
    parts = text.split("`")
    return "`".join(part if index % 2 else _typeset(part) for index, part in enumerate(parts))


_INDEX = r"_(?:\{([^{}]*)\}|(\d+|[A-Za-z]{1,3}(?![A-Za-z])|\\\*))"
_EXPONENT = r"\^(?:\{([^{}]*)\}|\(([^()]*)\)|([−-]?\w+))"


def _typeset(text: str) -> str:
    text = text.replace("*", "\\*").replace("<", "&lt;")
    # Innermost braces first, so that e^{m_{t+1}} comes out right.
    for _ in range(2):
        text = re.sub(_INDEX, r"<sub>\1\2</sub>", text)
        text = re.sub(_EXPONENT, r"<sup>\1\2\3</sup>", text)
    return text


def where(label: str) -> str:
    """Where a label stands: its number, or its section."""
    if label not in LABELS:
        return label or "own statement"
    entry = LABELS[label]
    number = f"Eq. {entry.number}" if entry.number.startswith("(") else entry.number
    return number or f"Section {entry.section}"
