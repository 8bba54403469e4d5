"""The code in the documentation prints what is shown; pages written from the code say what they should."""

import contextlib
import importlib.util
import io
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

from engram._paper import LABELS
from engram.registry import KINDS, entries

DOCS = Path(__file__).parents[1] / "docs"
# A block of Python, and the block right after it, if any: what it prints.
CODE = re.compile(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", re.S)
BLOCKS = [
    pytest.param(*block, id=f"{page.name}-{index}")
    for page in sorted(DOCS.glob("*.md"))
    for index, block in enumerate(CODE.findall(page.read_text()))
]


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """Examples may write files, and register names of their own."""
    monkeypatch.chdir(tmp_path)
    known, modules = {kind: dict(entries(kind)) for kind in KINDS}, set(sys.modules)
    yield
    for kind, before in known.items():
        entries(kind).clear()
        entries(kind).update(before)
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "_generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(("code", "shown"), BLOCKS)
def test_code_prints_what_is_shown(code, shown):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "docs", "exec"), {"__name__": "docs"})
    # Without output on the page: times, long digits, and chaos, which end differently elsewhere.
    assert out.getvalue() == shown if shown else out.getvalue()


@pytest.mark.parametrize("page", ["tour.md", "simulate.md", "extend.md", "figures.md"])
def test_pages_show_what_their_code_prints(page):
    blocks = CODE.findall((DOCS / page).read_text())
    assert sum(bool(shown) for _, shown in blocks) >= len(blocks) - 1


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


def test_public_functions_have_a_page_and_a_docstring(generate):
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


def test_the_architecture_names_files_that_exist():
    page = (DOCS / "architecture.md").read_text()
    where = page[page.index("## Where things are") : page.index("## Layers")]
    sources = DOCS.parent / "src" / "engram"
    names = re.findall(r"`([\w/]+(?:\.py|/))`", where)
    assert len(names) > 20
    others = ("src/engram/", "out/train/", "cli/_NAME.py")
    for name in names:
        assert name in others or list(sources.glob(f"**/{name.rstrip('/')}")), name


def test_the_architecture_shows_the_layers_that_are_checked():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())
    (contract,) = project["tool"]["importlinter"]["contracts"]
    block = (DOCS / "architecture.md").read_text().split("```")[1]
    shown = [re.split(r" {3,}", line)[0] for line in block.strip().splitlines()]
    assert shown == contract["layers"]
