"""Where a training begins: weights and sequences, drawn or from files."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np

from engram._checks import InputError
from engram.transformer._config import Config
from engram.transformer._model import Model, make_model
from engram.transformer._start import read_sequences, read_weights
from engram.transformer._task import Sequences, bigram_task


def prepare(
    config: Config, start: str | Path | None = None, data: str | Path | None = None
) -> tuple[Model, Sequences]:
    """The model and the sequences of a training.

    Args:
        config: What is not in a file is drawn by it.
        start: A .npz of weights, and perhaps of sequences.
        data: A .npz of sequences, instead of those of `start`.
    """
    model = sequences = None
    if start is not None:
        model = read_weights(start, dtype=config.dtype, scale_scores=config.scale_scores)
    source = start if data is None else data
    if source is not None:
        sequences = read_sequences(source, None if model is None else len(model.W_E))
        if sequences is None and data is not None:
            raise InputError(f"{data} has no `seq`. Name a file that holds sequences.")
    if sequences is None:
        sequences = bigram_task(config)
    if model is None:
        long = dataclasses.replace(config, length=sequences.length)
        model = make_model(long, sequences.num_tokens)
    elif config.zero_start:
        model = model.replace({name: np.zeros_like(model[name]) for name in config.matrices})
    _check_fit(model, sequences)
    return dataclasses.replace(model, W_P=model.W_P[: sequences.length]), sequences


def _check_fit(model: Model, sequences: Sequences) -> None:
    N, T = len(model.W_E), len(model.W_P)
    if sequences.num_tokens > N or sequences.length > T:
        raise InputError(
            f"`start` is for {N} tokens and {T} positions, got sequences of {sequences.num_tokens} tokens "
            f"and {sequences.length} positions. Give sequences that fit, with `data`, or a shorter length."
        )
    if not sequences.in_loss.any():
        raise InputError(
            f"`length` must leave room for a trigger to come twice, got {sequences.length}, and none "
            "does. Choose a longer one, or more triggers."
        )


def sized(config: Config, model: Model, sequences: Sequences) -> Config:
    """The config with the sizes that files have given."""
    return dataclasses.replace(
        config,
        dim=model.dim,
        sequences=len(sequences.tokens),
        length=sequences.length,
        num_triggers=sequences.triggers.shape[1],
    )


def fingerprint(model: Model, sequences: Sequences) -> str:
    """What tells one start from another: a hash of all weights and tokens."""
    found = hashlib.sha256()
    names = ("wk1", "wv1", "wo1", "wk2", "wv2", "wo2")
    for array in (model.W_E, model.W_P, model.W_U, *(model[name] for name in names)):
        found.update(np.asarray(array).tobytes())
    found.update(sequences.tokens.tobytes())
    found.update(sequences.occurrences.astype(np.uint16).tobytes())
    found.update(np.asarray(sequences.triggers, np.int64).tobytes())
    return found.hexdigest()
