"""The fingerprint of a function: its code, and all code and values that it reaches in the user's modules."""

import contextlib
import dis
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), range, type(NotImplemented))
# Of a class: what Python writes there, and what its other entries say as well.
_ASIDE = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl", "__annotations__",
    "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__slots__", "__parameters__",
    "__orig_bases__", "__firstlineno__", "__static_attributes__", "__annotate_func__",
}  # fmt: skip

# With these, names are looked up by texts that are not known before.
_BY_TEXT = {
    "getattr", "vars", "globals", "locals", "eval", "exec", "__dict__", "attrgetter", "methodcaller",
    "__import__", "import_module",
}  # fmt: skip

# With these, variables of the environment are read.
_ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "expandvars"}

# With these, a function writes to the files that it names.
_WRITERS = {
    "write_text", "write_bytes", "touch", "save", "savez", "savetxt", "dump", "to_csv", "to_netcdf",
}  # fmt: skip
_MODES = re.compile("[rwaxbt+]*[wax+][bt+]*")

# What adds nothing to what it wraps.
_SHELLS: tuple[type[Any], ...] = (type(jax.jit(abs)), type(functools.cache(abs)))


class Fingerprint:
    """What a function does, as far as its code and the values within its reach decide it.

    Reached are closures, defaults, the objects it is bound to, and, by the names that its code uses, globals,
    functions and classes of the user's own modules, and whatever these reach. Libraries count by their names
    and versions. Arrays and numbers are compared to the last bit. Files and variables of the environment that
    a reached text names count by their contents.

    Args:
        function: The function.

    Attributes:
        hash: The fingerprint.
        vague: The first value that cannot be distinguished from another of its type, or None.
    """

    def __init__(self, function: Any):
        self.vague: str | None = None
        self._hash = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._modules: list[types.ModuleType] = []  # whose names are being looked up
        self._kept: list[Any] = []  # so that no other object gets the id of one that was seen
        self._texts: set[str] = set()  # names of files and of variables, perhaps
        self._folders = {Path()}  # from which files may be named
        self._reads_environment = False
        try:
            self._add(function)
            self._outside()
        except RecursionError:
            self.vague = self.vague or "values that are nested too deep"
        self.hash = self._hash.hexdigest()[:16]

    def _say(self, *words: Any) -> None:
        self._hash.update("\0".join(map(str, (*words, ""))).encode("utf-8", "surrogatepass"))

    def _add(self, value: Any) -> None:
        self._texts |= _texts_in(value)
        if type(value) in _ATOMS:
            self._say(type(value).__name__, repr(value))
            return
        if id(value) in self._seen:
            self._say("again", self._seen[id(value)])
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        if type(value) is np.ndarray or isinstance(value, np.generic | jax.Array):
            self._array(value)
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._all(value.__func__, value.__self__)
        elif isinstance(value, types.BuiltinFunctionType):
            self._say("built in", value.__module__, value.__qualname__)
            self._add(value.__self__)
        elif isinstance(value, staticmethod | classmethod):
            self._all(type(value).__name__, value.__func__)
        elif isinstance(value, functools.cached_property):
            self._all("cached", value.func)
        elif isinstance(value, property):
            self._all(value.fget, value.fset, value.fdel)
        elif isinstance(value, functools.partial):
            self._all(value.func, value.args, value.keywords)
        elif isinstance(value, _SHELLS):
            self._all(type(value).__name__, value.__wrapped__)
        elif isinstance(value, types.CodeType):
            self._say(value.co_name)
        elif type(value) in (list, tuple):
            self._all(type(value).__name__, len(value), *value)
        elif type(value) in (dict, types.MappingProxyType):
            self._all("table", len(value), *(part for item in value.items() for part in item))
        elif type(value) in (set, frozenset):
            self._say("set", *sorted(self._apart(item) for item in value))
        else:
            self._object(value)

    def _outside(self) -> None:
        """Files and variables of the environment that a text names."""
        if self._reads_environment:
            for name in sorted(self._texts & os.environ.keys()):
                self._say("environment", name, os.environ[name])
        names = [text for text in sorted(self._texts) if "." in text or os.sep in text]
        for name in names:
            places = [folder / name for folder in self._folders]
            for content in sorted({_content(place) for place in places if os.path.isfile(place)}):
                self._say("file", name, content)

    def _all(self, *values: Any) -> None:
        for value in values:
            self._add(value)

    def _apart(self, value: Any) -> str:
        """The fingerprint of a value by itself, where the order is not known."""
        apart = Fingerprint(value)
        self.vague = self.vague or apart.vague
        self._texts |= apart._texts
        return apart.hash

    def _array(self, value: Any) -> None:
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        self._say("array", array.dtype, array.shape)
        if array.dtype.hasobject:
            self._add(array.tolist())
        else:
            self._hash.update(array.tobytes())

    def _module(self, module: types.ModuleType) -> None:
        """A module among other values; of the user's, whose names may be used in any way, its text."""
        self._say("module", module.__name__)
        if not _is_library(module.__name__):
            self._say(Path(module.__file__ or "").read_bytes() if module.__file__ else "")

    def _function(self, function: types.FunctionType) -> None:
        space = function.__globals__
        if _is_of_library(function):
            self._say("function", _full_name(space.get("__name__"), function.__qualname__))
            for cell in function.__closure__ or ():  # what a library's function was made of
                with contextlib.suppress(ValueError):  # nothing is in it yet
                    self._add(cell.cell_contents)
            if not _is_library(function.__module__):  # a decorator's, around the user's
                self._all(function.__defaults__, function.__kwdefaults__, vars(function))
            return
        code, names = function.__code__, _names_in(function.__code__)
        if names & _BY_TEXT:
            if (module := _home(function)) is not None:
                self._module(module)
            else:  # run from a text
                names |= {name for name in space if not name.startswith("__")}
        self._code(code)
        self._all(function.__defaults__, function.__kwdefaults__, vars(function))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                self._reached(name, cell.cell_contents, names)
            except ValueError:  # nothing is in it yet
                self._say("empty")
        for name in sorted(names & space.keys()):
            self._reached(name, space[name], names)
        for module in _imports(code, space):
            self._reached(module.__name__, module, names)

    def _code(self, code: types.CodeType) -> None:
        """Instructions and constants."""
        self._say(
            "code", code.co_code.hex(), code.co_flags, code.co_argcount, code.co_kwonlyargcount
        )
        self._say(*code.co_names, "", *code.co_varnames, "", *code.co_freevars)
        self._folders.add(Path(code.co_filename).parent)
        self._reads_environment |= not _ENVIRONMENT.isdisjoint(code.co_names)
        texts, self._texts = self._texts, set()
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant)
            else:
                self._add(constant)
        self._texts = texts if _writes(code) else texts | self._texts

    def _reached(self, name: str, value: Any, names: set[str]) -> None:
        """What a name stands for; of a module of the user's, whatever the code names of it."""
        self._say("name", name)
        if not isinstance(value, types.ModuleType):
            self._add(value)
        elif value not in self._modules:
            self._modules.append(value)
            reached = names & vars(value).keys()
            if is_library := _is_library(value.__name__):
                self._add(value)
                # What the user has put there in place of the library's.
                reached = {each for each in reached if _may_be_own(vars(value)[each])}
            elif names & _BY_TEXT:
                reached = {each for each in vars(value) if not each.startswith("__")}
            if not is_library:
                reached |= {"__getattr__"} & vars(value).keys()
                if not reached:  # handed on as a whole
                    self._module(value)
            for attribute in sorted(reached):
                self._reached(attribute, vars(value)[attribute], names)
            self._modules.pop()

    def _class(self, cls: type) -> None:
        self._say("class", _named(cls))
        if not _is_library(cls.__module__):
            self._all(type(cls), *(base for base in cls.__bases__ if base is not object))
            for name, value in sorted(vars(cls).items()):
                if name not in _ASIDE:
                    self._say("name", name)
                    self._add(value)

    def _object(self, value: Any) -> None:
        """Any other object is what pickle would write of it, and what it would leave out of the user's."""
        if (name := _name_in_library(value)) is not None:
            self._say("named", name)
            return
        if not _is_library(type(value).__module__) and not _is_written_whole(type(value)):
            self._all(type(value), getattr(value, "__dict__", None))
        try:
            parts = value.__reduce_ex__(4)
            parts = (parts,) if isinstance(parts, str) else parts
            self._all(*(list(part) if isinstance(part, Iterator) else part for part in parts))
        except Exception:  # of an object that cannot be written
            self.vague = self.vague or repr(value)[:80]
            self._say("vague", _named(type(value)))


def _is_written_whole(cls: type) -> bool:
    """Whether pickle writes all attributes of a user's objects: no class of theirs says what it writes."""
    own = ("__reduce__", "__reduce_ex__", "__getstate__")
    classes = [each for each in cls.__mro__ if not _is_library(each.__module__)]
    return not any(name in vars(each) for each in classes for name in own)


def _may_be_own(value: Any) -> bool:
    """Whether something in a library's module leads to what the user has put there."""
    if isinstance(value, types.ModuleType):
        return True
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, types.FunctionType):
        return not _is_of_library(value)
    return not _is_library((value if isinstance(value, type) else type(value)).__module__)


def _name_in_library(value: Any) -> str | None:
    """The name by which a library has an object, if pickle would write a name of it, or it says its module.

    Functions that are compiled from C, such as NumPy's, do not know their modules: these are looked for.
    """
    name = getattr(value, "__name__", None)
    if not isinstance(name, str):
        return None
    home = getattr(value, "__module__", None)
    homes = [home] if isinstance(home, str) else sorted(sys.modules)
    for each in homes:
        module = sys.modules.get(each)
        if module is not None and vars(module).get(name) is value and _is_library(each):
            return _full_name(each, name)
    return None


def _named(thing: Any) -> str:
    """The full name of a function or a class, with the version of the library that has it."""
    return _full_name(thing.__module__, thing.__qualname__)


def _full_name(module: str | None, name: str) -> str:
    root = sys.modules.get((module or "").partition(".")[0])
    version = getattr(root, "__version__", "") if _is_library(module) else ""
    return f"{module}.{name} {version}"


def _is_library(module: str | None) -> bool:
    """Whether a module is installed, and not the user's own: where its file is decides, not its name."""
    root = (module or "builtins").partition(".")[0]
    if root == "__main__":
        return False
    if root in sys.modules:
        loaded = sys.modules[root]
        places = [getattr(loaded, "__file__", None), *getattr(loaded, "__path__", ())]
    else:
        try:
            spec = importlib.util.find_spec(root)
        except (ImportError, ValueError):
            spec = None
        places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
        places = [place for place in places if place not in ("built-in", "frozen")]
    files = [place for place in places if place]
    if not files:  # built into Python, or nowhere
        return root in sys.stdlib_module_names
    return any(_is_installed(file) for file in files)


def _is_of_library(function: types.FunctionType) -> bool:
    """Whether a library's file has a function's code; decorators copy `__module__` from elsewhere."""
    file = function.__code__.co_filename
    if not file.startswith("<"):
        return _is_installed(file)
    home = _home(function)  # of code that was made from a text, or frozen
    return home is not None and _is_library(home.__name__)


def _home(function: types.FunctionType) -> types.ModuleType | None:
    """The module whose names a function uses; None if they are no module's."""
    module = sys.modules.get(function.__globals__.get("__name__") or "")
    return module if module and vars(module) is function.__globals__ else None


@functools.cache
def _is_installed(file: str) -> bool:
    """Whether a file is of Python, of engram or of what is installed."""
    path = Path(file)
    if {"site-packages", "dist-packages"} & {*path.parts}:
        return True
    ours = (Path(os.__file__).parent, Path(__file__).parents[1])
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in ours)


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code, and the code of functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)


def _names_in(code: types.CodeType) -> set[str]:
    """The names of globals and attributes that code uses."""
    return {name for each in _codes_in(code) for name in each.co_names}


def _texts_in(value: Any) -> set[str]:
    """The text that a value is, or the path."""
    return {str(value)} if isinstance(value, str | PurePath) else set()


def _writes(code: types.CodeType) -> bool:
    """Whether code writes to files, whose contents then say nothing about what it returns."""
    modes = {each for each in code.co_consts if isinstance(each, str) and _MODES.fullmatch(each)}
    return bool(modes and "open" in code.co_names) or not _WRITERS.isdisjoint(code.co_names)


def _content(path: Path) -> str:
    """The hash of a file; nothing of one that cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _imports(code: types.CodeType, space: Mapping[str, Any]) -> Iterator[types.ModuleType]:
    """The modules of the user's that code imports when it runs."""
    by_text = _names_in(code) & {"import_module", "__import__", "modules"}
    names = [
        each.argval
        for part in _codes_in(code)
        for each in dis.get_instructions(part)
        if each.opname == "IMPORT_NAME"
        or (each.opname == "LOAD_CONST" and by_text and isinstance(each.argval, str))
    ]
    for name in names:
        for full in (name, f"{space.get('__package__') or ''}.{name}"):
            if not full.startswith(".") and not _is_library(full):
                with contextlib.suppress(ImportError, ValueError):  # no module's name after all
                    yield importlib.import_module(full)


def name_of(function: Any) -> str:
    """What a function is called, with its module."""
    while isinstance(function, functools.partial):
        function = function.func
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '?')}"


def parameters_of(function: Any) -> list[str] | None:
    """The names that a function takes; None if it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return None
    return [each.name for each in parameters]
