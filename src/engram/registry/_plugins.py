"""Plugins: modules of the user's that register names when they are loaded.

Foreign code: it is loaded because a person named it (`--plugin`, Python, an installed entry point), never
because a spec, a store or an address did. What was loaded is on record, by its module and its fingerprint.
"""

import hashlib
import importlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from engram._errors import InputError

_loaded: dict[str, dict[str, str]] = {}


def load_plugin(source: str) -> None:
    """Load a module by its name, or a file that ends in .py, so that what it registers has a name."""
    path = Path(source)
    try:
        module = _from_file(path) if path.suffix == ".py" else importlib.import_module(source)
    except InputError:
        raise
    except Exception as error:  # whatever the user's code does
        raise InputError(
            f"--plugin {source} cannot be loaded ({type(error).__name__}: {error}). Run it by itself to "
            "see where it fails."
        ) from error
    note(module.__name__, source if path.suffix == ".py" else None)


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"--plugin {path} is not a file. Check the name.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where pickle, and a second plugin, look for it
    spec.loader.exec_module(module)
    return module


def note(module: str, path: str | None = None) -> None:
    """Keep on record where registered names come from."""
    file = getattr(sys.modules.get(module), "__file__", None)
    source = Path(path or file or "")
    digest = hashlib.sha256(source.read_bytes()).hexdigest() if source.is_file() else ""
    _loaded[module] = {"module": module, "sha256": digest[:16]} | (
        {"path": str(source.resolve())} if path else {}
    )


def load_entry_points() -> None:
    """Load what installed packages offer under the group `engram`."""
    for point in entry_points(group="engram"):
        if point.value.partition(":")[0] not in _loaded:
            load_plugin(point.value.partition(":")[0])


def plugins() -> list[dict[str, str]]:
    """What was loaded: module, fingerprint, and the path of one that was given as a file."""
    return list(_loaded.values())
