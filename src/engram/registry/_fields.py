"""Field: one number or choice of something that has a name, with all that is said of it anywhere."""

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection
from typing import Any, Literal


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()
_ANYTHING = bool | int | float | str | list[Any] | None
_KNOWN = (bool, int, float, str, list, dict, type(None))


@dataclasses.dataclass(frozen=True)
class Field:
    """What a table, an option, a control, a file and a page of the docs say of one value.

    Args:
        help: One line.
        bounds: The least and the largest value, either None.
        above: A bound that is not reached, from below.
        below: A bound that is not reached, from above.
        type: Of the value; by default that of the annotation.
        default: By default that of the signature; without one the value must be given.
        unit: Of a number.
        static: Whether another value is another program; by default integers, strings and booleans.
        argument: What the target calls it, if that is another name.
    """

    help: str = ""
    bounds: tuple[int | float | None, int | float | None] = (None, None)
    above: int | float | None = None
    below: int | float | None = None
    type: Any = None
    default: Any = REQUIRED
    unit: str = ""
    static: bool | None = None
    argument: str | None = None

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def is_static(self) -> bool:
        """Whether cells of a sweep that differ in it need programs of their own."""
        return not self.is_real if self.static is None else self.static

    @property
    def is_real(self) -> bool:
        """Whether it is one real number."""
        return float in self.forms and int not in self.forms

    @property
    def takes_schedule(self) -> bool:
        """Whether it may change from step to step, by a schedule that has a name."""
        return self.is_real and any(typing.get_origin(form) is dict for form in self.forms)

    @property
    def is_number(self) -> bool:
        """Whether it can be one number, and so an axis of a sweep."""
        return float in self.forms or int in self.forms

    @property
    def forms(self) -> tuple[Any, ...]:
        """The types that its value may have, without None."""
        return forms_of(self.type)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The words among which it chooses, if it does."""
        words = [typing.get_args(form) for form in self.forms if typing.get_origin(form) is Literal]
        return tuple(word for each in words for word in each)

    def holds(self, value: Any) -> Any:
        """A plain number as an array where it is one that varies, so that another one compiles nothing."""
        if self.is_real and not self.is_static and type(value) in (int, float):
            import numpy as np

            return np.asarray(value, float)
        return value


@functools.cache
def forms_of(type_: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself, without None."""
    is_union = typing.get_origin(type_) in (typing.Union, types.UnionType)
    members = typing.get_args(type_) if is_union else (type_,)
    return tuple(member for member in members if member is not type(None))


def read_fields(target: Callable[..., Any], supplied: Collection[str]) -> dict[str, Field]:
    """The fields of a class or a function, from its signature, other than those that are supplied."""
    hints = _hints(target)
    fields = {}
    for name, parameter in inspect.signature(target).parameters.items():
        if name in supplied or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        hint = hints.get(name, Any)
        notes = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Field)]
        base = typing.get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
        field = notes[0] if notes else Field()
        default = REQUIRED if parameter.default is parameter.empty else parameter.default
        fields[name] = dataclasses.replace(
            field,
            type=field.type or (base if _is_plain(base) else _ANYTHING),
            default=default if field.is_required else field.default,
        )
    return fields


def _hints(target: Any) -> dict[str, Any]:
    """Annotations by name; those of a class lie at its attributes or at its `__init__`."""
    sources = [target, target.__init__] if isinstance(target, type) else [target]
    annotations: dict[str, Any] = {}
    for source in sources:
        try:
            hints = typing.get_type_hints(source, include_extras=True)
        except Exception:  # a name that is known to a type checker only
            continue
        # Of an attribute and an argument of one name, the one that says more.
        annotations |= {
            name: hint
            for name, hint in hints.items()
            if not hasattr(annotations.get(name), "__metadata__")
        }
    return annotations


def _is_plain(hint: Any) -> bool:
    """Whether a value of this type can be written in TOML."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(map(_is_plain, typing.get_args(hint)))
    return hint in _KNOWN or typing.get_origin(hint) in (list, dict, Literal)
