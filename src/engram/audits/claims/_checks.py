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
    """What computes of a claim; `C15 = Checks(...)` finds its words under `[C15]`.

    Args:
        printed: Checks the statement as printed. None if it cannot be tested.
        corrected: Checks what is true instead, the `[C15.amendment]`.
        certificates: Comparisons in ball arithmetic, computed anew each time.
        curves: What to draw.
    """

    printed: Check | None
    corrected: Check | None = None
    certificates: Callable[[], Sequence[Certificate]] | None = None
    curves: Callable[[], Curves] | None = None


def claims_of(part: ModuleType) -> list[Claim]:
    """The claims of a module such as `model`, with the words of `model.toml`, in its order."""
    file = resources.files("engram.audits.claims") / f"{part.__name__.rpartition('.')[2]}.toml"
    try:
        words = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file.name} must be TOML: {error}.") from error
    checks = {name: each for name, each in vars(part).items() if isinstance(each, Checks)}
    return joined(checks, words, file.name)


def joined(checks: Mapping[str, Checks], words: Mapping[str, Any], file: str) -> list[Claim]:
    """Checks and words put together by their names; each must have the other."""
    _check_names(file, words, checks)
    return [_claim(name, checks[name], words[name], f"[{name}] of {file}") for name in words]


def _claim(name: str, checks: Checks, words: Mapping[str, Any], place: str) -> Claim:
    tables = ["amendment"] if checks.corrected else []
    needed = ["title", "label", "verdict", "statement", *tables]
    _check_names(place, words, needed, ["place", "hypotheses", "why"])
    texts = {key: _on_one_line(text) for key, text in words.items() if key != "amendment"}
    if texts["verdict"] not in get_args(Verdict):
        known = ", ".join(get_args(Verdict))
        raise InputError(f"{place}: `verdict` must be one of {known}, got {texts['verdict']}.")
    amendment = None
    if checks.corrected is not None:
        more = words["amendment"]
        _check_names(f"`amendment` in {place}", more, ["statement"], ["proof"])
        proof = _on_one_line(more.get("proof", ""))
        amendment = Amendment(_on_one_line(more["statement"]), checks.corrected, proof)
    return Claim(
        id=name,
        printed=checks.printed,
        amendment=amendment,
        certificates=checks.certificates,
        curves=checks.curves,
        **texts,
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _check_names(
    place: str, found: Collection[str], needed: Collection[str], optional: Collection[str] = ()
) -> None:
    missing = [name for name in needed if name not in found]
    extra = [name for name in found if name not in {*needed, *optional}]
    if missing:
        raise InputError(
            f"{place} must have {', '.join(missing)}, as its checks do. Add the words."
        )
    if extra:
        told = ", ".join(extra)
        raise InputError(f"{place} must not have {told}: there are no checks for it. Delete it.")
