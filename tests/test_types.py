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
W = [[0.0, 1.0], [1.0, 0.0]]
reveal_type(engram.memory.margins(problem, W))
reveal_type(engram.particles.margins(problem, run["final_weights"].values))
reveal_type(problem.inputs)
reveal_type(engram.theory.binary.flow_margin(1.0, [0.5, 1.0]))
engram.memory.hvp(problem, W, V=run["final_weights"], block_size=1)
engram.simulate(problem, descent, start=W, at=[0, 10, 34], stop={"error": 0.1})
engram.probe(W, [[1, 0], [0, 1]], [[1, 0], [0, 1]], targets=(0, 1), names=["a", "b"])
engram.sweep({}, {"p1": {"linspace": [0.5, 0.9, 5]}, "correlation": [0.1, 0.5]})
engram.simulate(problem, descent, recrod=("loss",))
engram.GradientDescent(learning_rate=10.0, steps="many")
engram.two_tokens(0.95)
engram.memory.margins(problem, "weights")
engram.memory.margins(problem, W, layernorm=True)
engram.Problem(W, W, [0.5, 0.5], targets="identity")
"""


# The interpreter comes first on the path, which is where checkers look for libraries.
PATH = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_the_public_interface_has_known_types(tmp_path):
    source = {"PYTHONPATH": str(Path(engram.__file__).parents[1])}
    options = ["--verifytypes", "engram", "--ignoreexternal", "--outputjson"]
    command = [sys.executable, "-m", "basedpyright", *options]
    result = subprocess.run(
        command, cwd=tmp_path, env=os.environ | PATH | source, capture_output=True
    )
    assert json.loads(result.stdout)["typeCompleteness"]["completenessScore"] > 0.95


class Checker:
    """The language server that editors talk to, over pipes."""

    def __init__(self, folder):
        pipe, self.uri, self.count = subprocess.PIPE, (folder / "script.py").as_uri(), 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from basedpyright.langserver import main; main()", "--stdio"],
            cwd=folder, env=os.environ | PATH, stdin=pipe, stdout=pipe, stderr=pipe,
        )  # fmt: skip
        root = {"uri": folder.as_uri(), "name": "script"}
        about = {"processId": os.getpid(), "capabilities": {}, "workspaceFolders": [root]}
        self.ask("initialize", about)
        self.tell("initialized", {})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def tell(self, method, params, **more):
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def ask(self, method, params):
        self.count += 1
        self.tell(method, params, id=self.count)
        while (message := self.read()).get("id") != self.count or "method" in message:
            pass
        return message["result"]

    def read(self):
        """The next message; what the server asks of an editor is left unanswered, but for its settings."""
        size = 0
        while line := self.process.stdout.readline().strip():
            size = int(line.split(b":")[1]) if line.startswith(b"Content-Length") else size
        message = json.loads(self.process.stdout.read(size))
        if message.get("method") == "workspace/configuration":
            result = [{} for _ in message["params"]["items"]]
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            self.process.stdin.flush()
        return message

    def notes(self, text):
        """What it says of the script."""
        document = {"uri": self.uri, "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        while (message := self.read()).get("method") != "textDocument/publishDiagnostics":
            pass
        return message["params"]["diagnostics"]

    def hover(self, text, name):
        """What is shown where the pointer rests on a name."""
        line = next(k for k, each in enumerate(text.splitlines()) if f".{name}(" in each)
        place = {"line": line, "character": text.splitlines()[line].index(f".{name}(") + 2}
        params = {"textDocument": {"uri": self.uri}, "position": place}
        return self.ask("textDocument/hover", params)["contents"]["value"]


def test_editors_know_results_flag_wrong_arguments_and_show_docstrings(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    settings = {"extraPaths": [str(Path(engram.__file__).parents[1])], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    with Checker(tmp_path) as checker:
        notes = checker.notes(SCRIPT)
        hovers = {name: checker.hover(SCRIPT, name) for name in ("simulate", "hvp", "two_tokens")}
    words = [note["message"] for note in notes if note["severity"] == 3]
    kinds = [text.rsplit(" is ", 1)[1].strip('"') for text in words if text.startswith("Type of")]
    array = "Array | ndarray[tuple[Any, ...], dtype[Any]]"
    assert kinds == ["Dataset", "Dataset", "Dataset", "Figure", *[array] * 3, array[8:]]
    errors = [note["message"] for note in notes if note["severity"] == 1]
    wrong = ("recrod", "steps", "p1", "W", "layernorm", "targets")
    assert len(errors) == len(wrong), errors
    for part, error in zip(wrong, errors, strict=True):
        assert part in error
    for name, (argument, meaning) in {
        "simulate": ("record:", "Run a dynamics on a problem"),
        "hvp": ("block_size: int | None", "The Hessian-vector product"),
        "two_tokens": ("correlation:", "correlation-binary"),
    }.items():
        assert argument in hovers[name]
        assert meaning in hovers[name]
