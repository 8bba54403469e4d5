"""The law of characters: bigram counts, shipped or counted from a text."""

import csv
import dataclasses
import functools
import os
from importlib import resources
from pathlib import Path

import numpy as np
from jaxtyping import Float, Integer

from engram._checks import InputError

MAX_TOKENS = 256  # characters of a corpus
_NAMES = {"\\n": "\n", "SPACE": " "}


@dataclasses.dataclass(frozen=True, eq=False)
class Bigrams:
    """How often each token follows each other one; rows are the token before.

    Args:
        tokens: The characters, in the order of the rows.
        counts: Non-negative, shape (N, N).
    """

    tokens: tuple[str, ...]
    counts: Integer[np.ndarray, "N N"]

    def __repr__(self) -> str:
        return f"Bigrams(num_tokens={len(self.tokens)}, num_pairs={self.counts.sum()})"

    @property
    def unigram(self) -> Float[np.ndarray, " N"]:
        """How often each token comes."""
        return self.counts.sum(axis=1) / self.counts.sum()

    @property
    def transitions(self) -> Float[np.ndarray, "N N"]:
        """What follows each token; after one that nothing follows, the unigram law."""
        totals = self.counts.sum(axis=1, keepdims=True)
        return np.where(totals > 0, self.counts / np.maximum(totals, 1), self.unigram)

    def most_frequent(self, num: int) -> Integer[np.ndarray, " num"]:
        """The `num` most frequent tokens, most frequent first; ties to the lower index."""
        return np.argsort(-self.counts.sum(axis=1), kind="stable")[:num]

    def keep(self, num: int) -> "Bigrams":
        """The law among the `num` most frequent tokens."""
        if num > len(self.tokens):
            raise InputError(
                f"`vocabulary` must be at most {len(self.tokens)}, the tokens of the corpus, got {num}. "
                "Choose a smaller one, or a longer corpus."
            )
        kept = np.sort(self.most_frequent(num))
        return Bigrams(tuple(self.tokens[k] for k in kept), self.counts[np.ix_(kept, kept)])


@functools.cache
def shakespeare() -> Bigrams:
    """Character bigrams of ten plays of Shakespeare: 1,299,697 pairs of 64 characters.

    Counted from the public-domain texts that the Open Knowledge Foundation distributes in the Python
    package `shakespeare` 0.6 under CC-BY 2.5.
    """
    text = (resources.files("engram.problem") / "data" / "shakespeare_bigrams.csv").read_text(
        encoding="utf-8"
    )
    header, *rows = csv.reader(text.splitlines())
    tokens = tuple(_NAMES.get(name, name) for name in header[1:])
    return Bigrams(tokens, np.array([[int(n) for n in row[1:]] for row in rows]))


def count_bigrams(path: str | os.PathLike[str]) -> Bigrams:
    """Count the character bigrams of a text file (UTF-8), over at most 256 different characters."""
    try:
        if Path(path).exists() and not Path(path).is_file():  # a device may never end
            raise OSError("not a file")
        text = Path(path).read_text(encoding="utf-8")
    except (
        OSError,
        ValueError,
    ) as error:  # also a name with a null in it, or bytes that are not text
        raise InputError(
            f"`corpus` cannot be read: {str(path)!r} ({error}). Name a text file in UTF-8."
        ) from None
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    characters, indices = np.unique(points, return_inverse=True)
    if len(characters) < 2:
        raise InputError(
            f"`corpus` must have at least 2 different characters, got {len(characters)} in {path}. "
            "Name a longer text."
        )
    if len(characters) > MAX_TOKENS:
        raise InputError(
            f"`corpus` must have at most {MAX_TOKENS} different characters, got {len(characters)} in {path}. "
            "Fold the rare ones into one character first."
        )
    N = len(characters)
    pairs = np.bincount(indices[:-1].astype(np.int64) * N + indices[1:], minlength=N * N)
    return Bigrams(tuple(map(chr, characters)), pairs.reshape(N, N))
