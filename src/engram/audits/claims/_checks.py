"""A claim of the paper: what computes is Python, its words are in the text file beside the module."""

import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import ModuleType
from typing import Any, get_args

from engram._checks import InputError
from engram.audits._certificate import Certificate
from engram.audits._claim import Amendment, Check, Claim, Curves, Verdict


@dataclass(frozen=True)
class Checks:
    """What computes of a claim; the words of `C15 = Checks(...)` are under `[C15]`.

    Args:
        printed: Checks the statement as printed. None if it cannot be tested.
        corrected: Checks what is true instead, the `[C15.amendment]`.
        certificates: Comparisons in ball arithmetic, computed again each time.
        curves: What to draw.
    """

    printed: Check | None
    corrected: Check | None = None
    certificates: Callable[[], Sequence[Certificate]] | None = None
    curves: Callable[[], Curves] | None = None


def claims_of(part: ModuleType) -> list[Claim]:
    """The claims of a module such as `model`, with the words of `model.toml`, in the order of that file."""
    file = resources.files("engram.audits.claims") / f"{part.__name__.rpartition('.')[2]}.toml"
    checks = {name: value for name, value in vars(part).items() if isinstance(value, Checks)}
    return join(checks, file.read_text(encoding="utf-8"), file.name)


def join(checks: Mapping[str, Checks], text: str, file: str) -> list[Claim]:
    """Checks and words put together by number; neither may be without the other."""
    try:
        words = _unwrap(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"`{file}` must be TOML, got: {error}.") from error
    _check_names(f"`{file}`", words, checks)
    return [_claim(name, checks[name], words[name], f"[{name}] in `{file}`") for name in words]


def _unwrap(words: Any) -> Any:
    """A line break within a text is a space."""
    if isinstance(words, dict):
        return {name: _unwrap(text) for name, text in words.items()}
    return " ".join(words.split())


def _claim(name: str, checks: Checks, words: dict[str, Any], place: str) -> Claim:
    needed = ["title", "label", "verdict", "statement"]
    needed += ["amendment"] if checks.corrected else []
    _check_names(place, words, needed, ["place", "hypotheses", "why"])
    if words["verdict"] not in get_args(Verdict):
        known = ", ".join(get_args(Verdict))
        raise InputError(f"{place}: `verdict` must be one of {known}, got {words['verdict']}.")
    amendment = None
    if checks.corrected is not None:
        corrected = words.pop("amendment")
        _check_names(f"`amendment` of {place}", corrected, ["statement"], ["proof"])
        amendment = Amendment(check=checks.corrected, **corrected)
    code = {"certificates": checks.certificates, "curves": checks.curves}
    return Claim(id=name, printed=checks.printed, amendment=amendment, **code, **words)


def _check_names(
    place: str, given: Collection[str], needed: Collection[str], optional: Collection[str] = ()
) -> None:
    missing = [name for name in needed if name not in given]
    if missing:
        raise InputError(
            f"{place} must have {', '.join(missing)}, as its checks do. Add the words."
        )
    unknown = [name for name in given if name not in {*needed, *optional}]
    if unknown:
        names = ", ".join(unknown)
        raise InputError(f"{place} must not have {names}, without checks. Delete or correct it.")
