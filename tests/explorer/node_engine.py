"""The page's engine, asked from Python: one process of node for all questions."""

import base64
import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

NODE = shutil.which("node")
ENGINE = Path(str(resources.files("engram.explorer") / "static" / "engine"))


class Engine:
    """A process that answers questions to the modules of a folder, by default the engine's own."""

    def __init__(self):
        driver = Path(__file__).with_name("test_engine_node.mjs")
        command = [str(NODE), str(driver)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def call(self, module: str, name: str, *calls: Any, folder: Path = ENGINE) -> list[Any]:
        """What a function of a module returns for each list of arguments."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {"module": str(folder / f"{module}.js"), "name": name, "calls": calls}
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline(), object_hook=_arrays)

    def values(self, module: str, name: str, *calls: Any, folder: Path = ENGINE) -> list[Any]:
        """The same, where none may fail."""
        answers = self.call(module, name, *calls, folder=folder)
        for answer in answers:
            assert "error" not in answer, answer["trace"]
        return [answer["value"] for answer in answers]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def _arrays(item: dict[str, Any]) -> Any:
    if item.keys() != {"base64", "shape"}:
        return item
    return np.frombuffer(base64.b64decode(item["base64"])).reshape(item["shape"])
