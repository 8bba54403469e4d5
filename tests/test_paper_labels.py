"""Every label that the code cites is in the paper, and every public function cites one."""

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

from engram._paper import LABELS

ROOT = Path(__file__).parents[1]
PAPER = ROOT.parent / "shared" / "paper.tex"
PRINTED = json.loads((ROOT / "tests" / "data" / "paper.json").read_text())
CITED = re.compile(r"\b((?:eq|thm|fig|app|proof|sub):[A-Za-z0-9_-]+)")


def test_every_cited_label_exists():
    found = 0
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.toml")]:
        if path.name == "_paper.py":
            continue
        for label in CITED.findall(path.read_text()):
            assert label in LABELS, f"{path.name} cites {label}"
            found += 1
    assert found > 40


def test_the_list_of_labels_is_the_papers():
    assert set(PRINTED["labels"]) == set(LABELS)


def test_equation_numbers_are_those_that_latex_gives():
    numbers = {label: f"({k})" for k, label in enumerate(PRINTED["equations"], 1) if label}
    assert len(numbers) > 25
    assert {label: LABELS[label].number for label in numbers} == numbers
    # The other labels of equations stand where nothing is numbered.
    unnumbered = {label for label in LABELS if label.startswith("eq:")} - set(numbers)
    assert {LABELS[label].number for label in unnumbered} == {""}


@pytest.mark.parametrize("name", ["memory", "particles"])
def test_public_functions_cite_the_paper(name):
    module = importlib.import_module(f"engram.{name}")
    public = [n for n in vars(module) if not n.startswith("_")]
    for attribute in public:
        value = getattr(module, attribute)
        if inspect.isfunction(value) or (inspect.isclass(value) and "System" in attribute):
            assert "Paper:" in (value.__doc__ or ""), f"{name}.{attribute} cites nothing"


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_what_is_shipped_of_the_paper_is_what_its_source_says():
    label = re.compile(r"\\label\{([^}]*)\}")
    assert label.findall(PAPER.read_text()) == PRINTED["labels"]
    source = re.sub(r"(?<!\\)%.*", "", PAPER.read_text())
    numbered = []
    for kind, body in re.findall(r"\\begin\{(equation|align)\}(.*?)\\end\{\1\}", source, re.S):
        for row in [body] if kind == "equation" else re.split(r"\\\\", body):
            if row.strip() and r"\nonumber" not in row and r"\notag" not in row:
                numbered.append(next(iter(label.findall(row)), None))
    assert numbered == PRINTED["equations"]
