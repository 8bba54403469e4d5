"""Names of tokens and classes: labels that no computation sees, so that no program is compiled for them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import get_opaque_trace_state

from engram._checks import InputError, brief

_LONGEST = 40  # characters of a name that are shown


class Names:
    """What tokens and classes are called, or None.

    To JAX a node without arrays that equals every other of its kind: problems that differ in names
    alone share every compiled program. A program therefore does not see the names, and what it returns
    has none; they are read from the problem that was given, outside of programs.

    Args:
        tokens: N names.
        classes: M names.
    """

    def __init__(
        self, tokens: tuple[str, ...] | None = None, classes: tuple[str, ...] | None = None
    ):
        self.tokens: tuple[str, ...] | None = tokens
        self.classes: tuple[str, ...] | None = classes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names)

    def __hash__(self) -> int:
        return hash(Names)

    def __repr__(self) -> str:
        return f"Names({brief(self.tokens)}, {brief(self.classes)})"


with jax.ensure_compile_time_eval():
    _OUTSIDE = get_opaque_trace_state(convention="engram")


def _unflatten(names: Names, _: Any) -> Names:
    # A program is traced once and then serves other problems: these names may not be theirs.
    return names if get_opaque_trace_state(convention="engram") == _OUTSIDE else Names()


jax.tree_util.register_pytree_node(Names, lambda names: ((), names), _unflatten)


def check_names(name: str, given: Any, count: int, what: str) -> tuple[str, ...] | None:
    """Read so many different names; `what` they are names of goes into the error."""
    if given is None:
        return None
    given = given.tolist() if hasattr(given, "tolist") else given  # NumPy's strings become Python's
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InputError(f"`{name}` must be a list of strings, got {brief(given)}. Give {count}.")
    names = tuple(given)
    if len(names) != count:
        raise InputError(
            f"`{name}` must have one entry per {what}, got {len(names)} for {count}. Name each."
        )
    for index, each in enumerate(names):
        if not isinstance(each, str):
            raise InputError(
                f"`{name}` must be strings, got {brief(each)} at index {index}. Convert with `str`."
            )
        if not each or "\0" in each or not _is_text(each):
            raise InputError(
                f"`{name}` must be text that a file can hold, got {each!r} at index {index}. Use at "
                "least one character, no NUL and no half of a surrogate pair."
            )
    if len(set(names)) < count:
        twice = Counter(names).most_common(1)[0][0]
        raise InputError(f"`{name}` must differ, got {twice!r} twice. Make each unique.")
    return names


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def show_name(name: str) -> str:
    """A name as it is shown: one line of bounded length, without characters that control a terminal."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
