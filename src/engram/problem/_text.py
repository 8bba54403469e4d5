"""Counts of which token follows which, from a text that is read piece by piece."""

import array
import codecs
import dataclasses
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Integer

from engram._checks import InputError, check_choice, check_count
from engram._memory_limits import check_fits

Unit = Literal["characters", "words", "bytes"]
_PIECE = 2**20  # bytes or characters at a time
_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_LONGEST = 2**12  # of a name of a file


@dataclasses.dataclass(frozen=True, eq=False)
class Followers:
    """How often which token follows which: only pairs that occur, the most frequent token first.

    Args:
        tokens: What the tokens are called.
        first: The token before, of each pair.
        second: The one that follows it.
        counts: How often.
    """

    tokens: tuple[str, ...]
    first: Integer[np.ndarray, " pairs"]
    second: Integer[np.ndarray, " pairs"]
    counts: Integer[np.ndarray, " pairs"]

    @property
    def totals(self) -> Integer[np.ndarray, " N"]:
        """How often each token comes before another."""
        return np.bincount(self.first, self.counts, len(self.tokens)).astype(np.int64)

    def table(self) -> Integer[np.ndarray, "N N"]:
        """All pairs, with zeros; the token before is the row."""
        N = len(self.tokens)
        check_fits(3 * 8 * N * N, num_tokens=N, num_classes=N)
        table = np.zeros((N, N), np.int64)
        table[self.first, self.second] = self.counts
        return table

    def likeliest(self) -> Integer[np.ndarray, " N"]:
        """What follows each token most often, ties to the more frequent; the most frequent after none."""
        labels = np.zeros(len(self.tokens), np.int64)
        order = np.lexsort((-self.second, self.counts))  # the largest count comes last, and is kept
        labels[self.first[order]] = self.second[order]
        return labels


def count_followers(
    text: str | os.PathLike[str],
    unit: Unit = "characters",
    top: int | None = None,
    known: Collection[str] | None = None,
) -> Followers:
    """Count neighbours in a text, or a file with one: of the `top` most frequent tokens, or those `known`."""
    check_choice("tokens", unit, ("characters", "words", "bytes"))
    numbered: dict[str, int] = {}
    stream = array.array("q")
    for piece in _tokens(text, unit):
        stream.extend(numbered.setdefault(token, len(numbered)) for token in piece)
    if len(numbered) < 2:
        raise InputError(
            f"`text` must have at least 2 different {unit}, got {len(numbered)}. Give a longer one."
        )
    if top is not None and check_count("top", top, least=2) > len(numbered):
        raise InputError(
            f"`top` must be at most {len(numbered)}, the different {unit} of the text, got {top}. "
            "Choose a smaller one, or leave it out."
        )
    numbers, names = np.frombuffer(stream, np.int64), [*numbered]
    order = np.argsort(-np.bincount(numbers), kind="stable")
    order = order[[known is None or names[k] in known for k in order]][:top]
    place = np.full(len(names), -1)
    place[order] = np.arange(len(order))
    pairs = np.stack([place[numbers[:-1]], place[numbers[1:]]])
    pairs = pairs[:, (pairs >= 0).all(axis=0)]
    if not pairs.size:
        raise InputError(
            f"`top` = {top} or the names of vectors leave no two {unit} that follow each other. Keep more."
        )
    codes, counts = np.unique(pairs[0] * len(order) + pairs[1], return_counts=True)
    return by_frequency([names[k] for k in order], *np.divmod(codes, len(order)), counts)


def by_frequency(names: Sequence[str], first: Any, second: Any, counts: Any) -> Followers:
    """The same pairs, the tokens in the order of how often another one follows them."""
    order = np.argsort(-np.bincount(first, counts, len(names)), kind="stable")
    place = np.argsort(order)
    return Followers(tuple(names[int(k)] for k in order), place[first], place[second], counts)


def _tokens(text: str | os.PathLike[str], unit: Unit) -> Iterator[Iterable[str]]:
    if unit == "bytes":
        shown = [chr(b) if 0x20 < b < 0x7F else f"\\x{b:02x}" for b in range(256)]
        for piece in _bytes(text):
            yield map(shown.__getitem__, piece)
        return
    decoder, rest = codecs.getincrementaldecoder("utf-8")(), ""
    try:
        for piece in _bytes(text):
            characters = decoder.decode(piece)
            if unit == "characters":
                yield characters
                continue
            whole, rest = _cut(rest + characters)
            yield _WORD.findall(whole)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise InputError(
            f"`text` must be in UTF-8, got {str(text)!r} ({error.reason}). Convert it, or use "
            "tokens='bytes'."
        ) from None
    yield _WORD.findall(rest)


def _cut(text: str) -> tuple[str, str]:
    """Whole words, and what may go on."""
    end = max(text.rfind(" "), text.rfind("\n")) + 1
    return text[:end], text[end:]


def _bytes(text: str | os.PathLike[str]) -> Iterator[bytes]:
    path = _path_of(text)
    if path is None:
        whole = str(text)
        for start in range(0, len(whole), _PIECE):
            yield whole[start : start + _PIECE].encode()
        return
    try:
        if not path.is_file():  # a device may never end
            raise OSError("not a file")
        with path.open("rb") as file:
            yield from iter(lambda: file.read(_PIECE), b"")
    except OSError as error:
        raise InputError(
            f"`text` cannot be read: {str(path)!r} ({error.strerror or error}). Name a text file."
        ) from None


def _path_of(text: str | os.PathLike[str]) -> Path | None:
    """The file that is meant; a string without a space that looks like a path is one, there or not."""
    if not isinstance(text, str):
        return Path(text)
    if len(text) > _LONGEST or "\n" in text or "\0" in text:
        return None
    path = Path(text)
    is_like_one = " " not in text and (path.suffix or os.sep in text)
    return path if is_like_one or os.path.exists(text) else None
