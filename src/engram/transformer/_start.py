"""Weights and sequences in one .npz file, to start from and to hand on."""

from pathlib import Path
from typing import Any

import numpy as np

from engram._checks import InputError
from engram._files import written_whole
from engram.problem._storage import one_line, read_npz
from engram.transformer._config import MAX_LENGTH, MAX_TOKENS
from engram.transformer._model import Layer, Model
from engram.transformer._task import Sequences, count_occurrences

_EMBEDDINGS = {"tok_embeddings": "W_E", "pe": "W_P", "output": "W_U"}
_MATRICES = ("wk1", "wv1", "wo1", "wk2", "wv2", "wo2")


def read_weights(path: str | Path, *, dtype: str, scale_scores: bool) -> Model:
    """The model in a .npz file.

    It has `tok_embeddings` (N, d), `pe` (T, d), `output` (N, d) and `wk1`, `wv1`, `wo1`, `wk2`, `wv2`,
    `wo2` (d, d), each of which acts on columns: the weights of PyTorch's `Linear`.
    """
    arrays = _read(path, (*_EMBEDDINGS, *_MATRICES))
    _require(path, arrays, (*_EMBEDDINGS, *_MATRICES))
    shapes = {name: array.shape for name, array in arrays.items()}
    if any(len(shape) != 2 for shape in shapes.values()):
        name = next(name for name, shape in shapes.items() if len(shape) != 2)
        raise InputError(f"`{name}` in {path} must be a matrix, got shape {shapes[name]}.")
    N, d = shapes["tok_embeddings"]
    wanted = {"output": (N, d), "pe": (shapes["pe"][0], d)} | dict.fromkeys(_MATRICES, (d, d))
    for name, shape in wanted.items():
        if shapes[name] != shape:
            raise InputError(
                f"`{name}` in {path} must have shape {shape}, as tok_embeddings is {N} x {d}, got "
                f"{shapes[name]}."
            )
    cast = {}
    for name, array in arrays.items():
        is_real = array.dtype.kind == "f"
        with np.errstate(over="ignore"):
            cast[name] = np.ascontiguousarray(array if is_real else np.nan, dtype)
        if not np.isfinite(cast[name]).all():
            met = "numbers that are not finite" if is_real else array.dtype
            raise InputError(
                f"`{name}` in {path} must hold real numbers that are finite in {dtype}, got {met}. "
                "Write it again."
            )
    layers = [Layer(*(cast[f"{kind}{k}"] for kind in ("wk", "wv", "wo"))) for k in (1, 2)]
    scale = d**-0.5 if scale_scores else 1.0
    return Model(cast["tok_embeddings"], cast["pe"], cast["output"], *layers, score_scale=scale)


def read_sequences(path: str | Path, num_tokens: int | None = None) -> Sequences | None:
    """The sequences in a .npz file, if it has any: `seq` (S, T + 1), `triggers`, and perhaps `outs`.

    `triggers` are (K,), or (S, K) where they differ; `outs` says how often each trigger has come.
    """
    arrays = _read(path, ("seq", "triggers", "outs"))
    if "seq" not in arrays:
        return None
    _require(path, arrays, ("seq", "triggers"))
    for name, array in arrays.items():
        if array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0:
            raise InputError(
                f"`{name}` in {path} must hold whole numbers from 0 on, got {array.dtype} of shape "
                f"{array.shape}{_least(array)}. Write it again."
            )
    tokens, triggers = arrays["seq"], arrays["triggers"]
    if tokens.ndim != 2 or not 3 <= tokens.shape[1] <= MAX_LENGTH + 1:
        raise InputError(
            f"`seq` in {path} must have shape (S, T + 1) with T from 2 to {MAX_LENGTH}, got "
            f"{tokens.shape}. Cut the sequences."
        )
    S = len(tokens)
    N = int(tokens.max()) + 1 if num_tokens is None else num_tokens
    if tokens.max() >= N or N > MAX_TOKENS:
        raise InputError(
            f"`seq` in {path} must hold tokens from 0 to {min(N, MAX_TOKENS) - 1}, got up to "
            f"{tokens.max()}. Give sequences that fit the model."
        )
    if triggers.ndim not in (1, 2) or triggers.shape[:-1] not in ((), (S,)) or triggers.max() >= N:
        raise InputError(
            f"`triggers` in {path} must be tokens below {N} of shape (K,) or ({S}, K), got shape "
            f"{triggers.shape}, up to {triggers.max()}."
        )
    triggers = np.broadcast_to(triggers, (S, triggers.shape[-1])).astype(int)
    tokens = tokens.astype(np.uint8)
    counted = arrays.get("outs")
    if counted is None:
        counted = count_occurrences(tokens, triggers)
    if counted.shape != tokens.shape or counted.max() > MAX_LENGTH + 1:
        raise InputError(
            f"`outs` in {path} must have the shape of seq, {tokens.shape}, and count at most to "
            f"{MAX_LENGTH + 1}, got {counted.shape}, up to {counted.max()}."
        )
    return Sequences(tokens, counted.astype(np.uint16), triggers, N)


def _least(array: np.ndarray) -> str:
    return f", least {array.min()}" if array.size and array.dtype.kind in "iuf" else ""


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


def _read(path: str | Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Those of the named arrays that a file has."""
    try:
        found = read_npz(path, names)
    except FileNotFoundError:
        raise InputError(f"{path} is not there. Check the name.") from None
    except Exception as error:  # of what type depends on where a file is damaged
        raise InputError(
            f"{path} cannot be read as .npz ({one_line(error)}). Name another file."
        ) from None
    strange = [name for name, array in found.items() if not isinstance(array, np.ndarray)]
    if strange:
        raise InputError(f"`{strange[0]}` in {path} is not an array. Name another file.")
    return found


def _require(path: str | Path, arrays: dict[str, np.ndarray], names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(
            f"{path} lacks {', '.join(missing)}. It must have {', '.join(names)}, as arrays."
        )
