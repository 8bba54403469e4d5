"""What type checkers and editors see of the root is what is there."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import engram


def test_checkers_see_every_root_name():
    tree = ast.parse(Path(engram.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: f"engram.{home}" for name, home in engram._HOMES.items()}
    assert seen == homes | dict.fromkeys(engram._MODULES, "engram")
    assert set(engram.__all__) == {"__version__", *seen}
    for name in engram.__all__:
        assert getattr(engram, name) is not None


SCRIPT = """
import engram

problem = engram.two_tokens(correlation=0.95, p1=0.75)
descent = engram.GradientDescent(learning_rate=10.0, steps=34)
run = engram.simulate(problem, descent, record=("loss", "margins"))
reveal_type(run)
reveal_type(engram.compare(problem, {"gd": descent}))
reveal_type(engram.events(run))
reveal_type(engram.plot(run))
reveal_type(engram.memory.margins(problem, run["final_weights"].values))
reveal_type(problem.inputs)
engram.simulate(problem, descent, recrod=("loss",))
engram.GradientDescent(learning_rate=10.0, steps="many")
engram.two_tokens(0.95)
"""


def test_a_checker_knows_results_and_flags_wrong_arguments(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    source = str(Path(engram.__file__).parents[1])
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [source]}))
    # The interpreter comes first on the path, which is where the checker looks for libraries.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PATH": path}
    )
    notes = json.loads(done.stdout)["generalDiagnostics"]
    words = [note["message"] for note in notes if note["severity"] == "information"]
    kinds = [text.rsplit(" is ", 1)[1].strip('"') for text in words]
    array = "Array | ndarray[tuple[Any, ...], dtype[Any]]"
    assert kinds == ["Dataset", "Dataset", "Dataset", "Figure", array, array]
    errors = [note["message"] for note in notes if note["severity"] == "error"]
    assert len(errors) == 3, errors
    for part, error in zip(("recrod", "steps", "p1"), errors, strict=True):
        assert part in error
