"""The report: one file that asks for nothing, says what is wrong, and is HTML."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from engram import audits, figures
from engram.report import Run, checked, render, summary, write_report
from engram.report._typeset import typeset

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
        figure = figures.write_figure("fig1", tmp_path_factory.mktemp("out"))
    claims = [checked(finding) for finding in audits.audit(["C04", "C13"])]  # the latter is drawn
    return Run([figure], claims, "engram reproduce", "quick", 12.0)


def test_the_page_is_self_contained(run):
    page = render(run)
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    inside = [link for link in checker.links if link.startswith("#")]
    assert all(link[1:] in checker.ids for link in inside)
    assert {*checker.links} - {*inside} == {"https://arxiv.org/abs/2402.18724"}  # the paper
    assert not re.search(r"https?://(?!arxiv)|@import|url\(", page)
    assert "default-src 'none'" in page
    assert "8 of 8 within tolerance" in page
    assert "no verdicts changed" in page
    assert 'alt="C13: curves of the claim"' in page
    for row in run.figures[0].comparisons:
        assert f"{row.ours:.10g}" in page


def test_nan_without_a_reference_is_reported(run):
    figure = run.figures[0]
    row = dataclasses.replace(figure.comparisons[0], ours=float("nan"), reference=None)
    broken = dataclasses.replace(run, figures=[dataclasses.replace(figure, comparisons=[row])])
    assert broken.faults == [f"fig1: {row.quantity}: ours is not a number (nan)"]
    assert "0 of 0" in render(broken)


def test_values_out_of_tolerance_are_reported(run):
    figure = run.figures[0]
    wrong = dataclasses.replace(figure.comparisons[0], ours=figure.comparisons[0].ours + 1)
    figure = dataclasses.replace(figure, comparisons=[wrong, *figure.comparisons[1:]])
    spoilt = dataclasses.replace(run, figures=[figure], missing=["fig4"])
    assert len(spoilt.faults) == 1
    page = render(spoilt)
    assert "These checks failed" in page
    assert "7 of 8 within tolerance" in page
    assert "Interrupted: Figure 4 not made" in page


def test_pending_parts_are_named(run):
    half = dataclasses.replace(run, claims=None, pending=["fig6", "fig7", "claims"])
    page = render(half)
    assert "Still being computed" in page
    assert "Figure 6, Figure 7 and the claims" in page
    assert 'href="#claims"' not in page
    assert "Still being computed" not in render(run)


def test_words_are_escaped(run):
    figure = dataclasses.replace(run.figures[0], caption="<script>alert(1)</script>")
    assert "<script>alert" not in render(dataclasses.replace(run, figures=[figure]))


def test_it_is_written_whole_or_not_at_all(run, tmp_path):
    write_report(run, tmp_path / "report.html")
    before = (tmp_path / "report.html").read_bytes()
    lost = dataclasses.replace(run.figures[0], files=[tmp_path / "absent.png"])
    with pytest.raises(FileNotFoundError):
        write_report(dataclasses.replace(run, figures=[lost]), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_five_sentences_sum_up_the_run(run):
    sentences = summary(run)
    assert len(sentences) == 5
    assert sentences[0].startswith("Figure 1 of the paper was computed again")
    assert sentences[1] == "Of 8 comparisons with reference values, 8 are within their tolerances."
    assert "Of the 2 claims" in sentences[2]
    assert sentences[3].startswith("What to see first is in Figure 1: α = -0.5: both tokens")
    assert sentences[4].startswith("Nothing failed")
    empty = summary(Run([], None, "engram reproduce", "quick", 0.0))
    assert len(empty) == 5
    assert "`engram audit` checks them" in empty[2]
    row = dataclasses.replace(run.figures[0].comparisons[0], ours=99.0)
    bad = dataclasses.replace(run.figures[0], comparisons=[row])
    assert "1 check failed" in summary(dataclasses.replace(run, figures=[bad]))[4]
    unfinished = summary(dataclasses.replace(run, pending=["fig7", "claims"]))
    assert unfinished[4] == "So far nothing failed; what is missing: Figure 7 and the claims."
    assert 'id="summary"' in render(run)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("W_O^2 and 4p_1p_2", "W<sub>O</sub><sup>2</sup> and 4p<sub>1</sub>p<sub>2</sub>"),
        ("e^{m_{t+1}} < 10^-3", "e<sup>m<sub>t+1</sub></sup> &lt; 10<sup>-3</sup>"),
        ("H_*, max_j, e^(−m_t)", "H<sub>*</sub>, max<sub>j</sub>, e<sup>−m<sub>t</sub></sup>"),
        ("fig:margins_N5, num_tokens", "fig:margins_N5, num_tokens"),
        ("`a_1 <b>` & Σ_{k<d}", "<code>a_1 &lt;b&gt;</code> &amp; Σ<sub>k&lt;d</sub>"),
    ],
)
def test_formulas_are_typeset(text, html):
    assert str(typeset(text)) == html


def test_no_raw_formula_is_left_in_the_page(run):
    body = re.sub(r"<(style|script|code)>.*?</\1>|data:image[^\"]*", "", render(run), flags=re.S)
    assert not re.search(r"[_^]\{|\w\^|\\[a-z]+|\beq:", body)
