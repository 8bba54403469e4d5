"""PyTorch, where it is installed."""

import importlib
from typing import Any


class NoPeer(Exception):
    """There is nothing to compare with; says why."""


def load_torch() -> Any:
    """The module, which engram never needs but to be compared with."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise NoPeer("no PyTorch here: pip install 'engram[bench]' to compare") from None
