"""Where a training begins: weights and sequences, drawn or from a .npz file."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from engram._checks import InputError
from engram._files import written_whole
from engram.problem import one_line, read_npz
from engram.transformer._config import MAX_LENGTH, MAX_TOKENS, Config
from engram.transformer._model import Layer, Model, make_model
from engram.transformer._task import Sequences, bigram_task, count_occurrences

_EMBEDDINGS = {"tok_embeddings": "W_E", "pe": "W_P", "output": "W_U"}
_MATRICES = ("wk1", "wv1", "wo1", "wk2", "wv2", "wo2")


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
    return dataclasses.replace(model, W_P=model.W_P[: sequences.length]), sequences


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
    digest = hashlib.sha256()
    for array in (model.W_E, model.W_P, model.W_U, *(model[name] for name in _MATRICES)):
        digest.update(np.asarray(array).tobytes())
    digest.update(sequences.tokens.tobytes())
    digest.update(sequences.occurrences.astype(np.uint16).tobytes())
    digest.update(np.asarray(sequences.triggers, np.int64).tobytes())
    return digest.hexdigest()


def read_weights(path: str | Path, *, dtype: str, scale_scores: bool) -> Model:
    """The model in a .npz file.

    It has `tok_embeddings` (N, d), `pe` (T, d), `output` (N, d) and `wk1`, `wv1`, `wo1`, `wk2`, `wv2`,
    `wo2` (d, d), each of which acts on columns: the weights of PyTorch's `Linear`.
    """
    arrays = _read(path, (*_EMBEDDINGS, *_MATRICES))
    N, d = (*arrays["tok_embeddings"].shape, 0, 0)[:2]
    shapes = {"tok_embeddings": (N, d), "pe": (*arrays["pe"].shape[:1], d), "output": (N, d)}
    cast = {}
    for name, shape in (shapes | dict.fromkeys(_MATRICES, (d, d))).items():
        array = arrays[name]
        with np.errstate(over="ignore"):
            cast[name] = np.ascontiguousarray(array if array.dtype.kind == "f" else np.nan, dtype)
        if array.shape != shape or not np.isfinite(cast[name]).all():
            must = f"must have shape {shape} and hold real numbers that are finite in {dtype}"
            raise _unfit(path, name, must, array)
    layers = [Layer(*(cast[f"{kind}{k}"] for kind in ("wk", "wv", "wo"))) for k in (1, 2)]
    scale = d**-0.5 if scale_scores else 1.0
    return Model(cast["tok_embeddings"], cast["pe"], cast["output"], *layers, score_scale=scale)


def read_sequences(path: str | Path, num_tokens: int | None = None) -> Sequences | None:
    """The sequences in a .npz file, if it has any: `seq` (S, T + 1), `triggers`, and perhaps `outs`.

    `triggers` are (K,), or (S, K) where they differ; `outs` says how often each trigger has come.
    """
    arrays = _read(path, (), ("seq", "triggers", "outs"))
    if "seq" not in arrays:
        return None
    for name, array in arrays.items():
        if array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0:
            raise _unfit(path, name, "must hold whole numbers from 0 on", array)
    tokens = arrays["seq"]
    N = min(int(tokens.max()) + 1 if num_tokens is None else num_tokens, MAX_TOKENS)
    if tokens.ndim != 2 or not 3 <= tokens.shape[1] <= MAX_LENGTH + 1:
        must = f"must have shape (S, T + 1) with T from 2 to {MAX_LENGTH}"
        raise _unfit(path, "seq", must, tokens)
    if tokens.max() >= N:
        raise _unfit(path, "seq", f"must hold tokens from 0 to {N - 1}", tokens)
    if "triggers" not in arrays:
        raise InputError(f"{path} lacks triggers. It must have seq and triggers, as arrays.")
    triggers, S = arrays["triggers"], len(tokens)
    if triggers.ndim not in (1, 2) or triggers.shape[:-1] not in ((), (S,)) or triggers.max() >= N:
        must = f"must be tokens below {N} of shape (K,) or ({S}, K)"
        raise _unfit(path, "triggers", must, triggers)
    triggers = np.broadcast_to(triggers, (S, triggers.shape[-1])).astype(int)
    tokens = tokens.astype(np.uint8)
    counted = arrays.get("outs")
    if counted is None:
        counted = count_occurrences(tokens, triggers)
    if counted.shape != tokens.shape or counted.max() > MAX_LENGTH + 1:
        must = f"must have the shape of seq, {tokens.shape}, and count at most to {MAX_LENGTH + 1}"
        raise _unfit(path, "outs", must, counted)
    return Sequences(tokens, counted.astype(np.uint16), triggers, N)


def _unfit(path: str | Path, name: str, must: str, array: np.ndarray) -> InputError:
    met = f"{array.dtype} of shape {array.shape}"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        met = "numbers that are not finite"
    elif array.size and array.dtype.kind in "iuf":
        met += f", from {array.min():.6g} to {array.max():.6g}"
    return InputError(f"`{name}` in {path} {must}, got {met}. Write it again.")


def write_start(path: Path, model: Model, sequences: Sequences) -> None:
    """Write a model and its sequences, whole or not at all."""
    arrays: Any = {name: getattr(model, field) for name, field in _EMBEDDINGS.items()}
    arrays |= {name: model[name] for name in _MATRICES}
    triggers = sequences.triggers
    if (triggers == triggers[0]).all():
        triggers = triggers[0]
    arrays |= {"seq": sequences.tokens, "outs": sequences.occurrences, "triggers": triggers}
    with written_whole(path) as partial:
        np.savez_compressed(partial, **arrays)


def _read(
    path: str | Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """The named arrays of a file; of the optional ones, those that it has."""
    try:
        members = read_npz(path, (*needed, *optional))
    except FileNotFoundError:
        raise InputError(f"{path} is not there. Check the name.") from None
    except Exception as error:  # of what type depends on where a file is damaged
        raise InputError(
            f"{path} cannot be read as .npz ({one_line(error)}). Name another file."
        ) from None
    arrays = {name: array for name, array in members.items() if isinstance(array, np.ndarray)}
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise InputError(
            f"{path} lacks {', '.join(missing)}. It must have {', '.join(needed)}, as arrays."
        )
    return arrays
