"""The whole audit: every verdict is the one on record, every correction holds, every proof proves."""

import json
from collections import Counter
from pathlib import Path

import pytest

from engram._paper import LABELS
from engram.audits import audit
from engram.audits.claims import CLAIMS

LEDGER = json.loads((Path(__file__).parents[1] / "data" / "verdicts.json").read_text())["verdicts"]
SHARED = Path(__file__).parents[3] / "shared" / "reference" / "claims.json"
COMPUTE = ("C15", "C27", "C32", "C40", "C52")  # for longer than they compile
PAPER = [claim for claim in CLAIMS.values() if claim.id <= "C51"]


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
    told = json.loads(json.dumps(finding.as_dict()))
    assert set(told) == {"id", "label", "statement", "verdict", "printed", "corrected", "certified"}
    assert told["verdict"] == CLAIMS[name].verdict


def test_every_claim_is_there_once_and_cites_the_paper():
    assert list(CLAIMS) == [f"C{number:02}" for number in range(1, 57)]
    assert all(claim.label in LABELS for claim in CLAIMS.values())
    counts = Counter(claim.verdict for claim in PAPER)
    assert counts == {
        "HOLDS": 17, "HOLDS-UNDER-CONDITIONS": 13, "FALSE-AS-PRINTED": 15, "TYPO": 5, "NOT-TESTABLE": 1,
    }  # fmt: skip


def test_what_fails_has_a_reason_and_an_amendment():
    for claim in CLAIMS.values():
        if claim.verdict not in ("HOLDS", "NOT-TESTABLE"):
            assert claim.why, claim.id
            assert claim.amendment is not None, claim.id
            assert claim.amendment.proof, claim.id


def test_verdicts_agree_with_the_independent_ledger():
    assert {claim.id: claim.verdict for claim in PAPER} == LEDGER


@pytest.mark.skipif(not SHARED.exists(), reason="the reference verdicts are not on this machine")
def test_the_ledger_is_as_it_was_written():
    rows = json.loads(SHARED.read_text())["verdicts"]
    assert {row["id"]: row["verdict"] for row in rows} == LEDGER
