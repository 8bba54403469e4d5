"""Lists of tables among the settings of a study: each entry is checked before anything is computed."""

from collections.abc import Collection, Mapping
from typing import Any

from engram._checks import InputError


def check_rows(
    setting: str, rows: Any, known: Collection[str], needed: Collection[str] = ()
) -> None:
    """Refuse an entry that is not a table, has an unknown key, or chooses a part without `kind`."""
    for index, row in enumerate(rows):
        where = f"{setting}.{index}"
        if not isinstance(row, Mapping):
            raise InputError(f"{where}: must be a table with {', '.join(known)}, got {row!r}.")
        if unknown := sorted(set(row) - set(known)):
            raise InputError(f"{where}: unknown {unknown[0]!r}. Its keys are {', '.join(known)}.")
        if missing := [key for key in needed if key not in row]:
            raise InputError(f"{where}: must have `{missing[0]}`. Add it.")
        for part in ("system", "dynamics"):
            chosen = row.get(part, {"kind": ""})
            if not isinstance(chosen, Mapping) or "kind" not in chosen:
                raise InputError(f"{where}.{part}: must be a table with `kind`, got {chosen!r}.")
