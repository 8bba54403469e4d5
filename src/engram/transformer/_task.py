"""The bigram task: sequences in which each trigger is followed by an output of its own."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Integer

from engram._checks import InputError
from engram._types import Array
from engram.transformer._bigrams import Bigrams, count_bigrams, shakespeare
from engram.transformer._config import Config

_PIECE = 4096  # sequences drawn at a time


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


def law_of(config: Config) -> Bigrams:
    """The bigram law that a config names."""
    law = shakespeare() if config.corpus is None else count_bigrams(config.corpus)
    return law if config.vocabulary is None else law.keep(config.vocabulary)


def bigram_task(config: Config, *, seed: Any = None) -> Sequences:
    r"""Draw sequences of the bigram task.

    The first token comes from the unigram law. After a trigger $q$ comes its output $o_q$, drawn once
    for each sequence; after any other token, a draw from the bigram law.

    Args:
        config: Sizes and laws.
        seed: Of these sequences, by default the config's.

    Paper: sub:appx_transformer.
    """
    law = law_of(config)
    _check_fits(config, law)
    rng = np.random.default_rng([config.seed if seed is None else seed, 1])
    sizes = [min(_PIECE, config.sequences - k) for k in range(0, config.sequences, _PIECE)]
    tokens, triggers = zip(*(_draw(rng, config, law, size) for size in sizes), strict=True)
    tokens, triggers = np.concatenate(tokens), np.concatenate(triggers)
    return Sequences(tokens, count_occurrences(tokens, triggers), triggers, len(law.tokens))


def count_occurrences(tokens: np.ndarray, triggers: np.ndarray) -> Integer[np.ndarray, "S T1"]:
    """How often each trigger has come so far; zero at other tokens."""
    found = np.zeros(tokens.shape, np.uint16)
    for trigger in triggers.T:
        here = tokens == trigger[:, None]
        found[here] = np.cumsum(here, axis=1, dtype=np.uint16)[here]
    return found


def _draw(rng: np.random.Generator, config: Config, law: Bigrams, S: int):
    N = len(law.tokens)
    triggers = _draw_triggers(rng, config, law, S)
    follow = Inverse(law.transitions)
    if config.outputs == "uniform":
        outputs = rng.integers(N, size=triggers.shape)
    else:
        outputs = follow(triggers, rng.random(triggers.shape))
    # What must follow each token in each sequence, or -1 where the bigram law decides.
    forced = np.full((S, N), -1, np.int16)
    np.put_along_axis(forced, triggers, outputs.astype(np.int16), axis=1)
    draws = rng.random((config.length + 1, S))
    tokens = np.empty((config.length + 1, S), np.uint8)
    rows = np.arange(S)
    z = Inverse(law.unigram[None])(np.zeros(S, int), draws[0])
    tokens[0] = z
    for t in range(1, config.length + 1):
        told = forced[rows, z]
        z = np.where(told >= 0, told, follow(z, draws[t]))
        tokens[t] = z
    return np.ascontiguousarray(tokens.T), triggers


def _draw_triggers(rng, config: Config, law: Bigrams, S: int) -> Integer[np.ndarray, "S K"]:
    K = config.num_triggers
    if config.triggers == "frequent":
        return np.tile(law.most_frequent(K), (S, 1))
    # Exponential races: the K first of clocks with rates p are K draws without replacement.
    with np.errstate(divide="ignore"):
        clocks = rng.exponential(size=(S, len(law.tokens))) / law.unigram
    return np.argsort(clocks, axis=1)[:, :K]


def _check_fits(config: Config, law: Bigrams) -> None:
    come = int((law.unigram > 0).sum())
    if config.num_triggers > come:
        raise InputError(
            f"`num_triggers` must be at most {come}, the tokens that come, got "
            f"{config.num_triggers}. Choose fewer."
        )


class Inverse:
    """Draws from the rows of a table of probabilities: one sorted search for all draws."""

    def __init__(self, probs: np.ndarray):
        reached = np.cumsum(probs, axis=1)
        reached /= reached[:, -1:]
        self._last = np.array([np.flatnonzero(row)[-1] for row in probs])
        self._num = probs.shape[1]
        # Row k lies in [k, k + 1), so that all rows form one increasing list.
        self._reached = (reached + np.arange(len(probs))[:, None]).ravel()

    def __call__(self, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
        found = np.searchsorted(self._reached, rows + draws, side="right") - rows * self._num
        # Rounding of rows + draws may reach the end of a row; the last token that has room is meant.
        return np.minimum(found, self._last[rows])
