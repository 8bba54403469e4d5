"""The command line in this process: as exact as a process of its own, and far quicker."""

import sys
from typing import NamedTuple

import pytest

from engram.cli import _main


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def here(monkeypatch, capsys):
    """Call `engram ARGS` here: its exit code and what it printed."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["engram", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            _main.main()
        said = capsys.readouterr()
        return Done(ended.value.code or 0, said.out, said.err)

    return call
