"""The whole audit: every verdict is the one on record, every correction holds, every proof proves."""

import json
from pathlib import Path

import pytest

from engram._paper import LABELS
from engram.audits import audit, root_causes
from engram.audits.claims import CLAIMS

FIRST = json.loads((Path(__file__).parents[1] / "data" / "verdicts.json").read_text())["verdicts"]
PAGE = Path(__file__).parents[2] / "docs" / "errata.md"
SHARED = Path(__file__).parents[3] / "shared" / "reference" / "claims.json"
COMPUTE = ("C15", "C27", "C32", "C39b", "C40", "C52", "J1", "J1b")  # for longer than they compile
FALSE = {
    "C15": "C16", "C16": "", "C17": "C16", "C23": "", "C31": "", "C33": "C31", "C35": "", "C37": "C35",
    "C39": "", "C52": "",
}  # fmt: skip


def _marks(name):
    if name == "C37":
        return [pytest.mark.settings]
    return [pytest.mark.optimised] if name in COMPUTE else []


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in CLAIMS])
def test_verdict_is_the_one_on_record(name):
    (finding,) = audit(name)
    assert finding.changes == []
    if finding.verdict == "FALSE-AS-PRINTED":
        assert finding.is_certified
    entry = json.loads(json.dumps(finding.as_dict()))
    fields = {"id", "label", "statement", "verdict", "follows_from", "printed", "corrected"}
    assert set(entry) == fields | {"certified"}
    assert entry["verdict"] == CLAIMS[name].verdict


def test_every_claim_appears_once_cites_the_paper_and_says_how_it_is_read():
    printed = {claim.id: claim for claim in CLAIMS.values() if claim.is_of_the_paper}
    assert set(printed) == {f"C{number:02}" for number in range(1, 67)} | {"C39b"}
    assert all(claim.label in LABELS for claim in printed.values())
    assert all(claim.hypotheses for claim in CLAIMS.values())


def test_theorems_of_ours_hold_or_are_conjectures_and_what_holds_has_a_proof():
    ours = [claim for claim in CLAIMS.values() if not claim.is_of_the_paper]
    assert {claim.id[0] for claim in ours} <= {"J"}
    for claim in ours:
        assert claim.verdict in ("HOLDS", "HOLDS-UNDER-CONDITIONS", "CONJECTURE"), claim.id
        assert claim.verdict == "CONJECTURE" or claim.proof or claim.amendment.proof, claim.id


def test_what_is_false_names_its_root_cause():
    causes = {c.id: c.follows_from for c in CLAIMS.values() if c.verdict == "FALSE-AS-PRINTED"}
    assert causes == FALSE
    others = {c.id: c.follows_from for c in CLAIMS.values() if c.follows_from and c.id not in FALSE}
    assert others == {"C57": "C37", "C64": "C16"}
    groups = [[claim.id for claim in group] for group in root_causes(CLAIMS.values()).values()]
    families = (["C16", "C15", "C17"], ["C23"], ["C31", "C33"], ["C35", "C37"], ["C39"], ["C52"])
    assert groups == list(families)


def test_what_fails_has_a_reason_and_an_amendment():
    for claim in CLAIMS.values():
        if claim.verdict not in ("HOLDS", "NOT-TESTABLE", "CONJECTURE"):
            assert claim.why, claim.id
            assert claim.amendment is not None, claim.id
            assert claim.amendment.proof, claim.id


def history():
    """The verdicts that changed, as the errata tell it: claim, was, is."""
    rows = PAGE.read_text(encoding="utf-8").partition("## Verdicts that changed")[2].splitlines()
    cells = [
        [cell.strip() for cell in row.split("|")[1:4]] for row in rows if row.startswith("| C")
    ]
    return {claim: (was, now) for claim, was, now in cells}


def test_verdicts_are_those_of_an_independent_ledger_but_for_the_changes_on_record():
    changes = history()
    assert len(changes) == 9
    assert {claim: now for claim, (_, now) in changes.items()} == {
        claim: CLAIMS[claim].verdict for claim in changes
    }
    for claim, verdict in FIRST.items():
        was, _ = changes.get(claim, (CLAIMS[claim].verdict, ""))
        assert was == verdict, claim


@pytest.mark.skipif(not SHARED.exists(), reason="the reference verdicts are not on this machine")
def test_the_ledger_is_as_it_was_written():
    rows = json.loads(SHARED.read_text())["verdicts"]
    assert {row["id"]: row["verdict"] for row in rows} == FIRST
