"""The words of a claim are in a text file beside its checks; neither may be without the other."""

from importlib import resources

import pytest

from engram._checks import InputError
from engram.audits import claims
from engram.audits.claims._checks import Checks, claims_in, join

FOLDER = resources.files("engram.audits.claims")


class Corrected(Checks):
    def corrected(self, seed):
        """What the amendment of the second claim is checked by."""


CHECKS = {"C01": Checks(), "C02": Corrected()}
WORDS = """
[C01]
title = "one"
label = "eq:obj"
verdict = "HOLDS"
statement = '''
A sentence
  on two lines.'''

[C02]
title = "two"
label = "eq:obj"
verdict = "TYPO"
statement = "Another."
why = "For a reason."

[C02.amendment]
statement = "What is true."
"""


def test_words_and_checks_are_joined_by_number():
    first, second = join(CHECKS, WORDS, "two.toml")
    assert (first.id, first.title, first.statement) == ("C01", "one", "A sentence on two lines.")
    assert (first.why, first.amendment) == ("", None)
    assert second.why == "For a reason."
    assert (second.amendment.statement, second.amendment.proof) == ("What is true.", "")
    assert second.amendment.check == CHECKS["C02"].corrected


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("[C01]", "[C07]", "`two.toml` must have C01, as its checks do. Add the words."),
        ("[C01]", "[C07]\n[C01]", "`two.toml` must not have C07, without checks."),
        ('title = "one"', "", r"\[C01\] in `two.toml` must have title"),
        ("why =", "wy =", r"\[C02\] in `two.toml` must not have wy"),
        ("[C02.amendment]", "[C01.amendment]", r"\[C01\] in `two.toml` must not have amendment"),
        ('[C02.amendment]\nstatement = "What is true."', "", r"\[C02\] .* must have amendment"),
        ('"What is true."', '""\nprove = ""', r"`amendment` of \[C02\] .* must not have prove"),
        ("TYPO", "WRONG", "`verdict` must be one of HOLDS, .*, got WRONG"),
        ("[C02]", "[C01]", "`two.toml` must be TOML, got: Cannot declare .*C01.* twice"),
    ],
)
def test_words_that_do_not_match_the_checks_are_refused(old, new, match):
    assert WORDS.count(old) == 1
    with pytest.raises(InputError, match=match):
        join(CHECKS, WORDS.replace(old, new), "two.toml")


def test_every_claim_appears_once_and_sections_follow_the_paper():
    folders = {file.name for file in FOLDER.iterdir() if file.is_dir() and file.name[0] != "_"}
    assert folders == set(claims.SECTIONS)
    for section in claims.SECTIONS:
        numbers = [claim.id for claim in claims_in(section)]
        assert numbers == sorted(numbers)
    assert len(claims.CLAIMS) == sum(len(claims_in(section)) for section in claims.SECTIONS)


def test_a_claim_without_text_is_refused(monkeypatch, tmp_path):
    (tmp_path / "c01_alone.py").touch()
    (tmp_path / "_shared.py").touch()
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    with pytest.raises(InputError, match="`plane` must have c01_alone.toml with its words. Add it"):
        claims_in("plane")
    (tmp_path / "c01_alone.py").rename(tmp_path / "c01_alone.toml")
    with pytest.raises(InputError, match="`plane` must have c01_alone.py with its checks. Add it"):
        claims_in("plane")
