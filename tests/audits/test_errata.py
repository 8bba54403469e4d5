"""The errata page is what the claims and their certificates say."""

from pathlib import Path

import numpy as np

from engram.audits import Evidence, Finding, as_text, curves_of, errata
from engram.audits.claims import CLAIMS

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"


def recorded(claim):
    """A finding with the verdict on record, its certificates computed; no check is run."""
    holds = (
        None
        if claim.printed is None
        else Evidence(np.array([1.0 if claim.verdict in ("HOLDS", "CONJECTURE") else -1.0]), {})
    )
    certificates = tuple(claim.certificates()) if claim.certificates else ()
    return Finding(claim, holds, None, certificates, 0.0)


def test_page_is_up_to_date():
    page = errata([recorded(claim) for claim in CLAIMS.values()])
    assert PAGE.read_text(encoding="utf-8") == page, "run `engram audit --errata docs/errata.md`"


def test_page_gives_the_numbers():
    page = PAGE.read_text(encoding="utf-8")
    for number in (
        "2.185471504",
        "1.0237150810",
        "1.0794346856",
        "2.5128624172",
        "−0.204667982367761",
    ):
        assert number in page


def test_text_plot_shows_every_series_and_its_range():
    finding = recorded(CLAIMS["C42"])
    text = as_text(curves_of(finding), width=40, height=8)
    assert all(mark in text for mark in "●×○")
    assert "learning rate (log)" in text
    assert max(map(len, text.splitlines())) < 80
