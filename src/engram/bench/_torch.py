"""PyTorch, where it is installed."""

import importlib
from typing import Any

NO_TORCH = "no PyTorch here: pip install 'engram[bench]' to compare"


def load_torch() -> Any:
    """The module, or None: engram never needs it but to be compared with."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None
