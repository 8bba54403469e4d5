"""The bigram task: sequences in which each trigger is followed by an output of its own."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Integer

from engram._checks import InputError
from engram._types import Array
from engram.problem import Bigrams, count_bigrams, shakespeare
from engram.transformer._config import Config

_PIECE = 2048  # sequences drawn at a time: what a step needs stays in the cache


class Sequences(NamedTuple):
    """Data: tokens, and how often each trigger has come.

    Args:
        tokens: Shape (S, T + 1); read all but the last, predict all but the first.
        occurrences: Where a token is a trigger, how often it has come in its sequence so far, this
            time included; zero elsewhere. Shape (S, T + 1).
        triggers: The triggers of each sequence, shape (S, K).
        num_tokens: Size N of the vocabulary.
    """

    tokens: Integer[Array, "S T1"]
    occurrences: Integer[Array, "S T1"]
    triggers: Integer[Array, "S K"]
    num_tokens: int

    @property
    def inputs(self) -> Integer[Array, "S T"]:
        """What is read."""
        return self.tokens[:, :-1]

    @property
    def targets(self) -> Integer[Array, "S T"]:
        """What comes next."""
        return self.tokens[:, 1:]

    @property
    def in_loss(self) -> Bool[Array, "S T"]:
        """Where the next token can be known from the context: at a trigger that has come before."""
        return self.occurrences[:, :-1] >= 2

    @property
    def length(self) -> int:
        """Positions T that are read."""
        return self.tokens.shape[1] - 1

    def __repr__(self) -> str:
        sizes = f"num={len(self.tokens)}, length={self.length}, num_tokens={self.num_tokens}"
        return f"Sequences({sizes})"


def law_of(config: Config) -> Bigrams:
    """The law that sequences are drawn from."""
    law = shakespeare() if config.corpus is None else count_bigrams(config.corpus)
    return law if config.vocabulary is None else law.keep(config.vocabulary)


def bigram_task(config: Config, *, seed: int | None = None) -> Sequences:
    r"""Draw sequences of the bigram task.

    The first token comes from the unigram law. After a trigger $q$ comes its output $o_q$, drawn once
    for each sequence; after any other token, a draw from the bigram law.

    Args:
        config: Sizes and laws.
        seed: Of these sequences, by default the config's.

    Paper: sub:appx_transformer.
    """
    law = law_of(config)
    come = int((law.unigram > 0).sum())
    if config.num_triggers > come:
        raise InputError(
            f"`num_triggers` must be at most {come}, the tokens that come, got "
            f"{config.num_triggers}. Choose fewer."
        )
    rng = np.random.default_rng([config.seed if seed is None else seed, 1])
    sizes = [min(_PIECE, config.sequences - k) for k in range(0, config.sequences, _PIECE)]
    tokens, triggers = zip(*(_draw(rng, config, law, size) for size in sizes), strict=True)
    tokens, triggers = np.concatenate(tokens), np.concatenate(triggers)
    return Sequences(tokens, count_occurrences(tokens, triggers), triggers, len(law.tokens))


def count_occurrences(tokens: np.ndarray, triggers: np.ndarray) -> Integer[np.ndarray, "S T1"]:
    """How often each trigger has come so far; zero at other tokens."""
    counts = np.zeros(tokens.shape, np.uint16)
    for trigger in triggers.T:
        here = tokens == trigger[:, None]
        counts[here] = np.cumsum(here, axis=1, dtype=np.uint16)[here]
    return counts


def _draw(rng: np.random.Generator, config: Config, law: Bigrams, S: int):
    N = len(law.tokens)
    triggers = _draw_triggers(rng, config, law, S)
    follow = Alias(law.transitions)
    if config.outputs == "uniform":
        outputs = rng.integers(N, size=triggers.shape)
    else:
        outputs = follow(triggers, rng.random(triggers.shape))
    # What must follow each token in each sequence, or -1 where the bigram law decides.
    forced = np.full((S, N), -1, np.int64)
    np.put_along_axis(forced, triggers, outputs, axis=1)
    forced, rows = forced.ravel(), N * np.arange(S)
    tokens = np.empty((config.length + 1, S), np.uint8)
    tokens[0] = z = Alias(law.unigram[None])(np.zeros(S, int), rng.random(S))
    for t in range(1, config.length + 1):
        output = forced.take(rows + z)
        tokens[t] = z = np.where(output >= 0, output, follow(z, rng.random(S)))
    return np.ascontiguousarray(tokens.T), triggers


def _draw_triggers(rng, config: Config, law: Bigrams, S: int) -> Integer[np.ndarray, "S K"]:
    K = config.num_triggers
    if config.triggers == "frequent":
        return np.tile(law.most_frequent(K), (S, 1))
    # Exponential races: the K first of clocks with rates p are K draws without replacement.
    with np.errstate(divide="ignore"):
        clocks = rng.exponential(size=(S, len(law.tokens))) / law.unigram
    return np.argsort(clocks, axis=1)[:, :K]


class Alias:
    """Draws from the rows of a table of probabilities, each by one look-up (Walker's alias method).

    Each of N equal boxes of a row holds its own token up to a mark, and one other above it.
    """

    def __init__(self, probs: np.ndarray):
        rows, N = probs.shape
        self._num = N
        self._marks = np.ones((rows, N))
        self._others = np.tile(np.arange(N), (rows, 1))
        for row in range(rows):
            left = N * probs[row] / probs[row].sum()
            poor = [k for k in range(N) if left[k] < 1]
            rich = [k for k in range(N) if left[k] >= 1]
            while poor and rich:
                k, donor = poor.pop(), rich[-1]
                self._marks[row, k], self._others[row, k] = left[k], donor
                left[donor] -= 1 - left[k]
                if left[donor] < 1:
                    poor.append(rich.pop())
            for k in poor:  # full but for rounding; a token that never comes keeps out
                if probs[row, k] == 0:
                    self._marks[row, k], self._others[row, k] = 0, int(np.argmax(probs[row]))
        self._marks, self._others = self._marks.ravel(), self._others.ravel().astype(np.int16)

    def __call__(self, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
        within = draws * self._num
        box = within.astype(np.int64)
        place = rows * self._num + box
        is_own = within - box < self._marks.take(place)
        return np.where(is_own, box, self._others.take(place))
