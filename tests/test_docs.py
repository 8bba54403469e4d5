"""The code in the documentation runs, and the pages written from the code say what they should."""

import contextlib
import importlib.util
import io
import re
import runpy
from pathlib import Path

import pytest

from engram._paper import LABELS

DOCS = Path(__file__).parents[1] / "docs"
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{index}")
    for page in sorted(DOCS.glob("*.md"))
    for index, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """Examples may write files."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "_generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("code", BLOCKS)
def test_code_runs(code):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "docs", "exec"), {"__name__": "docs"})
    assert out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(DOCS.glob("gallery/*.py")), ids=lambda path: path.stem)
def test_gallery_runs(path, monkeypatch):
    import matplotlib.pyplot as plt

    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(path))
    plt.close("all")
    assert out.getvalue()
    assert len(shown) == 1


def test_the_paper_map_has_every_label_and_leads_to_tests(generate):
    rows = generate.paper_map()
    assert set(rows) == set(LABELS)
    assert [row["figure"] for row in rows.values() if row["figure"]] == [
        f"fig{k}" for k in range(1, 8)
    ]
    for label, row in rows.items():
        if label.startswith(("thm:", "fig:")):
            assert row["tests"], label
        if label.startswith("thm:"):
            assert row["functions"], label
            assert row["claims"], label
    assert "engram.memory.grad" in rows["eq:grad"]["functions"]


def test_public_functions_have_a_page_and_words(generate):
    for module in generate.MODULES:
        found = generate.public(module)
        assert found, module
        for name, value in found.items():
            assert (value.__doc__ or "").strip(), f"{module}.{name} says nothing"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("generated/"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
