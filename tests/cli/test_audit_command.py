"""`engram audit`, as a user types it."""

import dataclasses
import json

import pytest

from engram._checks import InputError
from engram.audits.claims import CLAIMS
from engram.cli import _audit


def test_one_claim_is_shown_in_full_and_drawn(tmp_path, here, monkeypatch):
    picture = tmp_path / "c42.png"
    monkeypatch.setenv("COLUMNS", "100")
    done = here("audit", "c42", "--plot", picture)
    assert done.returncode == 0, done.stderr
    for part in (
        "C42",
        "HOLDS-UNDER-CONDITIONS",
        "as printed",
        "refuted",
        "proof",
        "● true",
        "× printed",
    ):
        assert part in done.stdout
    assert 5_000 < picture.stat().st_size < 300_000
    assert max(map(len, done.stdout.splitlines())) <= 101


def test_json_has_the_promised_fields(here):
    done = here("audit", "C02", "C12", "C50", "--json")
    assert done.returncode == 0, done.stderr
    false, holds, untested = json.loads(done.stdout)
    assert list(false) == [
        "id",
        "label",
        "statement",
        "verdict",
        "follows_from",
        "printed",
        "corrected",
        "certified",
    ]
    assert list(false["printed"]) == ["holds", "worst_slack", "at"]
    assert list(false["corrected"]) == ["statement", "holds", "worst_slack"]
    assert (false["id"], false["label"], false["certified"]) == ("C02", "eq:SGD", True)
    assert false["printed"]["holds"] is False
    assert false["printed"]["worst_slack"] < -0.5
    assert false["corrected"]["holds"] is True
    assert holds["certified"] is False
    assert holds["printed"]["holds"] is True
    assert untested["verdict"] == "NOT-TESTABLE"
    assert untested["printed"] == {"holds": None, "worst_slack": None, "at": None}


@pytest.mark.parametrize(
    ("args", "output"),
    [
        (["C99"], "CLAIM must be a number such as C15 or a Python file, got C99."),
        (["C01", "C02", "--plot", "x.png"], "--plot draws one claim, got 2."),
        (["C15", "--plot", "x.doc"], "`--plot` must end in .png or .pdf or .svg, got x.doc."),
        (["C15", "--errata", "x.md"], "--errata is written from all claims."),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(args, output, tmp_path, here, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = here("audit", *args)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {output}")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_verdict_that_changes_is_exit_1_and_writes_no_errata(monkeypatch, capsys, tmp_path):
    wrong = dataclasses.replace(CLAIMS["C30"], verdict="HOLDS")
    monkeypatch.setattr("engram.audits.claims.CLAIMS", {"C07": CLAIMS["C07"], "C30": wrong})
    page = tmp_path / "errata.md"
    with pytest.raises(SystemExit, match="1"):
        _audit.audit([], as_json=False, plot=None, page=page, seed=0)
    output = capsys.readouterr()
    assert "changed: C30: the verdict is FALSE-AS-PRINTED, on record HOLDS" in output.err
    assert "CHANGED" in output.out
    assert not page.exists()


def test_interrupting_an_audit_shows_findings_and_the_command_for_the_rest(monkeypatch, capsys):
    def interrupt(seed):
        raise KeyboardInterrupt

    stuck = dataclasses.replace(CLAIMS["C10"], printed=interrupt)
    monkeypatch.setattr(
        "engram.audits.claims.CLAIMS", {"C07": CLAIMS["C07"], "C10": stuck, "C12": stuck}
    )
    with pytest.raises(SystemExit, match="130"):
        _audit.audit([], as_json=False, plot=None, page=None, seed=0)
    output = capsys.readouterr()
    assert "C07" in output.out
    assert output.err == "interrupted; for the rest run: engram audit C10 C10\n"


OWN = """
from flint import arb, fmpq
from engram.audits import Certificate, bound

wrong = bound(
    "x is at least 1/10", lambda x: x - 0.1, {"x": (0.0, 1.0)}, draws=4, searches=0, id="wrong",
    certificates=lambda: [Certificate("at x = 0", fmpq(0), ">=", fmpq(1, 10))],
)
right = bound("x is at least 0", lambda x: x, {"x": (0.0, 1.0)}, draws=4, searches=0, id="right")
"""


def test_a_file_of_claims_is_audited_in_its_order(tmp_path, capsys):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    with pytest.raises(SystemExit, match="1"):
        _audit.audit([str(file)], as_json=True, plot=None, page=None, seed=0)
    wrong, right = json.loads(capsys.readouterr().out)
    assert (wrong["id"], wrong["verdict"], wrong["certified"]) == (
        "wrong",
        "FALSE-AS-PRINTED",
        True,
    )
    assert wrong["printed"]["at"] == {"x": 0.0}
    assert (right["id"], right["verdict"], right["certified"]) == ("right", "HOLDS", False)


def test_the_table_counts_claims_of_ones_own_apart(tmp_path, capsys):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    with pytest.raises(SystemExit, match="1"):
        _audit.audit([str(file), "C07"], as_json=False, plot=None, page=None, seed=0)
    words = " ".join(capsys.readouterr().out.split())
    assert "1 statement of the paper: HOLDS-UNDER-CONDITIONS 1." in words
    assert "2 statements of your own: HOLDS 1, FALSE-AS-PRINTED 1." in words
    assert "beyond the paper" not in words


def test_a_claim_is_taken_from_a_module_by_name(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_bounds.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    _audit.audit([], own=["own_bounds:right"], as_json=True, plot=None, page=None, seed=0)
    (right,) = json.loads(capsys.readouterr().out)
    assert (right["id"], right["verdict"]) == ("right", "HOLDS")
    for place, match in (
        ("own_bounds", "must be MODULE:NAME, as in my_bounds:claim, got own_bounds"),
        ("own_bounds:none", r"cannot be loaded \(AttributeError: .*none"),
        ("not_there:claim", r"cannot be loaded \(ModuleNotFoundError: .*not_there"),
        ("own_bounds:bound", "must be a claim, as in .*, got a function"),
    ):
        with pytest.raises(InputError, match=match):
            _audit.audit([], own=[place], as_json=True, plot=None, page=None, seed=0)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (None, "is not a file"),
        ("x = 1", "must define a claim"),
        ("1 / 0", r"cannot be run \(ZeroDivisionError: division by zero\)"),
    ],
)
def test_a_file_without_claims_is_one_line(tmp_path, text, match):
    file = tmp_path / "own.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=match):
        _audit.audit([str(file)], as_json=True, plot=None, page=None, seed=0)
