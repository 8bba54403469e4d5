"""What type checkers and editors see of the root is what is there."""

import ast
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
