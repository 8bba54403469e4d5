"""Entries: a kind, a name, what it makes, and its fields; one for each member of an open set."""

import dataclasses
import difflib
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from engram._errors import InputError
from engram.registry._fields import Field, read_fields

T = TypeVar("T")

KINDS = (
    "problem",
    "system",
    "dynamics",
    "optimizer",
    "sampling",
    "schedule",
    "observable",
    "event",
    "study",
)
# What is not said in a table but known when it is read: the problem of a system, its law, a key.
SUPPLIED = {
    "problem": ("key",),
    "system": ("problem", "law"),
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """Something that has a name.

    Args:
        kind: One of `KINDS`, or a table of the specs.
        name: Its name.
        target: What makes it; for built-ins "module:name", loaded on use.
        fields: Its numbers and choices by name.
        help: One line.
        about: What else is said of it: axes and symbol of an observable.
        needs: Groups of fields of each of which one at least must be given.
        parts: Kinds of which it has one each, with that one's name, or None where the table chooses.
        origin: The module of a plugin.
    """

    kind: str
    name: str
    target: Any
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    help: str = ""
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    needs: tuple[tuple[str, ...], ...] = ()
    parts: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    origin: str | None = None

    def load(self) -> Any:
        """What makes it."""
        return _load(self.target) if isinstance(self.target, str) else self.target

    @property
    def supplied(self) -> tuple[str, ...]:
        """The arguments of the target that no table has."""
        names = SUPPLIED.get(self.kind, ())
        return tuple(name for name in names if name in inspect.signature(self.load()).parameters)


@functools.cache
def _load(target: str) -> Any:
    module, _, path = target.partition(":")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))


_entries: dict[str, dict[str, Entry]] = {}


def entries(kind: str) -> dict[str, Entry]:
    """All entries of a kind by name, built-ins first."""
    if not _entries:
        from engram.registry._catalogue import CATALOGUE

        for entry in CATALOGUE:
            _entries.setdefault(entry.kind, {})[entry.name] = entry
    return _entries.setdefault(kind, {})


def find(kind: str, name: str) -> Entry:
    """The entry of a name; an unknown one is refused with those that come close."""
    known = entries(kind)
    if name not in known:
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"{kind} {name!r} is not registered. {hint}Known: {', '.join(known)}; yours with --plugin or "
            "`load_plugin`."
        )
    return known[name]


def register(kind: str, name: str, *, help: str | None = None, **about: Any) -> Callable[[T], T]:
    """Give a class or a function a name: `@register("optimizer", "lion")`.

    From then on the name can be used wherever a built-in's can: in `simulate`, in specs and sweeps, on the
    command line (`--plugin`), in the explorer, in files. Its fields are those of its signature; annotate one
    with `Annotated[float, Field(help="...", bounds=(0, 1))]` to say more.

    Args:
        kind: "problem", "system", "dynamics", "optimizer", "sampling", "observable", "event" or "study".
        name: A word; not that of a built-in.
        help: One line; by default the first of the docstring.
        about: Of an observable that is a function of a moment: its `axes`, its `symbol`.
    """
    if kind not in KINDS:
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}, got {kind!r}. Pick one.")
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise InputError(f"`name` must be a word, got {name!r}. Use letters, digits and _.")
    axes = about.get("axes", ())
    if not isinstance(axes, tuple | list) or not all(isinstance(axis, str) for axis in axes):
        raise InputError(f"`axes` must be names, got {axes!r}. Write axes=('token',).")

    def put(target: T) -> T:
        entry = _entry_for(kind, name, target, about)
        entries(kind)[name] = dataclasses.replace(entry, help=help or entry.help)
        return target

    return put


# Words that a table has already; an optimizer and a sampling share one with the descent they make up.
_RESERVED = dict.fromkeys(KINDS, ("kind",)) | {
    "problem": ("family", "kind"),
    "optimizer": ("kind", "steps", "batch_size", "sampling", "optimizer"),
    "sampling": ("kind", "steps", "weight_decay", "learning_rate", "sampling", "optimizer"),
    "study": ("name",),
}


def _entry_for(kind: str, name: str, target: Any, about: dict[str, Any]) -> Entry:
    """The entry of a class or a function of the user's; one that cannot be used is refused."""
    origin, before = getattr(target, "__module__", None), entries(kind).get(name)
    # One `kind = "..."` in a table of dynamics may be the name of an optimizer, too.
    others = {"dynamics": "optimizer", "optimizer": "dynamics"}.get(kind)
    if (before is not None and before.origin != origin) or (others and name in entries(others)):
        raise InputError(f"`name` = {name!r} is taken. Choose another for your {kind}.")
    lacking = sorted(getattr(target, "__abstractmethods__", ())) if isinstance(target, type) else []
    if not callable(target) or lacking:
        what = f"lacks {', '.join(lacking)}" if lacking else f"got {target!r}"
        raise InputError(f"{kind} {name!r} must be a class or a function that can be used, {what}.")
    is_function = kind in ("observable", "event") and not isinstance(target, type)
    fields = {} if is_function else read_fields(target, SUPPLIED.get(kind, ()))
    if kind == "problem":
        argument = "key" if "key" in inspect.signature(target).parameters else ""
        seed = find("problem", "sphere").fields["seed"]
        fields["seed"] = dataclasses.replace(seed, argument=argument)
    if kind == "study":  # its settings stay plain numbers
        fields = {field: dataclasses.replace(its, static=True) for field, its in fields.items()}
    for field, its in fields.items():
        if field in _RESERVED[kind]:
            raise InputError(
                f"`{field}` of {kind} {name!r} is a word of the table that it stands in. Choose another."
            )
        low, high = its.bounds
        if low is not None and high is not None and low > high:
            raise InputError(
                f"`{field}` of {kind} {name!r} has the bounds {its.bounds}. Swap them."
            )
    words = inspect.getdoc(target) or ""
    if words.startswith(
        f"{getattr(target, '__name__', '')}("
    ):  # what a dataclass writes for lack of one
        words = ""
    return Entry(kind, name, target, fields, words.split("\n")[0], about, origin=origin)


def unregister(kind: str, name: str) -> None:
    """Take back a name that you registered."""
    if find(kind, name).origin is None:
        raise InputError(
            f"{kind} {name!r} is built in and cannot be removed. Remove only names of your own."
        )
    del entries(kind)[name]


def name_of(kind: str, thing: Any) -> str | None:
    """The name under which the class of an object is registered; None if it is not."""
    for name, entry in entries(kind).items():
        if entry.target is type(thing):
            return name
        if isinstance(entry.target, str) and entry.target.endswith(f":{type(thing).__name__}"):
            return name if entry.load() is type(thing) else None
    return None
