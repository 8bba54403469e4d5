"""The report: one file that asks for nothing, says what is wrong, and is HTML."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from engram import audits, figures
from engram.report import Run, checked, render, write_report

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Checker(HTMLParser):
    """Every tag is closed, ids are unique, and links lead somewhere inside."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if "href" in attrs else []
        if tag == "img":
            assert attrs["src"].startswith("data:image/png;base64,")
            assert attrs["alt"]
        assert tag not in ("link", "iframe", "object")
        assert not (tag == "script" and "src" in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    fig1 = figures.module_of("fig1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fig1, "SCALES", {"quick": fig1.Settings(num=50)})
        made = figures.write_figure("fig1", tmp_path_factory.mktemp("out"))
    claims = [checked(finding) for finding in audits.audit(["C04", "C13"])]  # the latter is drawn
    return Run([made], claims, "engram reproduce", "quick", 12.0)


def test_the_page_is_whole_and_asks_for_nothing(run):
    page = render(run)
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert all(link.startswith("#") and link[1:] in checker.ids for link in checker.links)
    assert not re.search(r"https?://|@import|url\(", page)
    assert "default-src 'none'" in page
    assert "8 of 8 within tolerance" in page
    assert "no verdicts changed" in page
    assert 'alt="C13: curves of the claim"' in page
    for row in run.made[0].comparisons:
        assert f"{row.ours:.10g}" in page


def test_what_is_no_number_and_has_no_reference_is_said(run):
    made = run.made[0]
    row = dataclasses.replace(made.comparisons[0], ours=float("nan"), reference=None)
    broken = dataclasses.replace(run, made=[dataclasses.replace(made, comparisons=[row])])
    assert broken.faults == [f"fig1: {row.quantity}: ours is not a number (nan)"]
    assert "0 of 0" in render(broken)


def test_what_is_out_of_tolerance_is_said(run):
    made = run.made[0]
    wrong = dataclasses.replace(made.comparisons[0], ours=made.comparisons[0].ours + 1)
    made = dataclasses.replace(made, comparisons=[wrong, *made.comparisons[1:]])
    spoilt = dataclasses.replace(run, made=[made], missing=["fig4"])
    assert len(spoilt.faults) == 1
    page = render(spoilt)
    assert "These checks failed" in page
    assert "7 of 8 within tolerance" in page
    assert "Interrupted: Figure 4 not made" in page


def test_what_is_still_being_computed_is_named(run):
    half = dataclasses.replace(run, claims=None, pending=["fig6", "fig7", "claims"])
    page = render(half)
    assert "Still being computed" in page
    assert "Figure 6, Figure 7 and the claims" in page
    assert 'href="#claims"' not in page
    assert "Still being computed" not in render(run)


def test_words_are_escaped(run):
    made = dataclasses.replace(run.made[0], caption="<script>alert(1)</script>")
    assert "<script>alert" not in render(dataclasses.replace(run, made=[made]))


def test_it_is_written_whole_or_not_at_all(run, tmp_path):
    write_report(run, tmp_path / "report.html")
    before = (tmp_path / "report.html").read_bytes()
    lost = dataclasses.replace(run.made[0], files=[tmp_path / "absent.png"])
    with pytest.raises(FileNotFoundError):
        write_report(dataclasses.replace(run, made=[lost]), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
