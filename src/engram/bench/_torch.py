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
        raise NoPeer("PyTorch is not installed: pip install torch to compare") from None
