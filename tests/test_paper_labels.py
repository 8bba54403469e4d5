"""Every label that the code cites is in the paper, and every public function cites one."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from engram._paper import LABELS

ROOT = Path(__file__).parents[1]
PAPER = ROOT.parent / "shared" / "paper.tex"
CITED = re.compile(r"\b((?:eq|thm|fig|app|proof|sub):[A-Za-z0-9_-]+)")


def test_every_cited_label_exists():
    found = 0
    for path in (ROOT / "src").rglob("*.py"):
        if path.name == "_paper.py":
            continue
        for label in CITED.findall(path.read_text()):
            assert label in LABELS, f"{path.name} cites {label}"
            found += 1
    assert found > 40


def test_the_list_of_labels_is_the_papers():
    if not PAPER.exists():
        pytest.skip("the paper's source is not here")
    printed = set(re.findall(r"\\label\{([^}]*)\}", PAPER.read_text()))
    assert printed == set(LABELS)


@pytest.mark.parametrize("name", ["memory", "particles"])
def test_public_functions_cite_the_paper(name):
    module = importlib.import_module(f"engram.{name}")
    public = [n for n in vars(module) if not n.startswith("_")]
    for attribute in public:
        value = getattr(module, attribute)
        if inspect.isfunction(value) or (inspect.isclass(value) and "System" in attribute):
            assert "Paper:" in (value.__doc__ or ""), f"{name}.{attribute} cites nothing"


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_equation_numbers_are_those_that_latex_gives():
    source = re.sub(r"(?<!\\)%.*", "", PAPER.read_text())
    number, found = 0, {}
    for kind, body in re.findall(r"\\begin\{(equation|align)\}(.*?)\\end\{\1\}", source, re.S):
        for row in [body] if kind == "equation" else re.split(r"\\\\", body):
            if row.strip() and r"\nonumber" not in row and r"\notag" not in row:
                number += 1
                found |= dict.fromkeys(re.findall(r"\\label\{([^}]*)\}", row), f"({number})")
    assert {label: LABELS[label].number for label in found} == found
