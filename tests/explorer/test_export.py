"""The explorer in one file: what is inlined, what may not be, and its Python lines."""

import base64
import hashlib
import json
import re

import pytest
from node_engine import NODE, Engine

from engram import InputError
from engram.explorer import _controls, export
from engram.explorer import _requests as requests
from engram.explorer._export import bundle, page_text
from engram.explorer._presets import PRESETS
from engram.explorer._simulations import python_lines

SCRIPT = re.compile(r"<script>(.*?)</script>", re.S)


@pytest.fixture(scope="module")
def text():
    return page_text()


def digest(inlined):
    return f"'sha256-{base64.b64encode(hashlib.sha256(inlined.encode()).digest()).decode()}'"


def test_the_page_is_one_small_file_that_asks_nobody(text, tmp_path):
    path = export(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == text  # the same each time
    assert len(text.encode()) < 400_000
    assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {"http://www.w3.org/2000/svg"}
    page = SCRIPT.sub("", text)
    assert re.findall(r'(?:src|href)="(?!#|data:)', page) == []
    assert "/static/" not in page


def test_the_policy_allows_what_is_inlined_and_nothing_else(text):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    allowed = dict(part.split(" ", 1) for part in policy[1].split("; "))
    assert allowed["default-src"] == "'none'"
    assert allowed["worker-src"] == "blob:"
    scripts, styles = SCRIPT.findall(text), re.findall(r"<style>(.*?)</style>", text, re.S)
    assert [digest(each) for each in scripts] == [allowed["script-src"]]
    assert [digest(each) for each in styles] == [allowed["style-src"]]


def test_data_cannot_end_the_script_around_it():
    nasty = "</script><script>alert(1)</script><!--"
    page = page_text(problems={"a": nasty})
    given = re.findall(r'id="given">(.*?)</script>', page, re.S)
    assert len(given) == 1
    assert json.loads(given[0])["problems"] == {"a": nasty}
    assert json.loads(given[0])["presets"] == PRESETS


def files(**more):
    return {"main.js": "", "engine/worker.js": ""} | {f"{name}.js": more[name] for name in more}


def test_code_cannot_end_the_script_around_it():
    script = bundle(files(main="const a = '</script>', b = '<!--';\n"))
    assert "</script" not in script
    assert "<!--" not in script


def test_modules_that_cannot_be_inlined_are_refused():
    for text in (
        "export let a = 1;\n",
        "export default 1;\n",
        "export const { a } = b;\n",
        "import a from './b.js';\n",
        "const a = import.meta.url;\n",
        "const a = await import('./b.js');\n",
    ):
        with pytest.raises(ValueError, match="cannot be inlined"):
            bundle(files(main=text, b=""))
    with pytest.raises(ValueError, match="cycle"):
        bundle(files(main="import { a } from './b.js';\n", b="import { c } from './main.js';\n"))


def test_an_address_begins_with_a_hash():
    assert '"address":"#preset=fig4"' in page_text("#preset=fig4")
    with pytest.raises(InputError, match="must begin with '#', got 'fig4'"):
        page_text("fig4")


# Problems drawn by a seed, changes of rates, batches, flows, random starts, further traces.
STATES = [
    *(preset["state"] for preset in PRESETS),
    {
        "problem": {"kind": "sphere", "num_tokens": 3, "num_classes": 3, "dim": 4},
        "runs": [
            {"kind": "adamw", "learning_rate": 0.1, "b1": 0.8},
            {"kind": "gd", "learning_rate": 1e-5, "changes": [{"step": 4, "rate": 3}]},
            {"kind": "momentum", "learning_rate": 2, "batch_size": 4, "seed": 3},
        ],
        "steps": 2000,
        "start": {"scale": 1, "seed": 2},
        "record": ["grad_norm"],
    },
    {
        "problem": {"kind": "orthonormal", "num_tokens": 3, "num_classes": 3, "seed": 3},
        "runs": [
            {
                "kind": "descent", "optimizer": "muon", "learning_rate": 0.1,
                "sampling": "batches", "batch_size": 2,
            },
            {"kind": "flow", "learning_rate": 0.25},
        ],
        "steps": 20,
    },
]  # fmt: skip


@pytest.mark.skipif(NODE is None, reason="no node here, which runs the page's code")
def test_python_lines_are_those_of_the_server():
    engine = Engine()
    engine.call("../state", "setCatalogue", [_controls.catalogue()])
    usual = {"a": 0, "b": 0, "scale": 0, "seed": 0}
    as_page = [
        state
        | {"start": usual | state.get("start", {})}
        | {"record": [{"kind": name} for name in state.get("record", ())]}
        for state in STATES
    ]
    answers = engine.values("../python", "pythonLines", *([state] for state in as_page))
    engine.close()
    for state, lines in zip(STATES, answers, strict=True):
        assert lines == python_lines(requests.read_state(state).state, {})
