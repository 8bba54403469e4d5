"""The built-in studies, as literals: what each asks, and its settings."""

from typing import Any

from engram.registry._entries import Entry
from engram.registry._fields import Field


def _setting(help: str, type: Any, default: Any, **limits: Any) -> Field:
    """A setting of a study, which stays a plain number."""
    return Field(help, type=type, default=default, static=True, **limits)


STUDIES: list[Entry] = []
