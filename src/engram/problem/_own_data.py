"""Problems from data of one's own: a text, or a table of counts; with embeddings drawn, or one's own."""

import csv
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from engram._checks import InputError, check_choice, check_count, read_array
from engram._memory_limits import check_fits
from engram._precision import in_double
from engram._types import ArrayLike
from engram.problem._bigrams import shakespeare
from engram.problem._embeddings import as_key, sphere_rows
from engram.problem._frequencies import read_counts
from engram.problem._problem import NamesLike, Problem
from engram.problem._text import Followers, Unit, by_frequency, count_followers
from engram.problem._vectors import Vectors

Targets = Literal["next", "conditional"]


@in_double
def from_text(
    text: str | os.PathLike[str] | None = None,
    dim: int | None = None,
    *,
    tokens: Unit = "characters",
    top: int | None = None,
    targets: Targets = "next",
    key: PRNGKeyArray | int = 0,
    inputs: ArrayLike | Vectors | None = None,
    outputs: ArrayLike | Vectors | None = None,
) -> Problem:
    """The tokens of a text, each asking for the one that follows: heavy-tailed, as language is.

    Frequencies are those of the text, the most frequent token first; the tokens' names go with the problem.

    Args:
        text: A text, or a file that holds one (UTF-8); by default characters of ten plays of Shakespeare.
        dim: d of embeddings that are drawn, uniformly on the unit sphere.
        tokens: "characters", "words" (punctuation marks are words of their own) or "bytes".
        top: How many tokens to keep, the most frequent ones; pairs with others are left out. By default all.
        targets: "next" asks for the token that follows most often; "conditional" has noisy targets, p(y|x) as
            counted, with that one as clean label: a table of N x N numbers.
        key: A JAX key or a seed, for embeddings that are drawn.
        inputs: Embeddings of your own instead: what `read_vectors` gives (tokens without a vector are left
            out, as those beyond `top` are), or one row per token in the order of frequency.
        outputs: The same for outputs; by default as `inputs` where those are given.
    """
    named = [
        set(each.names) for each in (inputs, outputs) if isinstance(each, Vectors) and each.names
    ]
    known = set.intersection(*named) if named else None
    pairs = _plays(top, known) if text is None else count_followers(text, tokens, top, known)
    E, U = _embeddings(dim, pairs.tokens, pairs.tokens, key, inputs, outputs)
    check_choice("targets", targets, ("next", "conditional"))
    probs, _ = read_counts(pairs.totals, len(pairs.tokens), len(pairs.tokens))
    table = pairs.table() if targets == "conditional" else None
    return _pose(E, U, probs, table, pairs.likeliest(), pairs.tokens, pairs.tokens)


def from_text_file(
    path: str | None = None,
    dim: int = 64,
    *,
    unit: Unit = "characters",
    top: int | None = None,
    follow: Targets = "next",
    key: PRNGKeyArray | int = 0,
) -> Problem:
    """The same of a file, with the names that specs use."""
    text = None if path is None else Path(path)
    return from_text(text, dim, tokens=unit, top=top, targets=follow, key=key)


@in_double
def from_counts(
    counts: ArrayLike | str | os.PathLike[str],
    dim: int | None = None,
    *,
    targets: Targets = "next",
    names: NamesLike | None = None,
    class_names: NamesLike | None = None,
    key: PRNGKeyArray | int = 0,
    inputs: ArrayLike | Vectors | None = None,
    outputs: ArrayLike | Vectors | None = None,
) -> Problem:
    """The memory that a table asks for: how often class y came with token x.

    Args:
        counts: A table of shape (N, M), or a CSV file with class names in its first line and token names in
            its first column; or N numbers, how often each token came, each of them its own class.
        dim: d of embeddings that are drawn, uniformly on the unit sphere.
        targets: "next" asks for the class that came most often (ties to the first); "conditional" has noisy
            targets, p(y|x) as counted, with that one as clean label.
        names: What the tokens are called, if not by the file.
        class_names: What the classes are called, if not by the file.
        key: A JAX key or a seed, for embeddings that are drawn.
        inputs: Embeddings of the tokens, N rows, instead of drawn ones.
        outputs: Embeddings of the classes, M rows; where N = M by default as `inputs`.
    """
    if isinstance(counts, str | os.PathLike):
        counts, *found = _read_csv(Path(counts))
        names, class_names = (
            there if given is None else given
            for given, there in zip((names, class_names), found, strict=True)
        )
    table = read_array("counts", counts)
    if table.ndim not in (1, 2) or not table.size:
        raise InputError(f"`counts` must have shape (N,) or (N, M), got {table.shape}.")
    is_table = table.ndim == 2
    N, M = table.shape if is_table else (len(table), len(table))
    probs, _ = read_counts(table, N, M)
    if not is_table and targets == "conditional":
        raise InputError("`targets` = 'conditional' needs `counts` of shape (N, M). Use 'next'.")
    check_choice("targets", targets, ("next", "conditional"))
    labels = table.argmax(axis=1) if is_table else np.arange(N)
    class_names = names if class_names is None and not is_table else class_names
    called = (
        range(N) if names is None else names,
        range(M) if class_names is None else class_names,
    )
    E, U = _embeddings(dim, *called, key, inputs, outputs)
    kept = table if targets == "conditional" else None
    return _pose(E, U, probs, kept, labels, names, class_names)


def _pose(
    E: Any, U: Any, probs: Any, table: Any, labels: Any, names: Any, class_names: Any
) -> Problem:
    called = {"names": names, "class_names": class_names}
    if table is None:
        return Problem(E, U, probs, labels, **called)
    # Nothing is known of what follows a token that never came before another: the law of all.
    law = np.where(probs[:, None] > 0, table, table.sum(axis=0))
    return Problem(E, U, probs, law / law.sum(axis=1, keepdims=True), clean_labels=labels, **called)


def _plays(top: int | None, known: Collection[str] | None) -> Followers:
    law = shakespeare()
    order = law.most_frequent(len(law.tokens))
    order = [k for k in order if known is None or law.tokens[k] in known]
    order = order[: None if top is None else check_count("top", top, least=2)]
    counts = law.counts[np.ix_(order, order)]
    first, second = counts.nonzero()
    return by_frequency([law.tokens[k] for k in order], first, second, counts[first, second])


def _embeddings(
    dim: int | None, names: Any, class_names: Any, key: Any, inputs: Any, outputs: Any
) -> tuple[Any, Any]:
    """Embeddings as given, or drawn."""
    N, M = len(names), len(class_names)
    if inputs is None and outputs is None:
        if dim is None:
            raise InputError(
                "`dim` is missing: give the dimension d of the embeddings, or `inputs`."
            )
        check_fits(32 * (N + M) * check_count("dim", dim), num_tokens=N, num_classes=M, dim=dim)
        one, other = jax.random.split(as_key(key), 2)
        return sphere_rows(one, N, dim), sphere_rows(other, M, dim)
    if dim is not None:
        raise InputError(
            f"`dim` is that of embeddings that are drawn, got {dim} and embeddings too."
        )
    if inputs is None or (outputs is None and N != M):
        missing = "inputs" if inputs is None else "outputs"
        raise InputError(f"`{missing}` is missing: give embeddings of tokens and of classes.")
    return _rows("inputs", inputs, names), _rows(
        "outputs", inputs if outputs is None else outputs, class_names
    )


def _rows(name: str, given: Any, names: Any) -> np.ndarray:
    rows = given.of(names) if isinstance(given, Vectors) else read_array(name, given)
    if rows.ndim != 2 or len(rows) != len(names):
        raise InputError(
            f"`{name}` must have one row for each of the {len(names)}, got shape {rows.shape}. They are in "
            "the order of `names` of the problem with drawn embeddings."
        )
    return rows


def _read_csv(path: Path) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...] | None]:
    """Counts, names of tokens and of classes: a table with a header, or lines `name,count`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row]
        values = np.array([[float(cell or 0) for cell in row[1:]] for row in rows])
        if values.ndim != 2 or values.shape[1] != len(header) - 1:
            raise ValueError("lines of different length")
    except OSError as error:
        raise InputError(f"`counts` cannot be read: {str(path)!r} ({error.strerror}).") from None
    except ValueError as error:
        raise InputError(
            f"`counts` must be a CSV file: class names in its first line, then a token's name and its "
            f"counts in each line, got {str(path)!r} ({error})."
        ) from None
    names = tuple(row[0] for row in rows)
    return (values, names, tuple(header[1:])) if len(header) > 2 else (values[:, 0], names, None)
