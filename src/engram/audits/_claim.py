"""Claim and Finding: a statement with the code that checks it, and what the check found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence

Verdict = Literal[
    "HOLDS", "HOLDS-UNDER-CONDITIONS", "FALSE-AS-PRINTED", "TYPO", "NOT-TESTABLE", "CONJECTURE"
]  # fmt: skip
Check = Callable[[int], Evidence]  # from a seed to what was found


@dataclass(frozen=True)
class Curves:
    """What to draw of a claim: series over one axis, named "true", "printed" and "corrected"."""

    title: str
    x: tuple[str, np.ndarray]
    series: Mapping[str, np.ndarray]
    y: str = ""
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Amendment:
    """What is true instead, or more sharply, with its own check and a proof in outline."""

    statement: str
    check: Check
    proof: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement that can be checked by running it.

    Args:
        id: A short name, such as "C15".
        label: Where it stands in the paper: a LaTeX label. Empty for a theorem of ours, or a claim of yours.
        title: The statement in a few words.
        statement: The statement, in our words.
        verdict: The verdict on record; an audit that finds another one says so.
        printed: Checks the statement as printed. None if it cannot be tested.
        hypotheses: How the statement is read: what it is taken to assume.
        why: Why it fails, with numbers; of a statement that holds, a remark, such as a counterexample to
            more than it says.
        proof: A proof in outline of the statement itself.
        amendment: What is true instead.
        certificates: Comparisons in ball arithmetic, computed again each time.
        curves: What to draw.
        follows_from: The claim whose failure is the reason for this one's, its root cause.
    """

    id: str
    label: str
    title: str
    statement: str
    verdict: Verdict
    printed: Check | None
    hypotheses: str = ""
    why: str = ""
    proof: str = ""
    amendment: Amendment | None = None
    certificates: Callable[[], Sequence[Certificate]] | None = None
    place: str = ""  # where it stands, if the label is only the nearest one
    follows_from: str = ""
    curves: Callable[[], Curves] | None = None

    @property
    def is_of_the_paper(self) -> bool:
        """Whether the paper states it; else it is a theorem of ours, or a claim of yours."""
        return bool(self.label)


@dataclass(frozen=True, repr=False)
class Finding:
    """What an audit found of one claim."""

    claim: Claim
    printed: Evidence | None
    corrected: Evidence | None
    certificates: tuple[Certificate, ...]
    seconds: float

    def __repr__(self) -> str:
        evidence = "" if self.printed is None else f", {self.printed}"
        return f"<Finding {self.claim.id}: {self.verdict}{evidence}>"

    @property
    def verdict(self) -> Verdict:
        """The verdict that the checks give now.

        Whether a statement that fails is wrong, lacks a condition or is misprinted is for people
        to say, and on record; whether it fails is found here. So is whether what holds in every case has
        a proof: without one it is a conjecture.
        """
        if self.printed is None:
            return "NOT-TESTABLE"
        if self.printed.holds:
            return "CONJECTURE" if self.claim.verdict == "CONJECTURE" else "HOLDS"
        fails = self.claim.verdict not in ("HOLDS", "NOT-TESTABLE", "CONJECTURE")
        return self.claim.verdict if fails else "FALSE-AS-PRINTED"

    @property
    def is_certified(self) -> bool:
        """Whether ball arithmetic proves that the printed statement is violated."""
        against = [certificate for certificate in self.certificates if certificate.violates]
        return bool(against) and all(certificate.is_proved for certificate in against)

    @property
    def changes(self) -> list[str]:
        """What differs from the record; empty when all is as it was."""
        changes = []
        if self.verdict != self.claim.verdict:
            changes.append(f"the verdict is {self.verdict}, on record {self.claim.verdict}")
        if self.corrected is not None and not self.corrected.holds:
            changes.append(f"the corrected statement fails, {self.corrected}")
        changes += [f"not proved: {c.statement}" for c in self.certificates if not c.is_proved]
        return changes

    def as_dict(self) -> dict[str, Any]:
        """The finding in plain numbers and strings, as `engram audit --json` prints it."""
        # What is true of a statement that needs no correction is the statement itself.
        amendment = self.claim.amendment
        stands = amendment is None and self.printed is not None and self.printed.holds
        true = self.claim.statement if stands else amendment and amendment.statement
        best = self.printed if stands else self.corrected
        return {
            "id": self.claim.id,
            "label": self.claim.label,
            "statement": self.claim.statement,
            "verdict": self.verdict,
            "follows_from": self.claim.follows_from or None,
            "printed": _outcome(self.printed) | {"at": self.printed and self.printed.at},
            "corrected": {"statement": true} | _outcome(best),
            "certified": self.is_certified,
        }


def _outcome(evidence: Evidence | None) -> dict[str, Any]:
    """JSON has no infinity: a slack that could not be computed is null."""
    if evidence is None:
        return {"holds": None, "worst_slack": None}
    worst = evidence.worst
    return {"holds": evidence.holds, "worst_slack": worst if np.isfinite(worst) else None}
