"""A claim: what computes is Python, its words are in the text file beside the module."""

import importlib
import tomllib
from collections.abc import Collection, Mapping
from importlib import resources
from types import ModuleType
from typing import Any, get_args

from engram._checks import InputError
from engram.audits._balls import precision
from engram.audits._claim import Amendment, Claim, Verdict

_WORDS = ["place", "hypotheses", "why", "proof", "follows_from"]


class Checks:
    """What computes of a claim: `class C15(Checks)`, whose words are under `[C15]`.

    A subclass defines what there is of `printed(self, seed)`, which checks the statement as printed;
    `corrected(self, seed)`, which checks what is true instead, the `[C15.amendment]`; `certificates(self)`,
    comparisons in ball arithmetic, computed again each time, with 60 digits; `curves(self)`, what to draw.
    """


def claims_in(section: str) -> list[Claim]:
    """The claims of a folder such as `two_classes`, in the order of its files' names."""
    package = f"engram.audits.claims.{section}"
    files = {file.name for file in resources.files(package).iterdir()}
    modules = {name[:-3] for name in files if name.endswith(".py") and not name.startswith("_")}
    texts = {name[:-5] for name in files if name.endswith(".toml")}
    for name in sorted(modules ^ texts):
        missing = f"{name}.toml with its words" if name in modules else f"{name}.py with its checks"
        raise InputError(f"`{section}` must have {missing}. Add it.")
    parts = [importlib.import_module(f"{package}.{name}") for name in sorted(modules)]
    return [claim for part in parts for claim in claims_of(part)]


def claims_of(part: ModuleType) -> list[Claim]:
    """The claims of a module, with the words of the text file beside it, in the order of that file."""
    package, _, name = part.__name__.rpartition(".")
    file = resources.files(package) / f"{name}.toml"
    classes = [value for value in vars(part).values() if isinstance(value, type)]
    own = [cls for cls in classes if Checks in cls.__mro__[1:] and cls.__module__ == part.__name__]
    checks = {cls.__name__: cls() for cls in own}
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
    code = {part: getattr(checks, part, None) for part in ("printed", "certificates", "curves")}
    corrected = getattr(checks, "corrected", None)
    needed = ["title", "label", "verdict", "statement", *["amendment"] * bool(corrected)]
    _check_names(place, words, needed, _WORDS)
    if words["verdict"] not in get_args(Verdict):
        known = ", ".join(get_args(Verdict))
        raise InputError(f"{place}: `verdict` must be one of {known}, got {words['verdict']}.")
    if corrected:
        _check_names(f"`amendment` of {place}", words["amendment"], ["statement"], ["proof"])
        words["amendment"] = Amendment(check=corrected, **words["amendment"])
    if code["certificates"]:
        code["certificates"] = precision()(code["certificates"])
    return Claim(id=name, **code, **words)


def _check_names(
    place: str, given: Collection[str], needed: Collection[str], optional: Collection[str] = ()
) -> None:
    missing = ", ".join(name for name in needed if name not in given)
    if missing:
        raise InputError(f"{place} must have {missing}, as its checks do. Add the words.")
    unknown = ", ".join(name for name in given if name not in {*needed, *optional})
    if unknown:
        raise InputError(f"{place} must not have {unknown}, without checks. Delete or correct it.")
