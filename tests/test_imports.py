"""Packages use each other through their public names only."""

import ast
from pathlib import Path

import engram

SOURCES = Path(engram.__file__).parent


def imported(path):
    """What a file imports from engram, as lists of names: ["engram", "problem", "_storage", ...]."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ([*node.module.split("."), alias.name] for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)


def test_no_package_imports_a_private_module_of_another():
    private = [
        (str(path.relative_to(SOURCES)), ".".join(names))
        for path in SOURCES.rglob("*.py")
        for root, *names in imported(path)
        if root == "engram"
        and names[:1] != [path.relative_to(SOURCES).parts[0].removesuffix(".py")]
        if any(name.startswith("_") for name in names[1:])
    ]
    assert private == []
