"""Plugins: modules of the user's that register names when they are loaded.

Foreign code: it is loaded because a person named it (`--plugin`, Python) or installed it (an entry point),
never because a spec, a store or an address did. Results say which modules their names came from.
"""

import functools
import hashlib
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path

from engram._errors import InputError, place_of
from engram.registry._entries import Entry

_paths: dict[str, str] = {}  # of modules that were given as files


def load_plugin(source: str) -> None:
    """Load a module by its name, or a file that ends in .py, so that what it registers can be named."""
    try:
        if source.endswith(".py"):
            _load_file(Path(source))
        else:
            importlib.import_module(source)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's code does
        said = " ".join(str(error).split())
        where = f", in {place}" if (place := place_of(error)) else ""
        raise InputError(
            f"the plugin {source} cannot be loaded ({type(error).__name__}: {said}{where}). Run it by itself "
            "or set ENGRAM_TRACEBACK=1 to see where it fails."
        ) from error


def _load_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"the plugin {path} is not a file. Check the name.")
    name = path.stem
    if name in sys.modules and _paths.get(name) != str(path.resolve()):
        raise InputError(
            f"the plugin {path} would hide the module {name!r}, which is loaded. Rename the file."
        )
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where pickle, and another plugin, look for it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _paths[name] = str(path.resolve())


@functools.cache
def load_entry_points() -> None:
    """Load what installed packages offer under the group `engram`, once; one that fails is reported."""
    for point in entry_points(group="engram"):
        try:
            point.load()
        except Exception as error:  # of somebody else's package: ours goes on without it
            warnings.warn(f"the plugin {point.name} cannot be loaded ({error})", stacklevel=2)


def origins(used: Iterable[Entry]) -> list[dict[str, str]]:
    """Where entries come from that are not built in: module, fingerprint, and the path of a file."""
    modules = dict.fromkeys(entry.origin for entry in used if entry.origin is not None)
    return [_origin(module) for module in modules]


def _origin(module: str) -> dict[str, str]:
    file = _paths.get(module) or getattr(sys.modules.get(module), "__file__", None)
    known = {"module": module}
    if file is not None and Path(file).is_file():
        known["sha256"] = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    return known | ({"path": _paths[module]} if module in _paths else {})


def load_origins(known: list[dict[str, str]]) -> None:
    """Load the same modules in another process of this user's, and check that they are the same."""
    for each in known:
        if each["module"] == "__main__":
            raise InputError(
                "names that a script registers itself are not known to other processes. Put them into a "
                "module of their own, and load it with `engram.registry.load_plugin`."
            )
        if each["module"] not in sys.modules:
            load_plugin(each.get("path", each["module"]))
        if _origin(each["module"]).get("sha256") != each.get("sha256"):
            raise InputError(
                f"the plugin {each['module']} differs from the one that the work was planned with. Use the "
                "same file everywhere."
            )
