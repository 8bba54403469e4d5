"""Whether arrays fit into memory, asked before they are made: XLA ends the process where they do not."""

import os
from typing import Any

from engram._checks import InputError, check_count

_MOST = 2**31 - 1  # XLA counts the entries along an axis in 32 bits


def check_fits(bytes_needed: int, **sizes: int) -> None:
    """Refuse sizes that are not counts, or whose arrays would not fit into memory.

    Args:
        bytes_needed: About how many bytes the arrays of these sizes have.
        sizes: By the names that an error should use.
    """
    for name, size in sizes.items():
        if check_count(name, size) > _MOST:
            raise InputError(f"`{name}` must be at most {_MOST}, got {size}. Choose a smaller one.")
    memory = _memory()
    if bytes_needed > memory:
        named = ", ".join(f"`{name}` = {size}" for name, size in sizes.items())
        raise InputError(
            f"{named} would need about {bytes_needed / 2**30:,.0f} GiB, and this machine has "
            f"{memory / 2**30:.1f} GiB. Choose smaller ones."
        )


def loaded(array: Any) -> Any:
    """An array of xarray's in memory, if it fits; damage to the store that it comes from is reported."""
    check_fits(array.nbytes, **{str(axis): size for axis, size in array.sizes.items()})
    try:
        return array.load()
    except MemoryError:
        raise
    except Exception as error:  # zarr reports damage in many ways
        first_line = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"{array.encoding.get('source', 'the store')} is damaged: `{array.name}` in it cannot be read "
            f"({type(error).__name__}: {first_line}). Run `engram sweep` with its spec again, which computes "
            "what is damaged again."
        ) from None


def check_bytes(what: str, bytes_needed: int, remedy: str = "Use a smaller file.") -> None:
    """Refuse what has more bytes than the machine; `what` it is begins the error, the remedy ends it."""
    if bytes_needed > (memory := _memory()):
        raise InputError(
            f"{what} would need about {bytes_needed / 2**30:,.0f} GiB, and this machine has "
            f"{memory / 2**30:.1f} GiB. {remedy}"
        )


def _memory() -> int:
    """Bytes of memory that the machine has; a guess where the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**36
