"""A finding in words: what is printed, what was checked, why it fails, what is true."""

from engram.audits._claim import Finding
from engram.audits._evidence import Evidence


def in_words(finding: Finding) -> list[tuple[str, str]]:
    """Titles and texts, in the order in which to read them; only what there is."""
    claim, holds = finding.claim, finding.verdict == "HOLDS"
    said = [("as printed" if claim.label else "claim", claim.statement)]
    said.append(("read as", claim.hypotheses))
    said.append(("checked", _told(finding.printed)))
    said.append(("remark" if holds else "why", claim.why))
    for found in finding.certificates:
        state = "proved" if found.is_proved else "NOT PROVED"
        said.append(("refuted" if found.violates and found.is_proved else state, str(found)))
    if claim.amendment is not None:
        said.append(("sharper" if holds else "true", claim.amendment.statement))
        said.append(("checked", _told(finding.corrected)))
        said.append(("proof", claim.amendment.proof))
    return [(title, text) for title, text in said if text]


def _told(evidence: Evidence | None) -> str:
    if evidence is None:
        return ""
    at = ", ".join(f"{name.replace('_', ' ')} = {value:.5g}" for name, value in evidence.at.items())
    state = "holds" if evidence.holds else "fails"
    place = f", at {at}" if at else ""
    note = f" ({evidence.note})" if evidence.note else ""
    return f"{state}; {evidence.num_cases:,} cases tried, least slack {evidence.worst:.3g}{place}{note}"
